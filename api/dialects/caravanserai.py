"""The dialect Caravanserai: `/api/v1/nodes…` (floor 3). What is ours in it: docs/dialects/caravanserai.md."""

from __future__ import annotations

from datetime import UTC, datetime
from http import HTTPStatus
from typing import TYPE_CHECKING

from api.dialects import caravanserai_node as shape
from api.dialects import caravanserai_schema as schema
from api.dialects.calls import Asked, Call, Dialect, Reply, Shown
from api.dialects.gateway import Gateway
from api.dialects.refusal import Kind, Refusal
from api.dialects.registration import attributes, is_of
from api.dialects.rules import CARAVANSERAI
from events.facts import Drained, FactData, Retired, Undrained
from projections.evolve_operator import DRAINING

if TYPE_CHECKING:
    from typing import Any

    from api.answers import Answers
    from projections.state import NodeState

PROBLEM = "application/problem+json"
TYPE = "https://developer.mozilla.org/en-US/docs/Web/HTTP/Status/"
STATUSES: dict[Kind, int] = {
    "malformed": 400,
    "invalid": 400,
    "unknown_route": 404,
    "method_not_allowed": 405,
    "missing": 404,
    "conflict": 409,
    "oversized": 413,
    "unavailable": 503,
    "internal": 500,
}
TITLES = {400: "Validation Problem"}
ERROR: dict[str, Any] = {
    "type": "object",
    "required": ["title", "status", "type", "detail"],
    "properties": {
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "type": {"type": "string"},
        "detail": {"type": "string"},
    },
}
LIST: dict[str, Any] = {
    "type": "object",
    "required": ["apiVersion", "kind", "items"],
    "properties": {
        "apiVersion": {"const": schema.API_VERSION},
        "kind": {"const": "NodeList"},
        "items": {"type": "array", "items": schema.NODE},
    },
}


def dialect(answers: Answers) -> Dialect:
    """Return the dialect over what the application answers from."""
    does = _Caravanserai(answers)
    return Dialect(
        name=CARAVANSERAI,
        title="Caravanserai, as Fleetfold speaks it",
        prefixes=("/api/v1", "/api/healthz"),
        calls=(
            Call(
                method="GET", path="/api/v1/nodes", does=does.all, summary="Every node",
                answers={200: Shown("All of them", LIST)},
            ),
            Call(
                method="POST", path="/api/v1/nodes", does=does.create, summary="Register a node",
                takes=schema.CREATE, answers={201: Shown("It is registered", schema.NODE)},
                refusals=(400, 409, 413),
            ),
            Call(
                method="GET", path="/api/v1/nodes/{name}", does=does.get, summary="One node",
                answers={200: Shown("The node", schema.NODE)}, refusals=(400,),
            ),
            Call(
                method="PUT", path="/api/v1/nodes/{name}", does=does.replace,
                summary="Replace what is declared of a node",
                takes=schema.REPLACE, answers={200: Shown("The node", schema.NODE)}, refusals=(400, 409, 413),
            ),
            Call(
                method="DELETE", path="/api/v1/nodes/{name}", does=does.delete, summary="Retire a node",
                answers={204: Shown("It is retired")}, refusals=(400, 409),
            ),
            Call(
                method="POST", path="/api/v1/nodes/{name}/heartbeat", does=does.heartbeat,
                summary="A node is alive", takes=schema.BEAT, needs_body=False,
                answers={204: Shown("Heartbeat accepted")}, refusals=(400, 409, 413),
            ),
            Call(
                method="GET", path="/api/healthz", does=does.healthz, summary="Whether the service answers",
                answers={200: Shown("It does", {"const": "OK"}, "text/plain")},
            ),
        ),
        refuse=_refused,
        refused_as=Shown("Refused, as a problem", ERROR, PROBLEM),
        may_always_come=(404, 405, 500, 503),
    )  # fmt: skip


