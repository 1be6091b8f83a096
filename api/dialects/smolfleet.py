"""The dialect smolfleet: `/v1/nodes…` (floor 3). What is ours in it: docs/dialects/smolfleet.md."""

from __future__ import annotations

from typing import TYPE_CHECKING

from api.dialects import smolfleet_node as node
from api.dialects.calls import Asked, Call, Dialect, Reply, Shown
from api.dialects.gateway import Gateway
from api.dialects.refusal import Kind, Refusal
from api.dialects.registration import is_of
from api.dialects.rules import SMOLFLEET
from events.facts import AnnotationsSet, Drained, FactData, Retired, Undrained
from projections.evolve_operator import DRAINING

if TYPE_CHECKING:
    from decimal import Decimal

    from api.answers import Answers
    from api.writing import Decide
    from projections.state import NodeState

STATUSES: dict[Kind, int] = {
    "malformed": 400,
    "invalid": 422,
    "unauthorized": 401,
    "forbidden": 403,
    "unknown_route": 404,
    "method_not_allowed": 405,
    "missing": 404,
    "conflict": 409,
    "oversized": 413,
    "unavailable": 503,
    "internal": 500,
}
ERROR = {
    "type": "object",
    "required": ["code", "error"],
    "properties": {"code": {"type": "string"}, "error": {"type": "string", "minLength": 1}},
}
ONE = Shown("The node", node.NODE_INFO)


def dialect(answers: Answers) -> Dialect:
    """Return the dialect over what the application answers from."""
    does = _Smolfleet(answers)
    return Dialect(
        name=SMOLFLEET,
        title="smolfleet, as Fleetfold speaks it",
        prefixes=("/v1/nodes",),
        calls=(
            Call(
                method="GET", path="/v1/nodes", does=does.all, summary="Every node",
                answers={200: Shown("All of them", {"type": "array", "items": node.NODE_INFO})},
            ),
            Call(
                method="POST", path="/v1/nodes/register", does=does.register, summary="Register a node",
                takes=node.NODE_INFO, answers={200: Shown("Node registered", node.NODE_INFO)},
                refusals=(400, 403, 409, 413, 422),
            ),
            Call(
                method="GET", path="/v1/nodes/{id}", does=does.get, summary="One node",
                answers={200: ONE}, refusals=(400,),
            ),
            Call(
                method="DELETE", path="/v1/nodes/{id}", does=does.delete, summary="Retire a node",
                answers={204: Shown("It is retired")}, refusals=(400, 409),
            ),
            Call(
                method="POST", path="/v1/nodes/{id}/heartbeat", does=does.heartbeat,
                summary="A node is alive", takes=node.BEAT, needs_body=False,
                answers={200: Shown("Heartbeat accepted", node.NODE_INFO)},
                refusals=(400, 403, 409, 413, 422),
            ),
            Call(
                method="POST", path="/v1/nodes/{id}/drain", does=does.drain,
                summary="Place no more work there",
                answers={200: Shown("Node draining", node.NODE_INFO)}, refusals=(400, 409),
            ),
            Call(
                method="POST", path="/v1/nodes/{id}/undrain", does=does.undrain, summary="Take a drain back",
                answers={200: ONE}, refusals=(400, 409),
            ),
            Call(
                method="DELETE", path="/v1/nodes/{id}/credential", does=does.revoke,
                summary="Take no more reports from a node",
                answers={204: Shown("Credential revoked")}, refusals=(400, 409),
            ),
        ),
        refuse=_refused,
        refused_as=Shown("Refused, with a word for programs and a sentence", ERROR),
        may_always_come=(404, 405, 500, 503),
        beside=lambda asked: {"x-request-id": asked.request_id},
    )  # fmt: skip


