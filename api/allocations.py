"""What schedulers hand out: `PUT` and `DELETE /nodes/{id}/allocations/{workload}`, and over NATS (floor 3).

What a scheduler says is taken as it is: more than there is, is overcommitted and flagged, never cut. Facts
that it appends to the log itself mean the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated
from urllib.parse import unquote_to_bytes

from fastapi import APIRouter, Path, Query, Response

from api.actions import ActorHeader, RequestHeader, named
from api.change_models import ChangedNodeAnswer
from api.changed import REPEATED, Changed, changed_node, event_id_of
from api.dialect_amounts import canonical
from api.nodes import IdInPath, known, refuse_retired
from api.problems import INVALID_PARAMETER, ProblemError
from api.routing import native_router, node_in_path
from api.said import PLATFORM, AllocationBody, ReleaseQuery
from api.versions import IfMatch, version_of, write_under
from events.amounts import plain
from events.facts import Allocated, Released
from projections.capacity import OVERCOMMITTED, capacity

if TYPE_CHECKING:
    from decimal import Decimal

    from api.answers import Answer, Answers
    from api.writing import Writer
    from events.facts import FactData
    from events.ids import NodeId
    from projections.parts import Allocation
    from projections.state import NodeState

WorkloadInPath = Annotated[str, Path(description="the workload's name, percent-encoded: a / in it is %2F")]
MOST_WORKLOAD_BYTES = 1024


def router(answers: Answers, writer: Writer) -> APIRouter:
    """Return the routes of allocations."""
    routes = native_router(tag="schedulers")
    path = "/nodes/{node_id}/allocations/{workload}"

    @routes.put(
        path,
        response_model=ChangedNodeAnswer,
        responses={
            201: {"model": ChangedNodeAnswer, "description": "The workload held nothing there before"}
        },
        summary="Say what a workload holds of a node",
    )
    async def put_allocation(
        *,
        node_id: IdInPath,
        workload: WorkloadInPath,
        asked: AllocationBody,
        if_match: IfMatch = None,
        actor: ActorHeader = None,
        request_id: RequestHeader = None,
    ) -> Response:
        told = named(asked, actor=actor, request_id=request_id)
        which, held_by, version = node_in_path(node_id), workload_in_path(workload), version_of(if_match)
        return (await allocate(answers, writer, which, held_by, told, version=version)).http()

    @routes.delete(
        path, response_model=ChangedNodeAnswer, summary="Say that a workload holds nothing of a node any more"
    )
    async def delete_allocation(
        *,
        node_id: IdInPath,
        workload: WorkloadInPath,
        asked: Annotated[ReleaseQuery, Query()],
        if_match: IfMatch = None,
        actor: ActorHeader = None,
        request_id: RequestHeader = None,
    ) -> Response:
        told = named(asked, actor=actor, request_id=request_id)
        which, held_by, version = node_in_path(node_id), workload_in_path(workload), version_of(if_match)
        return (await release(answers, writer, which, held_by, told, version=version)).http()

    return routes


async def allocate(
    answers: Answers,
    writer: Writer,
    node_id: NodeId,
    workload: str,
    asked: AllocationBody,
    *,
    version: int | None = None,
) -> Answer:
    """Let a workload hold amounts, and answer with the node: 201 where it held nothing there before.

    Raises unknown_node, node_retired, version_conflict (412) where it is not at `version`, and invalid_body
    for amounts that cannot be read.
    """
    amounts = canonical(asked.dialect, asked.amounts)
    known(answers, node_id, answers.as_of())
    fact = Allocated.model_validate(
        {**_said_by(asked), "workload": checked(workload), "amounts": amounts},
    )

    def facts(state: NodeState | None) -> list[FactData]:
        as_of = answers.as_of()
        now = known(answers, node_id, as_of) if state is None else state
        refuse_retired(answers, now, as_of)
        held = _held(now, workload)
        is_so = held is not None and held.amounts == amounts and held.incarnation == now.incarnation
        return [] if is_so else [fact]

    event_id = event_id_of(node_id, asked.request_id or "", "allocate", workload, _text(amounts))
    written = await write_under(answers, writer, node_id, facts, version=version, event_id=event_id)
    assert written.before is not None, "an unknown node is refused"
    assert written.state is not None, "it was allocated on"
    follows = _shortages(written.state)
    if written.is_repeated:
        changed = Changed("no_change", REPEATED, follows, written.seqs)
    elif written.seqs:
        changed = Changed("done", "it is allocated", follows, written.seqs)
    else:
        changed = Changed("no_change", "it is allocated so already", follows)
    is_new = changed.outcome == "done" and _held(written.before, workload) is None
    return changed_node(answers, written.before, written.state, changed, status=201 if is_new else 200)


async def release(
    answers: Answers,
    writer: Writer,
    node_id: NodeId,
    workload: str,
    asked: ReleaseQuery,
    *,
    version: int | None = None,
) -> Answer:
    """Let a workload hold nothing, and answer with the node, also a retired one; nothing held is no change.

    Raises unknown_node, and version_conflict (412) where it is not at `version`.
    """
    known(answers, node_id, answers.as_of())
    fact = Released.model_validate({**_said_by(asked), "workload": checked(workload)})

    def facts(state: NodeState | None) -> list[FactData]:
        now = known(answers, node_id, answers.as_of()) if state is None else state
        # All of them, as the fold does: also those that a tombstone hides, and that a restore would show.
        return [fact] if any(given.workload == workload for given in now.allocations) else []

    event_id = event_id_of(node_id, asked.request_id or "", "release", workload)
    written = await write_under(answers, writer, node_id, facts, version=version, event_id=event_id)
    assert written.before is not None, "an unknown node is refused"
    assert written.state is not None, "it was released on"
    if written.is_repeated:
        changed = Changed("no_change", REPEATED, _shortages(written.state), written.seqs)
    elif written.seqs:
        changed = Changed("done", "it is released", _shortages(written.state), written.seqs)
    else:
        changed = Changed("no_change", "it held nothing there")
    return changed_node(answers, written.before, written.state, changed)


def workload_in_path(segment: str) -> str:
    """Return the workload behind one raw segment of a path; raise invalid_parameter where there is none."""
    try:
        return unquote_to_bytes(segment.encode("latin-1")).decode()
    except UnicodeDecodeError as err:
        raise _no_workload("its bytes are not UTF-8") from err


def checked(workload: str) -> str:
    """Return a workload's name; raise invalid_parameter where it can be none."""
    try:
        size_bytes = len(workload.encode())
    except UnicodeEncodeError as err:
        raise _no_workload("it is not valid Unicode") from err
    if not 1 <= size_bytes <= MOST_WORKLOAD_BYTES:
        raise _no_workload(f"it has {size_bytes} bytes, allowed are 1 to {MOST_WORKLOAD_BYTES}")
    return workload


def _no_workload(why: str) -> ProblemError:
    return ProblemError(INVALID_PARAMETER, f"workload: {why}", members={"parameter": "workload"})


def _said_by(asked: AllocationBody | ReleaseQuery) -> dict[str, str]:
    return {
        "actor": asked.actor or PLATFORM,
        "reason": asked.reason,
        "request_id": asked.request_id or "",
    }


def _held(state: NodeState, workload: str) -> Allocation | None:
    return next((given for given in state.standing_allocations if given.workload == workload), None)


def _shortages(state: NodeState) -> list[str]:
    """Return what is overcommitted, in sentences."""
    return [
        f"{one.resource} is overcommitted: {plain(one.allocated)} of {plain(one.allocatable)} allocated"
        for one in capacity(state)
        if OVERCOMMITTED in one.flags and one.allocatable is not None
    ]


def _text(amounts: dict[str, Decimal]) -> list[tuple[str, str]]:
    return sorted((name, str(held)) for name, held in amounts.items())
