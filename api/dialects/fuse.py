"""The dialect Fuse: `/v1/hosts…` and what stands beside it (floor 3). What is ours: docs/dialects/fuse.md."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from api.dialects import fuse_host as shape
from api.dialects import fuse_schema as schema
from api.dialects import fuse_sessions
from api.dialects.calls import Asked, Call, Dialect, Reply, Shown, fingerprint
from api.dialects.fuse_access import Access
from api.dialects.fuse_capacity import Answered, resolve
from api.dialects.fuse_probe import probe
from api.dialects.fuse_registration import read_registration
from api.dialects.fuse_sessions import API_KEYS
from api.dialects.fuse_url import networks
from api.dialects.gateway import Gateway
from api.dialects.refusal import Kind, Refusal
from api.dialects.registration import is_of
from api.dialects.rules import FUSE
from api.paging import decode, encode, question
from api.problems import ProblemError
from api.status import readiness
from events.facts import Cordoned, FactData, Retired, Uncordoned, Undrained
from projections.directory import NodeFilter
from projections.evolve_operator import CORDONED, DRAINING

if TYPE_CHECKING:
    from api.answers import Answers
    from api.dialects.fuse_registration import Declared
    from api.writing import Decide, Written
    from events.ids import NodeId
    from projections.state import NodeState

STATUSES: dict[Kind, tuple[int, str]] = {
    "malformed": (400, "invalid_argument"),
    "invalid": (400, "invalid_argument"),
    "unauthorized": (401, "unauthorized"),
    "forbidden": (403, "unauthorized"),
    "unknown_route": (404, "route_not_found"),
    "method_not_allowed": (405, "route_not_found"),
    "missing": (404, "not_found"),
    "conflict": (409, "conflict"),
    "oversized": (413, "payload_too_large"),
    "not_enabled": (501, "unimplemented"),
    "upstream": (502, "internal"),
    "unavailable": (503, "unavailable"),
    "internal": (500, "internal"),
}
MASTER_ONLY = frozenset({"POST", "PUT", "PATCH", "DELETE"})
PROBES = ("/ready",)
"""Paths whose answers carry no request id."""

PAGE, MAX_PAGE = 50, 200
_LIST = question(list="fuse.hosts")


def dialect(answers: Answers) -> Dialect:
    """Return the dialect over what the application answers from."""
    does = _Fuse(answers)
    host = Shown("The host", schema.HOST)
    return Dialect(
        name=FUSE,
        title="Fuse, as Fleetfold speaks it",
        prefixes=("/v1", "/ready", "/login", "/logout"),
        calls=(
            Call(
                method="POST", path="/v1/hosts", does=does.register, summary="Register or update a host",
                takes=schema.REGISTER, answers={201: Shown("It is registered", schema.HOST)},
                refusals=(400, 401, 403, 409, 413, 501, 502),
            ),
            Call(
                method="GET", path="/v1/hosts", does=does.all, summary="The hosts, page by page",
                answers={200: Shown("One page, by id", schema.HOSTS)}, refusals=(400, 401),
                query={
                    "limit": {"type": ["integer", "string"], "default": PAGE},
                    "cursor": {"type": "string"},
                },
            ),
            Call(
                method="GET", path="/v1/hosts/{hostId}", does=does.get, summary="One host",
                answers={200: host}, refusals=(400, 401),
            ),
            Call(
                method="POST", path="/v1/hosts/{hostId}", does=does.act, summary="Act on a host",
                answers={204: Shown("Done, or already so")}, refusals=(400, 401, 403, 409),
                query={"action": {"enum": ["cordon", "uncordon"]}},
            ),
            Call(
                method="DELETE", path="/v1/hosts/{hostId}", does=does.delete, summary="Retire a host",
                answers={204: Shown("It is retired")}, refusals=(400, 401, 403, 409),
            ),
            Call(
                method="GET", path="/v1/version", does=does.version, summary="What answers here",
                answers={200: Shown("Name and version", schema.VERSION)}, is_open=True,
            ),
            Call(
                method="GET", path="/ready", does=does.ready, summary="Whether everything is there",
                answers={
                    200: Shown("It is", schema.READY), 503: Shown("It is not; what is missing", schema.READY),
                }, is_open=True,
            ),
            *fuse_sessions.calls(does.access),
        ),
        refuse=_refused,
        refused_as=Shown("Refused, with a code for programs and a sentence", schema.ERROR),
        may_always_come=(404, 405, 500, 503),
        allow=does.allow,
        beside=lambda asked: {} if asked.path in PROBES else {"x-request-id": asked.request_id},
        security={"type": "http", "scheme": "bearer"},
    )  # fmt: skip


class _Fuse:
    """The calls."""

    def __init__(self, answers: Answers) -> None:
        self._answers = answers
        self._rules = answers.service.dialects.fuse
        self._store = answers.service.secrets
        self.access = Access(self._rules, self._store)
        self._networks = networks(self._rules.agent_networks)
        self._gateway = Gateway(answers, dialect=FUSE, interval_s=None)
        self._locks: WeakValueDictionary[NodeId, asyncio.Lock] = WeakValueDictionary()

    def allow(self, asked: Asked, call: Call) -> None:
        """Raise Refusal for who may not make a call: API keys read hosts, the rest is the master's."""
        if call.is_open:
            return
        principal = self.access.principal(asked)
        if principal != "master" and (call.method in MASTER_ONLY or call.path.startswith(API_KEYS)):
            raise Refusal("forbidden", f"{call.method} {call.path} requires the master token")

    async def register(self, asked: Asked) -> Reply:
        if not self._rules.may_register:
            raise Refusal("not_enabled", "host registration is disabled")
        declared = read_registration(asked.members(is_null_missing=True), networks=self._networks)
        self._gateway.node_id(declared.native_id)  # refused before anybody is asked
        outcome = await probe(
            declared.url, declared.token, allowed=self._networks, timeout_s=self._rules.probe_timeout_s
        )
        resolved = resolve(declared.capacity, outcome, backend=declared.backend, url=declared.url.text)
        report = shape.report(declared, outcome, resolved)

        def decide(state: NodeState | None) -> list[FactData]:
            if self._rules.reregister == "documented" and state is not None and is_of(state, FUSE):
                # The document says: a fresh record, of which nothing of the old one is left. That is another
                # incarnation; the log keeps the one before.
                return [
                    *shape.releases_of_sticky(state, request_id=asked.request_id),
                    Retired(actor=FUSE, reason="registered again", request_id=asked.request_id, force=True),
                    *self._gateway.registration(state, report, begins_anew=True),
                ]
            return self._gateway.registration(state, report)

        written = await self._written(declared, decide)
        state = written.state
        assert state is not None, "what was written is there"
        if not written.seqs and isinstance(outcome, Answered):
            state = await self._gateway.beat(state)  # nothing new to say, but it was seen
        warnings = [*resolved.warnings, *shape.after_registering(state, declared)]
        return Reply(201, self._info(state, warnings=warnings))

    async def all(self, asked: Asked) -> Reply:
        limit = _limit(asked.query.get("limit", ""))
        after = ""
        if cursor := asked.query.get("cursor"):
            try:
                (after,) = decode(cursor, of=_LIST)
            except (ProblemError, ValueError) as err:
                raise Refusal("invalid", "cursor is none that this list gave") from err
        states = await self._answers.questions.work(lambda: self._page(after, limit + 1))
        page: dict[str, Any] = {"hosts": [self._info(state) for state in states[:limit]]}
        if len(states) > limit:
            page["next_cursor"] = encode([states[limit - 1].node_id], of=_LIST)
        return Reply(200, page)

    async def get(self, asked: Asked) -> Reply:
        return Reply(200, self._info(self._known(asked)))

    async def act(self, asked: Asked) -> Reply:
        match asked.query.get("action"):
            case "cordon":
                await self._cordon(asked)
            case "uncordon":
                await self._uncordon(asked)
            case _:
                raise Refusal("invalid", "action is cordon or uncordon")
        return Reply(204)

    async def delete(self, asked: Asked) -> Reply:
        native_id = asked.values["hostId"]
        self._known(asked)

        def decide(state: NodeState | None) -> list[FactData]:
            held = self._still_known(state, asked).standing_allocations
            if held:
                raise Refusal("conflict", f"host {native_id} still has vm {held[0].workload} assigned")
            return [Retired(actor=FUSE, reason="deregistered", request_id=asked.request_id)]

        async with self._alone(native_id):
            await self._gateway.write(native_id, decide)
            await self._forget(native_id)
        return Reply(204)

    async def version(self, _asked: Asked) -> Reply:
        return Reply(200, {"service": "fuse-orchestrator", "version": self._answers.service.version})

    async def ready(self, _asked: Asked) -> Reply:
        try:
            readiness(self._answers)
        except ProblemError as err:
            return Reply(503, {"status": "not_ready", "checks": {"fleet": "ok", "state_store": err.detail}})
        return Reply(200, {"status": "ready", "checks": {"fleet": "ok", "state_store": "ok"}})

    async def _written(self, declared: Declared, decide: Decide) -> Written:
        """Append a registration; the token of its agent is kept before, so that no host is there without."""
        native_id, token = declared.native_id, declared.token
        async with self._alone(native_id):
            if token:
                node = self._gateway.node_id(native_id)
                await asyncio.to_thread(
                    self._store.keep_token, node, fingerprint=fingerprint(token), token=token
                )
            try:
                return await self._gateway.write(native_id, decide)
            finally:
                await self._forget(native_id)

    def _alone(self, native_id: str) -> asyncio.Lock:
        """Return the lock under which a host's token and its registration change together."""
        return self._locks.setdefault(self._gateway.node_id(native_id), asyncio.Lock())

    async def _cordon(self, asked: Asked) -> None:
        def decide(state: NodeState | None) -> list[FactData]:
            if shape.is_held(self._still_known(state, asked), CORDONED):
                return []
            reason = "cordoned through the dialect"
            return [Cordoned(owner=FUSE, actor=FUSE, reason=reason, request_id=asked.request_id)]

        self._known(asked)
        await self._gateway.write(asked.values["hostId"], decide)

    async def _uncordon(self, asked: Asked) -> None:
        """End what this dialect holds, drains too. Holds of others are theirs to end."""

        def decide(state: NodeState | None) -> list[FactData]:
            state = self._still_known(state, asked)
            by: dict[str, Any] = {"owner": FUSE, "actor": FUSE, "request_id": asked.request_id}
            ends: list[FactData] = []
            if shape.is_held(state, CORDONED):
                ends.append(Uncordoned(**by))
            if shape.is_held(state, DRAINING):
                ends.append(Undrained(**by))
            if not ends and (holds := state.standing_holds):
                others = ", ".join(sorted({hold.owner for hold in holds}))
                raise Refusal("conflict", f"host {asked.values['hostId']} is held by others: {others[:200]}")
            return ends

        self._known(asked)
        await self._gateway.write(asked.values["hostId"], decide)

    async def _forget(self, native_id: str) -> None:
        """Forget every token of a host but the one of the registration that stands."""
        state = self._gateway.find(native_id)
        await asyncio.to_thread(
            self._store.forget_tokens,
            self._gateway.node_id(native_id),
            but=None if state is None else shape.token_fingerprint(state),
        )

    def _page(self, after: str, limit: int) -> list[NodeState]:
        """Return hosts by node id, of one moment but for those that are retired meanwhile."""
        found: list[NodeState] = []
        while len(found) < limit:
            wanted = limit - len(found)
            states = self._answers.projection.nodes(NodeFilter(dialect=FUSE), after=after, limit=wanted)
            found += [state for state in states if is_of(state, FUSE)]
            if len(states) < wanted:
                break
            after = states[-1].node_id
        return found

    def _known(self, asked: Asked) -> NodeState:
        return self._still_known(self._gateway.find(asked.values["hostId"]), asked)

    def _still_known(self, state: NodeState | None, asked: Asked) -> NodeState:
        if state is None or not is_of(state, FUSE):
            raise Refusal("missing", f"host {asked.values['hostId'][:200]} not found")
        return state

    def _info(self, state: NodeState, *, warnings: list[str] | None = None) -> dict[str, Any]:
        beat = self._answers.projection.heartbeat(state.node_id)
        return shape.host_info(state, beat, warnings=warnings or [])


def _limit(text: str) -> int:
    """Return the size of a page; what is no number, or none above 0, says nothing."""
    if not (text.isascii() and text.isdigit()):
        return PAGE
    return min(int(text[:9]), MAX_PAGE) or PAGE


def _refused(refusal: Refusal, asked: Asked) -> Reply:
    status, code = STATUSES[refusal.kind]
    message = refusal.detail or code
    if refusal.kind in ("unknown_route", "method_not_allowed"):
        message = f"no such route: {asked.method} {asked.path[:200]}"
    details = {**refusal.details, **{fault.field or "body": fault.message for fault in refusal.faults}}
    error: dict[str, Any] = {"code": refusal.word or code, "message": message}
    if details:
        error["details"] = details
    return Reply(status, {"error": error}, headers=refusal.headers)