class _Smolfleet:
    """The calls."""

    def __init__(self, answers: Answers) -> None:
        interval_s = answers.service.dialects.intervals_s[SMOLFLEET]
        self._gateway = Gateway(answers, dialect=SMOLFLEET, interval_s=interval_s)

    async def register(self, asked: Asked) -> Reply:
        native_id, info = node.read_registration(asked.members())

        def decide(state: NodeState | None) -> list[FactData]:
            told = info
            if state is not None and is_of(state, SMOLFLEET):
                _refuse_revoked(state)
                told = node.newer_than(state, self._gateway.heartbeat(state), info)
                told = {**told, "registeredAt": node.reported(state)["registeredAt"]}
            return self._gateway.registration(state, node.report(native_id, told), begins_anew_when_lost=True)

        written = await self._gateway.write(native_id, decide)
        return self._shown(written.state)

    async def all(self, _asked: Asked) -> Reply:
        states = await self._gateway.all()
        return Reply(200, [self._info(state) for state in states])

    async def get(self, asked: Asked) -> Reply:
        return self._shown(self._known(asked))

    async def heartbeat(self, asked: Asked) -> Reply:
        state = self._known(asked)
        _refuse_revoked(state)
        said = node.read_beat(asked.members_if_any())
        used = {name: said.pop(name) for name in tuple(node.USED) if name in said}
        if said:

            def decide(current: NodeState | None) -> list[FactData]:
                current = self._still_known(current, asked)
                told = {**node.reported(current), **said}
                return self._gateway.registration(current, node.report(asked.values["id"], told))

            written = await self._gateway.write(asked.values["id"], decide)
            state = self._still_known(written.state, asked)
        measured = self._measured(state, used)
        return self._shown(await self._gateway.beat(state, used=measured))

    async def drain(self, asked: Asked) -> Reply:
        def decide(state: NodeState | None) -> list[FactData]:
            if _is_drained(self._still_known(state, asked)):
                return []
            return [
                Drained(
                    owner=SMOLFLEET,
                    actor=SMOLFLEET,
                    reason="drained through the dialect",
                    request_id=asked.request_id,
                )
            ]

        return await self._decided(asked, decide)

    async def undrain(self, asked: Asked) -> Reply:
        def decide(state: NodeState | None) -> list[FactData]:
            if not _is_drained(self._still_known(state, asked)):
                return []
            return [Undrained(owner=SMOLFLEET, actor=SMOLFLEET, request_id=asked.request_id)]

        return await self._decided(asked, decide)

    async def delete(self, asked: Asked) -> Reply:
        def decide(state: NodeState | None) -> list[FactData]:
            held = self._still_known(state, asked).standing_allocations
            if held:
                raise Refusal("conflict", f"node {asked.values['id']} still holds {len(held)} workload(s)")
            return [Retired(actor=SMOLFLEET, reason="deleted", request_id=asked.request_id)]

        self._known(asked)
        await self._gateway.write(asked.values["id"], decide)
        return Reply(204)

    async def revoke(self, asked: Asked) -> Reply:
        def decide(state: NodeState | None) -> list[FactData]:
            if _is_revoked(self._still_known(state, asked)):
                return []
            return [
                AnnotationsSet(
                    annotations={node.CREDENTIAL: node.REVOKED}, actor=SMOLFLEET, request_id=asked.request_id
                )
            ]

        self._known(asked)
        await self._gateway.write(asked.values["id"], decide)
        return Reply(204)

    async def _decided(self, asked: Asked, decide: Decide) -> Reply:
        self._known(asked)
        written = await self._gateway.write(asked.values["id"], decide)
        return self._shown(written.state)

    def _known(self, asked: Asked) -> NodeState:
        return self._still_known(self._gateway.find(asked.values["id"]), asked)

    def _still_known(self, state: NodeState | None, asked: Asked) -> NodeState:
        if state is None or not is_of(state, SMOLFLEET):
            raise Refusal("missing", f"node {asked.values['id'][:200]} is not registered")
        return state

    def _measured(self, state: NodeState, said: node.Info) -> dict[str, Decimal]:
        """Return what a beat carries: what it says over what was measured last.

        Values that came with a registration alone are not repeated as if they were measured anew.
        """
        beat = self._gateway.heartbeat(state)
        last = node.used_members(state, beat)
        if not said and not (beat is not None and beat.used):
            return {}
        return node.used_amounts({**last, **said})

    def _info(self, state: NodeState) -> node.Info:
        return node.node_info(state, self._gateway.answers.projection.heartbeat(state.node_id))

    def _shown(self, state: NodeState | None) -> Reply:
        assert state is not None, "what was written is there"
        return Reply(200, self._info(state))


def _is_drained(state: NodeState) -> bool:
    return any(hold.kind == DRAINING and hold.owner == SMOLFLEET for hold in state.standing_holds)


def _is_revoked(state: NodeState) -> bool:
    return state.effective_annotations.get(node.CREDENTIAL) == node.REVOKED


def _refuse_revoked(state: NodeState) -> None:
    if _is_revoked(state):
        raise Refusal("forbidden", "the credential of this node is revoked", word="credential_revoked")


def _refused(refusal: Refusal, _asked: Asked) -> Reply:
    body = {"code": refusal.word or refusal.kind, "error": refusal.detail or refusal.kind}
    return Reply(STATUSES.get(refusal.kind, 500), body, headers=refusal.headers)
