"""Questions about capacity: of one node, of the fleet, and how it developed (floor 3)."""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, Query, Response

from api import nodes, paging
from api.answers import Answer, Answers, answer
from api.capacity_models import CapacityAnswer, CapacityHistoryAnswer, NodeCapacityAnswer
from api.json_text import number
from api.node_item import resource_item
from api.parameters import CapacityHistoryParameters, CapacityParameters, NodeParameters, filters
from api.problems import INVALID_PARAMETER, ProblemError
from api.routing import native_router, node_in_path
from projections import capacity_queries
from projections.capacity import capacity

if TYPE_CHECKING:
    from events.ids import NodeId
    from projections.capacity_sums import CapacitySum, Group
    from projections.projection import Projection

NODE_CAPACITY_AT = """
    SELECT resource, status, total, reserved, ratio, allocatable, allocated, free
    FROM fleet.capacity_at($at)
    WHERE node_id = $node_id
    ORDER BY resource
"""


def router(answers: Answers) -> APIRouter:
    """Return the routes below `capacity`, and `capacity` of one node."""
    routes = native_router(tag="capacity")

    @routes.get(
        "/capacity", response_model=CapacityAnswer, summary="Sums over the fleet, by resource and place"
    )
    async def get_capacity(asked: Annotated[CapacityParameters, Query()]) -> Response:
        return (await sums(answers, asked)).http()

    @routes.get(
        "/capacity/history",
        response_model=CapacityHistoryAnswer,
        summary="Sums over the fleet at each step of time, by the places that nodes have now",
    )
    async def get_history(asked: Annotated[CapacityHistoryParameters, Query()]) -> Response:
        return (await history(answers, asked)).http()

    @routes.get(
        "/nodes/{node_id}/capacity", response_model=NodeCapacityAnswer, summary="The resources of one node"
    )
    async def get_node_capacity(
        node_id: nodes.IdInPath, asked: Annotated[NodeParameters, Query()]
    ) -> Response:
        return (await of_node(answers, node_in_path(node_id), asked)).http()

    return routes


async def sums(answers: Answers, asked: CapacityParameters) -> Answer:
    """Answer the sums over all nodes that are not retired, now or at a moment."""
    await answers.reached(asked.min_seq)
    at, group = asked.at, asked.group_by
    as_of = answers.as_of(at=at)

    if at is None:
        items = await answers.questions.work(lambda: _now(answers.projection, group))
    else:
        found = await answers.questions.ask(lambda cursor: capacity_queries.capacity_at(cursor, at, group))
        items = [_sum(one) for one in found]
    return answer({"group_by": group, "items": items, "next_cursor": None}, as_of)


async def history(answers: Answers, asked: CapacityHistoryParameters) -> Answer:
    """Answer the sums at `from` and each step after it, up to `to` and to what is known."""
    of = paging.question(list="capacity_history", **filters(asked))
    await answers.reached(asked.min_seq)
    as_of = answers.as_of()
    known = as_of.time or asked.from_
    begin, end = asked.from_, min(asked.to or known, known)
    if asked.cursor:
        begin, end = (datetime.fromisoformat(text) for text in paging.decode(asked.cursor, of=of))
    elif begin > end:
        raise ProblemError(
            INVALID_PARAMETER, "from: it lies after to, or in the future", members={"parameter": "from"}
        )
    step = timedelta(seconds=asked.step)
    last = begin + min((end - begin) // step, asked.limit - 1) * step
    steps = await answers.questions.ask(
        lambda cursor: capacity_queries.capacity_history(
            cursor, begin=begin, end=last, step=step, group=asked.group_by
        )
    )
    more = None
    if end - last >= step:
        more = paging.encode([(last + step).isoformat(), end.isoformat()], of=of)
    items = [{"at": one.at, "sums": [_sum(summed) for summed in one.sums]} for one in steps]
    return answer({"group_by": asked.group_by, "items": items, "next_cursor": more}, as_of)


async def of_node(answers: Answers, asked: NodeId, parameters: NodeParameters) -> Answer:
    """Answer the resources of one node, from memory or, at a moment, from its history."""
    await answers.reached(parameters.min_seq)
    at = parameters.at
    as_of = answers.as_of(at=at)
    state = nodes.known(answers, asked, as_of)
    if at is not None:
        found = await answers.questions.ask(
            lambda cursor: cursor.execute(NODE_CAPACITY_AT, {"at": at, "node_id": asked}).fetchall()
        )
        items = [_as_it_was(*row) for row in found]
    else:
        nodes.refuse_retired(answers, state, as_of)
        beat = answers.projection.heartbeat(asked)
        used = beat.used if beat else {}
        items = [resource_item(one, used.get(one.resource)) for one in capacity(state)]
    return answer({"id": asked, "items": items, "next_cursor": None}, as_of)


def _as_it_was(resource: str, status: str, *numbers: Decimal | None) -> dict[str, object]:
    names = ("total", "reserved", "ratio", "allocatable", "allocated", "free")
    members = {name: number(amount) for name, amount in zip(names, numbers, strict=True)}
    return {"resource": resource, "status": status, **members}


def _now(projection: Projection, group: Group) -> list[dict[str, object]]:
    used = projection.used(group)
    return [_sum(one, used=used.get((one.resource, one.place))) for one in projection.capacity(group)]


def _sum(one: CapacitySum, *, used: float | None = None) -> dict[str, object]:
    return {
        "resource": one.resource,
        "place": one.place,
        "nodes": one.nodes,
        "unknown": one.unknown,
        "total": number(one.total),
        "reserved": number(one.reserved),
        "allocatable": number(one.allocatable),
        "allocated": number(one.allocated),
        "free": number(one.free),
        "used": number(used),
    }