class _Caravanserai:
    """The calls."""

    def __init__(self, answers: Answers) -> None:
        self._rules = answers.service.dialects.caravanserai
        self._believes_beats = self._rules.heartbeat_state == "documented"
        interval_s = answers.service.dialects.intervals_s[CARAVANSERAI]
        self._gateway = Gateway(answers, dialect=CARAVANSERAI, interval_s=interval_s)

    async def create(self, asked: Asked) -> Reply:
        name, wanted = shape.read_node(
            asked.members(is_null_missing=True), name_pattern=schema.NAME_RULES[self._rules.name_rule]
        )

        def decide(state: NodeState | None) -> list[FactData]:
            if is_of(state, CARAVANSERAI):
                raise Refusal("conflict", f"node already exists: {name}")
            # What was declared of an earlier incarnation is none of this one's.
            return [
                *self._gateway.registration(state, shape.report(name, wanted.hostname, {})),
                *shape.declarations(None, wanted, request_id=asked.request_id),
            ]

        written = await self._gateway.write(name, decide)
        return Reply(201, self._shown(written.state))

    async def all(self, _asked: Asked) -> Reply:
        items = [self._shown(state) for state in await self._gateway.all()]
        return Reply(200, {"apiVersion": schema.API_VERSION, "kind": "NodeList", "items": items})

    async def get(self, asked: Asked) -> Reply:
        return Reply(200, self._shown(self._known(asked)))

    async def replace(self, asked: Asked) -> Reply:
        name, now = asked.values["name"], datetime.now(UTC)
        said, wanted = shape.read_node(asked.members(is_null_missing=True), name_pattern=None)
        if said and said != name:
            raise Refusal("invalid", f"metadata.name is {said[:200]!r}, the path says {name[:200]!r}")
        self._known(asked)

        def decide(state: NodeState | None) -> list[FactData]:
            state = self._still_known(state, asked)
            facts = shape.declarations(state, wanted, request_id=asked.request_id)
            if not facts and wanted.hostname == (state.hostname or ""):
                return []
            told = shape.revised(attributes(state), now=now)
            return [*self._gateway.registration(state, shape.report(name, wanted.hostname, told)), *facts]

        written = await self._gateway.write(name, decide)
        return Reply(200, self._shown(written.state))

    async def delete(self, asked: Asked) -> Reply:
        name = asked.values["name"]
        self._known(asked)

        def decide(state: NodeState | None) -> list[FactData]:
            held = self._still_known(state, asked).standing_allocations
            if held:
                raise Refusal(
                    "conflict", f'cannot delete node "{name}": {len(held)} project(s) still assigned'
                )
            return [Retired(actor=CARAVANSERAI, reason="deleted", request_id=asked.request_id)]

        await self._gateway.write(name, decide)
        return Reply(204)

    async def heartbeat(self, asked: Asked) -> Reply:
        beat = shape.read_beat(asked.members_if_any(is_null_missing=True))
        state = self._known(asked)

        def decide(current: NodeState | None) -> list[FactData]:
            current = self._still_known(current, asked)
            told = shape.report(asked.values["name"], current.hostname or "", shape.merged(current, beat))
            return [*self._gateway.registration(current, told), *self._ordered(current, beat, asked)]

        written = await self._gateway.write(asked.values["name"], decide)
        await self._gateway.beat(written.state or state)
        return Reply(204)

    async def healthz(self, _asked: Asked) -> Reply:
        return Reply(200, text="OK", media_type="text/plain")

    def _ordered(self, state: NodeState, beat: shape.Beat, asked: Asked) -> list[FactData]:
        """Return what a beat's state decides: Draining is the one way to order a drain, and no beat ends one.

        In the profile `documented`, the last beat's state wins.
        """
        drains = shape.is_held(state, DRAINING)
        if beat.state == schema.DRAINS and not drains:
            reason = "a heartbeat said so"
            return [
                Drained(owner=CARAVANSERAI, actor=CARAVANSERAI, reason=reason, request_id=asked.request_id)
            ]
        ends = self._believes_beats and beat.state in (schema.READY, schema.NOT_READY)
        if drains and ends:
            return [Undrained(owner=CARAVANSERAI, actor=CARAVANSERAI, request_id=asked.request_id)]
        return []

    def _known(self, asked: Asked) -> NodeState:
        return self._still_known(self._gateway.find(asked.values["name"]), asked)

    def _still_known(self, state: NodeState | None, asked: Asked) -> NodeState:
        if state is None or not is_of(state, CARAVANSERAI):
            raise Refusal("missing", f"node not found: {asked.values['name'][:200]}")
        return state

    def _shown(self, state: NodeState | None) -> dict[str, Any]:
        assert state is not None, "what was written is there"
        beat = self._gateway.answers.projection.heartbeat(state.node_id)
        return shape.node(state, beat, believes_beats=self._believes_beats)


def _refused(refusal: Refusal, _asked: Asked) -> Reply:
    status = STATUSES.get(refusal.kind, 500)
    body = {
        "title": TITLES.get(status, HTTPStatus(status).phrase),
        "status": status,
        "type": f"{TYPE}{status}",
        "detail": refusal.detail or HTTPStatus(status).phrase,
    }
    return Reply(status, body, media_type=PROBLEM, headers=refusal.headers)
