"""The dialect Stratum: `/v1/compute/nodes…` (floor 3). What is ours in it: docs/dialects/stratum.md."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from api.dialects import stratum_node as node
from api.dialects import stratum_power as power
from api.dialects import stratum_schema as schema
from api.dialects.calls import Asked, Call, Dialect, Reply, Shown, fingerprint, is_one_of
from api.dialects.gateway import Gateway
from api.dialects.refusal import Kind, Refusal
from api.dialects.registration import Report, is_of
from api.dialects.rules import STRATUM
from api.dialects.stratum_patch import decided, read_patch
from api.dialects.stratum_reservation import CPU, MEMORY, installed
from events.facts import AnnotationsSet, FactData, Retired

if TYPE_CHECKING:
    from collections.abc import Mapping

    from api.answers import Answers
    from projections.heartbeats import Heartbeat
    from projections.state import NodeState

CODES: dict[Kind, tuple[int, str]] = {
    "malformed": (400, "INVALID_INPUT"),
    "invalid": (400, "INVALID_INPUT"),
    "unauthorized": (401, "UNAUTHENTICATED"),
    "forbidden": (403, "FORBIDDEN"),
    "unknown_route": (404, "NOT_FOUND"),
    "missing": (404, "NODE_NOT_FOUND"),
    "method_not_allowed": (405, "METHOD_NOT_ALLOWED"),
    "conflict": (409, "CONFLICT"),
    "oversized": (413, "BODY_TOO_LARGE"),
    "unavailable": (503, "UNAVAILABLE"),
}
AGENT, USER, ADMIN = "an agent", "a user", "an administrator"
MAY: dict[str, frozenset[str]] = {
    "PUT": frozenset({AGENT}),
    "GET": frozenset({AGENT, USER, ADMIN}),
    "PATCH": frozenset({ADMIN}),
    "POST": frozenset({ADMIN}),
    "DELETE": frozenset({ADMIN}),
}
"""Who may make the calls of a method."""
CONTROL_PLANE = ("control-plane", "hybrid")
ONE = Shown("The node", schema.NODE)
NODE = "/v1/compute/nodes/{nodeId}"


def dialect(answers: Answers) -> Dialect:
    """Return the dialect over what the application answers from."""
    does = _Stratum(answers)
    return Dialect(
        name=STRATUM,
        title="Stratum, as Fleetfold speaks it",
        prefixes=("/v1/compute",),
        calls=(
            Call(
                method="PUT", path=f"{NODE}/heartbeat", does=does.heartbeat,
                summary="A node is alive, and what it is", takes=schema.HEARTBEAT,
                answers={200: Shown("Heartbeat accepted", schema.NODE)}, refusals=(400, 409, 413),
            ),
            Call(
                method="GET", path="/v1/compute/nodes", does=does.all, summary="Every node",
                answers={
                    200: Shown(
                        "All of them",
                        {
                            "type": "object",
                            "required": ["nodes"],
                            "properties": {"nodes": {"type": "array", "items": schema.NODE}},
                        },
                    )
                },
            ),
            Call(
                method="GET", path=NODE, does=does.get, summary="One node",
                answers={200: ONE}, refusals=(400,),
            ),
            Call(
                method="PATCH", path=NODE, does=does.patch,
                summary="Give a node a name, a reservation, a state", takes=schema.PATCH,
                answers={200: ONE}, refusals=(400, 409, 413),
            ),
            Call(
                method="POST", path=f"{NODE}/power", does=does.power, summary="Shut a node down, reboot it",
                takes=schema.POWER, answers={202: Shown("The host acts soon", schema.NODE)},
                refusals=(400, 409, 413),
            ),
            Call(
                method="DELETE", path=NODE, does=does.delete, summary="Retire a node",
                answers={204: Shown("It is retired")}, refusals=(400, 409),
            ),
        ),
        refuse=_refused,
        refused_as=Shown("Refused, with a code, a sentence, and what is wrong where", schema.ERROR),
        may_always_come=(401, 403, 404, 405, 500, 503),
        allow=does.allow,
        security={"type": "http", "scheme": "bearer", "description": "the token of a role"},
    )  # fmt: skip


class _Stratum:
    """The calls."""

    def __init__(self, answers: Answers) -> None:
        rules = answers.service.dialects
        self._rules, self._interval_s = rules.stratum, rules.intervals_s[STRATUM]
        self._gateway = Gateway(answers, dialect=STRATUM, interval_s=self._interval_s)
        self._roles = {
            AGENT: self._rules.agent_tokens,
            USER: self._rules.user_tokens,
            ADMIN: self._rules.admin_tokens,
        }
        self._beating: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def allow(self, asked: Asked, call: Call) -> None:
        """Refuse who has no token, or one of another role; where none is set at all, any token will do."""
        token = asked.bearer
        roles = {role for role, tokens in self._roles.items() if token and is_one_of(token, tokens)}
        if not token or (not roles and any(self._roles.values())):
            detail = "a bearer token is needed" if not token else "the token is not known"
            raise Refusal("unauthorized", detail, headers={"WWW-Authenticate": "Bearer"})
        needed = MAY[call.method]
        if any(self._roles.values()) and not roles & needed:
            raise Refusal("forbidden", f"this is for {' or '.join(sorted(needed))}")

    async def heartbeat(self, asked: Asked) -> Reply:
        native_id = asked.values["nodeId"]
        body = asked.members()
        if not node.NODE_ID.fullmatch(native_id):
            body.fault("nodeId", f"does not fit {node.NODE_ID.pattern}")
        now = datetime.now(UTC)
        said = node.read_heartbeat(body, now=now)
        lock = self._beating.setdefault(native_id, asyncio.Lock())
        async with lock:
            state, before = self._gateway.find(native_id), None
            used: Mapping[str, Decimal | None]
            if state is not None:
                before = self._gateway.heartbeat(state)
            if state is not None and before is not None and self._is_late(state, before, said, now=now):
                used = node.measured_last(before)
            else:
                state, used = await self._told(asked, said, now=now), node.measured(said)
            return self._shown(await self._gateway.beat(state, used=used))

    def _is_late(self, state: NodeState, before: Heartbeat, said: node.Said, *, now: datetime) -> bool:
        """Say whether a heartbeat was sampled before the last one, in the same boot.

        A host that has booted may have lost its clock; what it says of itself is the newest there is.
        """
        proof = power.booted(state, before, now=now, interval_s=self._interval_s)
        return proof is None and node.is_late(said, before)

    async def _told(self, asked: Asked, said: node.Said, *, now: datetime) -> NodeState:
        """Append what a heartbeat says news of: the node, what it is, that it has booted."""
        native_id = asked.values["nodeId"]

        def decide(current: NodeState | None) -> list[FactData]:
            known = current if is_of(current, STRATUM) else None
            proof = None
            if known is not None:
                proof = power.booted(
                    known, self._gateway.heartbeat(known), now=now, interval_s=self._interval_s
                )
            report = node.report(native_id, said, known=known, rules=self._rules, proof=proof)
            facts = self._gateway.registration(current, report, begins_anew=proof is not None)
            return facts if known is not None else [*facts, *self._installed(report, asked)]

        written = await self._gateway.write(native_id, decide)
        return self._still_known(written.state, asked)

    async def all(self, _asked: Asked) -> Reply:
        states = await self._gateway.all()
        return Reply(200, {"nodes": [self._record(state) for state in states]})

    async def get(self, asked: Asked) -> Reply:
        return self._shown(self._known(asked))

    async def patch(self, asked: Asked) -> Reply:
        wanted = read_patch(asked.members())
        by = self._by(asked)

        def decide(state: NodeState | None) -> list[FactData]:
            return decided(self._still_known(state, asked), wanted, by=by)

        self._known(asked)
        written = await self._gateway.write(asked.values["nodeId"], decide)
        return self._shown(self._still_known(written.state, asked))

    async def power(self, asked: Asked) -> Reply:
        body = asked.members()
        action = body.needed_text("action", choices=power.ACTIONS)
        body.done()
        self._known(asked)
        others = [
            state
            for state in await self._gateway.all()
            if state.role in CONTROL_PLANE and state.liveness != "lost"
        ]
        now, by = datetime.now(UTC), self._by(asked)

        def decide(state: NodeState | None) -> list[FactData]:
            known = self._still_known(state, asked)
            if known.liveness == "lost":
                raise Refusal("conflict", "the node is unreachable: its host hears of no action")
            is_last = known.role in CONTROL_PLANE and all(one.node_id == known.node_id for one in others)
            text = power.text_of(known, action, now=now, is_last_control_plane=is_last)
            reason = f"{action} asked through the dialect"
            return [
                AnnotationsSet.model_validate(
                    {**by, "reason": reason, "annotations": {power.ANNOTATION: text}}
                )
            ]

        written = await self._gateway.write(asked.values["nodeId"], decide)
        return Reply(202, self._record(self._still_known(written.state, asked)))

    async def delete(self, asked: Asked) -> Reply:
        def decide(state: NodeState | None) -> list[FactData]:
            held = self._still_known(state, asked).standing_allocations
            if held:
                raise Refusal(
                    "conflict", f"node {asked.values['nodeId']} still holds {len(held)} workload(s)"
                )
            return [Retired.model_validate({**self._by(asked), "reason": "deleted"})]

        self._known(asked)
        await self._gateway.write(asked.values["nodeId"], decide)
        return Reply(204)

    def _installed(self, report: Report, asked: Asked) -> list[FactData]:
        """Return what the installation reserves of a node that registers for the first time."""
        reserved = self._rules.host_reservation
        if reserved is None:
            return []
        numbers = {
            CPU: reserved.vcpus or None,
            MEMORY: Decimal(reserved.memory_bytes) if reserved.memory_bytes else None,
        }
        return [installed(numbers, report.resources, by={**self._by(asked), "actor": STRATUM})]

    def _by(self, asked: Asked) -> dict[str, str]:
        """Return who decides, as facts say it: no token, but which one it was."""
        return {
            "actor": f"{STRATUM}:{fingerprint(asked.bearer or '')}",
            "request_id": asked.request_id,
        }

    def _known(self, asked: Asked) -> NodeState:
        return self._still_known(self._gateway.find(asked.values["nodeId"]), asked)

    def _still_known(self, state: NodeState | None, asked: Asked) -> NodeState:
        if state is None or not is_of(state, STRATUM):
            raise Refusal("missing", f"node {asked.values['nodeId'][:200]} is not registered")
        return state

    def _record(self, state: NodeState) -> dict[str, Any]:
        return node.record(state, self._gateway.heartbeat(state), interval_s=self._interval_s)

    def _shown(self, state: NodeState) -> Reply:
        return Reply(200, self._record(state))


def _refused(refusal: Refusal, _asked: Asked) -> Reply:
    status, code = CODES.get(refusal.kind, (500, "INTERNAL"))
    body: dict[str, Any] = {"code": refusal.word or code, "message": refusal.detail or code}
    if status == 400:
        faults = refusal.faults or [("", refusal.detail)]
        body["fields"] = [{"field": field, "message": message} for field, message in faults]
    return Reply(status, body, headers=refusal.headers)
