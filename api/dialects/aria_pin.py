"""The dialect Aria PIN: `/v1/agent…` (floor 3). What is ours in it: docs/dialects/aria-pin.md."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from api.dialects import aria_pin_node as node
from api.dialects.aria_pin_gpus import measured
from api.dialects.aria_pin_names import Names, NotThisOneError
from api.dialects.calls import Asked, Call, Dialect, Reply, Shown, fingerprint, is_one_of
from api.dialects.gateway import Gateway
from api.dialects.refusal import Kind, Refusal
from api.dialects.registration import is_of
from api.dialects.rules import ARIA_PIN
from events.facts import AnnotationsSet, DisplayNameSet, FactData, Restored, Retired

if TYPE_CHECKING:
    from collections.abc import Callable

    from api.answers import Answers
    from projections.state import NodeState

STATUSES: dict[Kind, int] = {
    "malformed": 422,
    "invalid": 422,
    "unauthorized": 401,
    "unknown_route": 404,
    "method_not_allowed": 405,
    "missing": 404,
    "conflict": 409,
    "oversized": 413,
    "unavailable": 503,
}
ERROR = {"type": "object", "required": ["detail"], "properties": {"detail": {"type": "string"}}}
_READ = (409, 413, 422)
ONE = Shown("The agent", node.DETAILS)


def dialect(answers: Answers) -> Dialect:
    """Return the dialect over what the application answers from."""
    does = _Aria(answers)
    return Dialect(
        name=ARIA_PIN,
        title="Aria Compute PIN, as Fleetfold speaks it",
        prefixes=("/v1/agent", "/v1/agents"),
        calls=(
            Call(
                method="POST", path="/v1/agent/register", does=does.register, summary="Register an agent",
                takes=node.REGISTRATION, answers={200: Shown("Agent registered", node.AGENT)}, refusals=_READ,
            ),
            Call(
                method="POST", path="/v1/agent/heartbeat", does=does.heartbeat, summary="An agent is alive",
                takes=node.BEAT, answers={200: Shown("Heartbeat accepted", node.AGENT)}, refusals=_READ,
            ),
            Call(
                method="GET", path="/v1/agents", does=does.all, summary="Every agent and planned row",
                answers={
                    200: Shown(
                        "All of them",
                        {
                            "type": "object",
                            "required": ["agents"],
                            "properties": {"agents": {"type": "array", "items": node.DETAILS}},
                        },
                    )
                },
            ),
            Call(
                method="POST", path="/v1/agents", does=does.plan, summary="Create a row for an agent to come",
                takes=node.PLAN, refusals=_READ,
                answers={200: Shown("It is there already", node.DETAILS), 201: ONE},
            ),
            Call(
                method="GET", path="/v1/agents/{id}", does=does.get, summary="One agent",
                answers={200: ONE}, refusals=(422,),
            ),
            Call(
                method="DELETE", path="/v1/agents/{id}", does=does.delete, summary="Remove an agent",
                answers={204: Shown("It is removed")}, refusals=(409, 422),
            ),
        ),
        refuse=_refused,
        refused_as=Shown("Refused, with a sentence", ERROR),
        may_always_come=(401, 404, 405, 500, 503),
        allow=does.allow,
        security={"type": "http", "scheme": "bearer", "description": "the token of agents"},
    )  # fmt: skip


class _Aria:
    """The calls."""

    def __init__(self, answers: Answers) -> None:
        rules = answers.service.dialects
        self._gateway = Gateway(answers, dialect=ARIA_PIN, interval_s=rules.intervals_s[ARIA_PIN])
        self._tokens = rules.aria_pin.agent_tokens
        self._names = Names(self._gateway, may_speak_for=self._may_speak_for)
        self._naming: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def allow(self, asked: Asked, _call: Call) -> None:
        """Refuse who has no token of an agent; where none is set, any token will do."""
        token = asked.bearer
        if not token or (self._tokens and not is_one_of(token, self._tokens)):
            detail = "an agent token is needed" if not token else "the token is none of an agent"
            raise Refusal("unauthorized", detail, headers={"WWW-Authenticate": "Bearer"})

    async def register(self, asked: Asked) -> Reply:
        said = node.read_registration(asked.members())
        token = self._token(asked)

        async def into(native_id: str, *, is_meant: Callable[[NodeState | None], bool]) -> NodeState:
            def decide(state: NodeState | None) -> list[FactData]:
                if not is_meant(state):
                    raise NotThisOneError
                known = state if is_of(state, ARIA_PIN) else None
                if known is not None and not self._may_speak_for(known, token):
                    raise Refusal("conflict", f"agent {native_id[:200]} speaks with another token")
                report = node.report(native_id, said, token=token, known=known)
                return self._gateway.registration(state, report, begins_anew_when_lost=True)

            return self._there((await self._gateway.write(native_id, decide)).state, native_id)

        if said.native_id:
            state = await into(said.native_id, is_meant=lambda _state: True)
        else:
            lock = self._naming.setdefault(said.name, asyncio.Lock())
            async with lock:
                state = await self._names.registered(said, token, into)
        state = await self._gateway.beat(state, used=self._used(state, said))
        return Reply(200, node.agent(state, self._gateway.heartbeat(state), gpus=said.gpus))

    async def heartbeat(self, asked: Asked) -> Reply:
        said = node.read_beat(asked.members())
        state = self._own(self._gateway.find(said.native_id), said.native_id, asked)
        if said.gpus is not None or said.status is not None:

            def decide(current: NodeState | None) -> list[FactData]:
                known = self._own(current, said.native_id, asked)
                return self._gateway.registration(known, node.merged(said.native_id, said, known))

            state = self._there((await self._gateway.write(said.native_id, decide)).state, said.native_id)
        state = await self._gateway.beat(state, used=self._used(state, said))
        return Reply(200, node.agent(state, self._gateway.heartbeat(state)))

    async def all(self, _asked: Asked) -> Reply:
        states = await self._names.all()
        return Reply(200, {"agents": [self._details(state) for state in states]})

    async def get(self, asked: Asked) -> Reply:
        return Reply(200, self._details(self._known(asked.values["id"])))

    async def plan(self, asked: Asked) -> Reply:
        said = node.read_plan(asked.members())
        by = {"actor": self._actor(asked), "request_id": asked.request_id}

        async def into(native_id: str, *, is_meant: Callable[[NodeState | None], bool]) -> Reply:
            def decide(state: NodeState | None) -> list[FactData]:
                if not is_meant(state):
                    raise NotThisOneError
                return _planned(state, native_id, said.name, by)

            written = await self._gateway.write(native_id, decide)
            assert written.state is not None, "it was planned"
            is_new = written.before is None or not node.is_planned(written.before)
            return Reply(201 if is_new else 200, self._details(written.state))

        if said.native_id:
            return await into(said.native_id, is_meant=lambda _state: True)
        lock = self._naming.setdefault(said.name, asyncio.Lock())
        async with lock:
            return await self._names.planned(said.name, self._token(asked), into)

    async def delete(self, asked: Asked) -> Reply:
        native_id = asked.values["id"]

        def decide(state: NodeState | None) -> list[FactData]:
            there = self._own(state, native_id, asked)
            held = there.standing_allocations
            if held:
                raise Refusal("conflict", f"agent {native_id[:200]} still holds {len(held)} workload(s)")
            return [Retired(actor=self._actor(asked), reason="removed", request_id=asked.request_id)]

        self._own(self._known(native_id), native_id, asked)
        await self._gateway.write(native_id, decide)
        return Reply(204)

    def _token(self, asked: Asked) -> str:
        return fingerprint(asked.bearer or "")

    def _actor(self, asked: Asked) -> str:
        return f"{ARIA_PIN}:{self._token(asked)}"

    def _may_speak_for(self, state: NodeState, token: str) -> bool:
        """Say whether a token is the one that an agent is bound to, or that one is no token any more."""
        bound = node.speaks_with(state)
        return bound in (token, "") or bool(
            self._tokens and bound not in {fingerprint(one) for one in self._tokens}
        )

    def _known(self, native_id: str) -> NodeState:
        return self._there(self._gateway.answers.projection.node(self._gateway.node_id(native_id)), native_id)

    def _there(self, state: NodeState | None, native_id: str) -> NodeState:
        if state is None or not (is_of(state, ARIA_PIN) or node.is_planned(state)):
            raise Refusal("missing", f"agent {native_id[:200]} is not known")
        return state

    def _own(self, state: NodeState | None, native_id: str, asked: Asked) -> NodeState:
        """Return an agent that whoever asks may speak for; raise Refusal (missing, conflict)."""
        there = self._there(state, native_id)
        if not self._may_speak_for(there, self._token(asked)):
            raise Refusal("conflict", f"agent {native_id[:200]} speaks with another token")
        return there

    def _used(self, state: NodeState, said: node.Said) -> dict[str, Decimal | None]:
        """Return what a heartbeat carries: what is measured, else what was measured last."""
        if said.gpus is not None:
            return dict(measured(said.gpus))
        beat = self._gateway.heartbeat(state)
        used = beat.used if beat is not None else {}
        return {name: None if value is None else Decimal(repr(value)) for name, value in used.items()}

    def _details(self, state: NodeState) -> dict[str, object]:
        return node.details(state, self._gateway.heartbeat(state))


def _planned(state: NodeState | None, native_id: str, name: str, by: dict[str, str]) -> list[FactData]:
    """Return the facts that make a row of a node, none where it is one by that name already."""
    if is_of(state, ARIA_PIN):
        raise Refusal("conflict", f"agent {native_id[:200]} is registered already")
    if state is not None and node.is_planned(state) and state.effective_display_name == name:
        return []
    facts: list[FactData] = []
    if state is not None and state.retired_at is not None:
        if state.registered_at is not None:
            raise Refusal(
                "conflict", f"agent {native_id[:200]} was removed: it is back once it registers again"
            )
        facts.append(Restored.model_validate({**by, "reason": "created again"}))
    facts.append(DisplayNameSet.model_validate({**by, "display_name": name}))
    if state is None or state.effective_annotations.get(node.PLANNED) != "true":
        facts.append(AnnotationsSet.model_validate({**by, "annotations": {node.PLANNED: "true"}}))
    return facts


def _refused(refusal: Refusal, _asked: Asked) -> Reply:
    body = {"detail": refusal.detail or refusal.kind}
    return Reply(STATUSES.get(refusal.kind, 500), body, headers=refusal.headers)
