"""What operators do with many nodes: `POST /actions`, and the same over NATS (floor 3).

It is not one change but one for each node, decided on that node as it is when its turn comes. A release
never ends what other owners hold: such nodes are skipped, and said.
"""

from __future__ import annotations

import asyncio
import unicodedata
from collections import Counter
from fnmatch import translate
from re import compile as compiled
from typing import TYPE_CHECKING

from fastapi import APIRouter, Response

from api.actions import ActorHeader, RequestHeader, done, named, wish_of
from api.answers import answer
from api.change_models import BulkAnswer
from api.changed import foreseen, word_of
from api.node_item import hold_item
from api.problems import TOO_MANY_NODES, ProblemError, problem_of
from api.routing import native_router
from api.said import BulkBody, Selector
from events.errors import BrokerUnavailableError, FleetfoldError
from events.ids import NodeId, node_id
from projections.directory import NodeFilter
from projections.transitions import Decided, decide

if TYPE_CHECKING:
    from collections.abc import Sequence

    from api.answers import Answer, Answers
    from api.writing import Writer
    from projections.situations import Wish
    from projections.state import NodeState

MOST_NODES = 1000
# A node takes some milliseconds, most of them waiting for the fold: such a request is answered in seconds.
AT_ONCE = 64
# Each waits for the commit that folds it, and one commit folds what all of them appended: with 8 at once, a
# thousand nodes took 16 s.
LOOKED_AT = 10_000
# States taken from memory at once for a pattern, between which others get their turn.

Item = dict[str, object]


def router(answers: Answers, writer: Writer) -> APIRouter:
    """Return the route of actions on many nodes."""
    routes = native_router(tag="operators")

    @routes.post(
        "/actions",
        response_model=BulkAnswer,
        summary="Hold, release, retire or restore the nodes that fit, one by one",
    )
    async def post_actions(
        asked: BulkBody, actor: ActorHeader = None, request_id: RequestHeader = None
    ) -> Response:
        return (await act_on_all(answers, writer, named(asked, actor=actor, request_id=request_id))).http()

    return routes


async def act_on_all(answers: Answers, writer: Writer, asked: BulkBody, *, most: int = MOST_NODES) -> Answer:
    """Do what is asked with each node that fits, and answer what became of each, by node id."""
    found = await answers.questions.work(lambda: selected(answers, asked, most=most))
    wish = wish_of(asked)
    turns = asyncio.Semaphore(AT_ONCE)
    unanswered: list[BrokerUnavailableError] = []

    async def in_turn(which: NodeId) -> Item:
        async with turns:
            if asked.dry_run:
                return _foreseen(which, answers.projection.node(which), wish)
            return await _done(answers, writer, which, wish, unanswered)

    items = await asyncio.gather(*(in_turn(which) for which in found))
    counts = Counter(str(item["outcome"]) for item in items)
    return answer({"dry_run": asked.dry_run, "counts": counts, "items": items}, answers.as_of())


def selected(answers: Answers, asked: BulkBody, *, most: int) -> list[NodeId]:
    """Return the nodes that fit, in order of their ids; raise too_many_nodes.

    Nodes named by id are all there, known or not, retired or not; of others those that are not retired, or
    retired ones where they are asked for or are to be restored.
    """
    selector = asked.selector
    if selector.names_every_node:
        named_ones = sorted({node_id(text) for text in selector.ids or ()})
        _refuse_more(named_ones, most)
        return named_ones
    ids = None if selector.ids is None else {node_id(text) for text in selector.ids}
    pattern = (
        None if selector.match is None else compiled(translate(unicodedata.normalize("NFC", selector.match)))
    )
    fits = _filter(selector, is_restoring=asked.action == "restore")
    if fits is None:
        return []
    found: list[NodeId] = []
    after = ""
    while states := answers.projection.nodes(fits, after=after, limit=LOOKED_AT):
        after = states[-1].node_id
        for state in states:
            is_named = ids is None or state.node_id in ids
            if is_named and (pattern is None or pattern.match(state.node_id)):
                found.append(state.node_id)
        _refuse_more(found, most)
    return found


def _refuse_more(found: list[NodeId], most: int) -> None:
    if len(found) > most:
        raise ProblemError(
            TOO_MANY_NODES,
            f"more than {most} nodes are meant: narrow the selection, by zone or pattern",
            members={"most": most},
        )


def _filter(selector: Selector, *, is_restoring: bool) -> NodeFilter | None:
    """Return what has to fit, or None where nothing can: two values are asked of one label."""
    labels: dict[str, str] = {}
    for text in selector.label:
        key, _, value = text.partition("=")
        if labels.setdefault(key, value) != value:
            return None
    return NodeFilter(
        state="retired" if is_restoring and selector.state is None else selector.state,
        liveness=selector.liveness,
        intent=selector.intent,
        zone=selector.zone,
        pool=selector.pool,
        region=selector.region,
        dialect=selector.dialect,
        name=selector.name,
        labels=labels,
        include_retired=selector.ids is not None,
    )


async def _done(
    answers: Answers, writer: Writer, which: NodeId, wish: Wish, unanswered: list[BrokerUnavailableError]
) -> Item:
    """Return what became of one node. Once the broker left one without an answer, no other waits for it."""
    decided = decide(answers.projection.node(which), wish)
    if decided.rule.outcome == "refused":
        return _item(which, decided, answers.projection.node(which), answers.projection.node(which))
    try:
        if unanswered:
            raise unanswered[0]
        decided, written = await done(answers, writer, which, wish)
    except FleetfoldError as err:
        if isinstance(err, BrokerUnavailableError):
            unanswered.append(err)
        state = answers.projection.node(which)
        again = decide(state, wish)
        if again.rule.outcome == "refused":  # it changed between the look and the decision
            return _item(which, again, state, state)
        told = _item(which, again, state, state)
        return {**told, "outcome": "failed", "says": problem_of(err).detail, "instead": "", "follows": ()}
    return _item(which, decided, written.before, written.state, facts=written.seqs)


def _foreseen(which: NodeId, state: NodeState | None, wish: Wish) -> Item:
    decided = decide(state, wish)
    after = state if state is None or decided.fact is None else foreseen(state, decided.fact)
    return _item(which, decided, state, after)


def _item(
    which: NodeId,
    decided: Decided,
    before: NodeState | None,
    after: NodeState | None,
    *,
    facts: Sequence[int] = (),
) -> Item:
    outcome: str = decided.rule.outcome
    if decided.rule.situation == "held_by_others":
        outcome = "skipped"
    return {
        "id": which,
        "outcome": outcome,
        "says": decided.says,
        "instead": decided.instead,
        "follows": decided.follows,
        "facts": facts,
        "holds": [hold_item(hold) for hold in after.standing_holds] if after else [],
        "before": word_of(before),
        "after": word_of(after),
    }
