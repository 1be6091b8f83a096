"""What operators do with one node: `POST /nodes/{id}/actions`, and the same over NATS (floor 3).

What is allowed, `projections.transitions` says. It decides on the newest folded state, and what it writes is
appended under that version; so an answer tells of the node as it then is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, TypeVar

from fastapi import APIRouter, Header, Response

from api.change_models import ChangedNodeAnswer
from api.changed import REPEATED, Changed, Outcome, changed_node, event_id_of, foreseen
from api.nodes import IdInPath
from api.problems import INVALID_PARAMETER, REFUSED, UNKNOWN_NODE, ProblemError
from api.routing import native_router, node_in_path
from api.said import MOST_NAME_CHARS, OPERATOR, ActionBody, Decision
from api.versions import IfMatch, check, version_of, write_under
from projections.situations import Wish
from projections.transitions import Decided, decide, workloads

if TYPE_CHECKING:
    from collections.abc import Sequence

    from api.answers import Answer, Answers
    from api.writing import Writer, Written
    from events.facts import FactData
    from events.ids import NodeId
    from projections.state import NodeState

ActorHeader = Annotated[
    str | None, Header(alias="X-Fleetfold-Actor", description="who decides, where the body does not say")
]
RequestHeader = Annotated[
    str | None, Header(alias="X-Request-Id", description="`request_id`, where the body does not say")
]
Told = TypeVar("Told", bound=Decision)


def router(answers: Answers, writer: Writer) -> APIRouter:
    """Return the route of actions on one node."""
    routes = native_router(tag="operators")

    @routes.post(
        "/nodes/{node_id}/actions",
        response_model=ChangedNodeAnswer,
        summary="Hold, release, retire or restore a node",
    )
    async def post_action(
        node_id: IdInPath,
        asked: ActionBody,
        if_match: IfMatch = None,
        actor: ActorHeader = None,
        request_id: RequestHeader = None,
    ) -> Response:
        told = named(asked, actor=actor, request_id=request_id)
        version = version_of(if_match)
        return (await act(answers, writer, node_in_path(node_id), told, version=version)).http()

    return routes


async def act(
    answers: Answers, writer: Writer, node_id: NodeId, asked: ActionBody, *, version: int | None = None
) -> Answer:
    """Do what is asked, and answer with the node.

    Raises unknown_node, refused, and version_conflict (412) where it is not at `version`.
    """
    wish = wish_of(asked)
    if asked.dry_run:
        state = answers.projection.node(node_id)
        decided = accepted(answers, node_id, state, wish)
        assert state is not None, "an unknown node is refused"
        check(answers, state, version=version)
        after = None if decided.fact is None else foreseen(state, decided.fact)
        return changed_node(answers, state, state, change_of(decided, (), is_dry_run=True), after=after)
    decided, written = await done(answers, writer, node_id, wish, version=version)
    assert written.state is not None, "it was decided about"
    return changed_node(answers, written.before, written.state, change_of(decided, written.seqs))


async def done(
    answers: Answers, writer: Writer, node_id: NodeId, wish: Wish, *, version: int | None = None
) -> tuple[Decided, Written]:
    """Do what is wished; return what was decided and what was written.

    Where the same request was done before, nothing is: its rule then says so.
    """
    last: list[Decided] = []

    def facts(state: NodeState | None) -> list[FactData]:
        last[:] = [accepted(answers, node_id, state, wish)]
        return [] if last[0].fact is None else [last[0].fact]

    event_id = event_id_of(node_id, wish.request_id, *wish)
    written = await write_under(answers, writer, node_id, facts, version=version, event_id=event_id)
    assert written.before is not None, "an unknown node is refused"
    if written.is_repeated:
        rule = last[0].rule._replace(outcome="no_change")
        return Decided(rule, None, REPEATED), written
    return last[0], written


def accepted(answers: Answers, node_id: NodeId, state: NodeState | None, wish: Wish) -> Decided:
    """Return what is decided about a node; raise the problem of a refusal."""
    decided = decide(state, wish)
    if decided.rule.outcome != "refused":
        return decided
    if state is None:
        raise ProblemError(
            UNKNOWN_NODE,
            f"no fact was ever about {node_id!r}: {decided.instead}",
            members={"id": node_id, "as_of": answers.as_of().members()},
        )
    raise ProblemError(
        REFUSED,
        f"{wish.action} of {node_id!r}: {decided.says}: {decided.instead}",
        members={
            "id": node_id,
            "action": wish.action,
            "situation": decided.rule.situation,
            "instead": decided.instead,
            "owners": [hold.owner for hold in decided.in_the_way],
            "workloads": workloads(state) if decided.rule.situation == "has_workloads" else [],
            "as_of": answers.as_of().members(),
        },
    )


def wish_of(asked: ActionBody) -> Wish:
    """Return what a body asks for."""
    return Wish(
        action=asked.action,
        owner=asked.owner,
        actor=asked.actor or OPERATOR,
        reason=asked.reason,
        request_id=asked.request_id or "",
        until=asked.until,
        sticky=asked.sticky,
        force=asked.force,
    )


def change_of(decided: Decided, seqs: Sequence[int], *, is_dry_run: bool = False) -> Changed:
    """Return what was decided as answers tell it."""
    outcome: Outcome = "done" if decided.fact is not None else "no_change"
    return Changed(outcome, decided.says, decided.follows, seqs, is_dry_run)


def named(asked: Told, *, actor: str | None, request_id: str | None) -> Told:
    """Return a body with the headers in the place of what it leaves out; raise invalid_parameter for one."""
    beside = {
        "actor": asked.actor or _header("X-Fleetfold-Actor", actor),
        "request_id": asked.request_id or _header("X-Request-Id", request_id),
    }
    return asked.model_copy(update=beside)


def _header(name: str, value: str | None) -> str | None:
    """Return what a header says, which is read as UTF-8 where it can be, and as Latin-1 where it cannot."""
    if not value:
        return None
    if len(value) > MOST_NAME_CHARS:
        why = f"{name}: it has {len(value)} characters, allowed are {MOST_NAME_CHARS}"
        raise ProblemError(INVALID_PARAMETER, why, members={"parameter": name})
    try:
        return value.encode("latin-1").decode()
    except UnicodeError:
        return value
