"""Questions about nodes: a page of them, one, and what became of one (floor 3).

What nodes are now is answered from memory: one node on the event loop, without a thread or a lock that the
writer holds for long; a page in a thread, since a hundred nodes take milliseconds. The past is in the tables.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import orjson
from fastapi import APIRouter, Path, Query, Response

from api import paging
from api.answers import Answer, Answers, AsOf, answer
from api.node_item import node_item
from api.node_models import NodeAnswer, NodeAtAnswer, NodesAnswer, TimelineAnswer
from api.parameters import NodeParameters, NodesParameters, TimelineParameters, filters
from api.problems import INVALID_PARAMETER, NODE_RETIRED, UNKNOWN_NODE, ProblemError
from api.routing import native_router, node_in_path
from projections import queries
from projections.directory import NodeFilter

if TYPE_CHECKING:
    from datetime import datetime

    from events.ids import NodeId
    from projections.queries import Change, NodeBand
    from projections.state import NodeState

IdInPath = Annotated[str, Path(description="the node id, percent-encoded: a / in it is %2F")]


def router(answers: Answers) -> APIRouter:
    """Return the routes below `nodes`."""
    routes = native_router(tag="nodes")

    @routes.get("/nodes", response_model=NodesAnswer, summary="Nodes that fit every filter, by node id")
    async def get_nodes(asked: Annotated[NodesParameters, Query()]) -> Response:
        return (await page(answers, asked)).http()

    @routes.get("/nodes/{node_id}", response_model=NodeAnswer | NodeAtAnswer, summary="One node")
    async def get_node(node_id: IdInPath, asked: Annotated[NodeParameters, Query()]) -> Response:
        return (await one(answers, node_in_path(node_id), asked)).http()

    @routes.get(
        "/nodes/{node_id}/timeline",
        response_model=TimelineAnswer,
        summary="What became of one node, newest first",
    )
    async def get_timeline(node_id: IdInPath, asked: Annotated[TimelineParameters, Query()]) -> Response:
        return (await timeline(answers, node_in_path(node_id), asked)).http()

    return routes


def now(answers: Answers, asked: NodeId) -> Answer:
    """Answer what one node is, from memory; raise unknown_node, or node_retired with its tombstone."""
    as_of = answers.as_of()
    state = known(answers, asked, as_of)
    refuse_retired(answers, state, as_of)
    return answer(_item(answers, state), as_of, headers={"etag": _etag(state)})


async def one(answers: Answers, asked: NodeId, parameters: NodeParameters) -> Answer:
    """Answer what one node is, or was at a moment, where a retired one is `retired`."""
    await answers.reached(parameters.min_seq)
    at = parameters.at
    if at is None:
        return now(answers, asked)
    as_of = answers.as_of(at=at)
    band = await answers.questions.ask(lambda cursor: queries.node_at(cursor, asked, at))
    if band is None:
        raise _unknown(asked, as_of, why=f"{asked!r} was not known at {at:%Y-%m-%dT%H:%M:%SZ}")
    return answer({**_band(band), "valid_to": band.valid_to}, as_of)


async def page(answers: Answers, asked: NodesParameters) -> Answer:
    """Answer the first nodes after the cursor that fit, of one moment."""
    of = paging.question(list="nodes", **filters(asked))
    after = paging.decode(asked.cursor, of=of)[0] if asked.cursor else ""
    await answers.reached(asked.min_seq)
    if asked.at is not None:
        return await _page_at(answers, asked, asked.at, after=after, of=of)
    as_of = answers.as_of()
    fits = _filter(asked)
    if fits is None:
        return answer({"items": [], "next_cursor": None}, as_of)

    def made() -> Answer:
        states = answers.projection.nodes(fits, after=after, limit=asked.limit + 1)
        shown = states[: asked.limit]
        more = paging.encode([shown[-1].node_id], of=of) if len(states) > len(shown) else None
        items = [_item(answers, state) for state in shown]
        return answer({"items": items, "next_cursor": more}, as_of)

    return await answers.questions.work(made)


async def _page_at(
    answers: Answers, asked: NodesParameters, at: datetime, *, after: str, of: bytes
) -> Answer:
    """Answer what a page of nodes was at a moment, as far as the history keeps it."""
    not_kept = [name for name in ("label", "dialect", "native_id", "name") if getattr(asked, name)]
    if not_kept:
        raise ProblemError(
            INVALID_PARAMETER,
            f"{not_kept[0]}: the history of nodes does not keep it, ask without at or without it",
            members={"parameter": not_kept[0]},
        )
    as_of = answers.as_of(at=at)
    fits = _filter(asked)
    assert fits is not None, "only labels can ask for what nothing fits"
    bands = await answers.questions.ask(
        lambda cursor: queries.nodes_at(cursor, at, fits, after=after, limit=asked.limit + 1)
    )
    shown = bands[: asked.limit]
    more = paging.encode([shown[-1].node_id], of=of) if len(bands) > len(shown) else None
    return answer({"items": [_band(band) for band in shown], "next_cursor": more}, as_of)


async def timeline(answers: Answers, asked: NodeId, parameters: TimelineParameters) -> Answer:
    """Answer what became of one node, newest first; raise unknown_node for one that no fact was about."""
    of = paging.question(list="timeline", node=asked)
    before = int(paging.decode(parameters.cursor, of=of)[0]) if parameters.cursor else queries.END
    await answers.reached(parameters.min_seq)
    as_of = answers.as_of()
    known(answers, asked, as_of)
    changes = await answers.questions.ask(
        lambda cursor: queries.timeline(cursor, asked, before=before, limit=parameters.limit + 1)
    )
    shown = changes[: parameters.limit]
    more = paging.encode([str(shown[-1].seq)], of=of) if len(changes) > len(shown) else None
    return answer({"items": [change_item(change) for change in shown], "next_cursor": more}, as_of)


def known(answers: Answers, asked: NodeId, as_of: AsOf) -> NodeState:
    """Return what a node is; raise unknown_node where no fact was ever about it."""
    state = answers.projection.node(asked)
    if state is None:
        raise _unknown(asked, as_of, why=f"no fact was ever about {asked!r}")
    return state


def refuse_retired(answers: Answers, state: NodeState, as_of: AsOf) -> None:
    """Raise node_retired with the tombstone where a node is retired."""
    if state.retired_at is None:
        return
    tombstone = state.retirement
    assert tombstone is not None, "a retired state has a tombstone"
    raise ProblemError(
        NODE_RETIRED,
        f"{state.node_id!r} was retired at {tombstone.at:%Y-%m-%dT%H:%M:%SZ}: its timeline says what it was",
        members={
            "node": _item(answers, state),
            "retired_at": tombstone.at,
            "actor": tombstone.actor,
            "reason": tombstone.reason,
            "as_of": as_of.members(),
        },
        headers={"etag": _etag(state)},
    )


def _unknown(asked: NodeId, as_of: AsOf, *, why: str) -> ProblemError:
    return ProblemError(UNKNOWN_NODE, why, members={"id": asked, "as_of": as_of.members()})


def _etag(state: NodeState) -> str:
    return f'"{state.version}"'


def _item(answers: Answers, state: NodeState) -> dict[str, object]:
    node_id = state.node_id
    projection = answers.projection
    return node_item(
        state,
        projection.heartbeat(node_id),
        answers.service.outlook(node_id),
        shared=projection.conditions_shared(node_id),
    )


def _band(band: NodeBand) -> dict[str, object]:
    shown = band._asdict()
    del shown["valid_to"]  # a page does not ask for it
    return {"id": shown.pop("node_id"), **shown}


def change_item(change: Change) -> dict[str, object]:
    """Return what changed about a node as `api.node_models.Change` documents it."""
    return {
        "at": change.at,
        "kind": change.kind,
        "detail": change.detail,
        "before": orjson.Fragment(change.before),
        "after": orjson.Fragment(change.after),
        "cause_seq": change.cause_seq,
        "actor": change.actor,
        "reason": change.reason,
        "damped": change.damped,
    }


def _filter(asked: NodesParameters) -> NodeFilter | None:
    """Return what has to fit, or None where nothing can: two values are asked of one label."""
    labels: dict[str, str] = {}
    for text in asked.label:
        key, _, value = text.partition("=")
        if labels.setdefault(key, value) != value:
            return None
    return NodeFilter(
        state=asked.state,
        liveness=asked.liveness,
        intent=asked.intent,
        zone=asked.zone,
        pool=asked.pool,
        region=asked.region,
        dialect=asked.dialect,
        native_id=asked.native_id,
        name=asked.name,
        labels=labels,
        include_retired=asked.include_retired,
    )
