"""What became of a decision about a node: the node as it is then, and what changed (floor 3)."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Literal, NamedTuple

import orjson

from api.answers import Answer, Answers, answer
from api.node_item import node_item
from events.codec import Recorded
from events.registry import REGISTRY
from projections.derive import derive
from projections.evolve import evolve

if TYPE_CHECKING:
    from collections.abc import Sequence

    from events.facts import FactData
    from events.ids import NodeId
    from projections.state import NodeState

Outcome = Literal["done", "no_change"]
REPEATED = "the same request was done before: what was said about the node since then stands"


class Changed(NamedTuple):
    """What became of a decision; `facts` are positions in FLEET, none in a dry run or without a change."""

    outcome: Outcome
    says: str
    follows: Sequence[str] = ()
    facts: Sequence[int] = ()
    is_dry_run: bool = False


def changed_node(
    answers: Answers,
    before: NodeState | None,
    state: NodeState,
    changed: Changed,
    *,
    after: NodeState | None = None,
    status: int = 200,
) -> Answer:
    """Answer with a node, retired or not, and what a decision did, or with `after` would do, to it."""
    node_id = state.node_id
    item = node_item(
        state,
        answers.projection.heartbeat(node_id),
        answers.service.outlook(node_id),
        shared=answers.projection.conditions_shared(node_id),
    )
    members = {
        **item,
        "change": {
            "outcome": changed.outcome,
            "says": changed.says,
            "follows": changed.follows,
            "facts": changed.facts,
            "dry_run": changed.is_dry_run,
            "before": word_of(before),
            "after": word_of(after or state),
        },
    }
    return answer(members, answers.as_of(), headers={"etag": f'"{state.version}"'}, status=status)


def foreseen(state: NodeState, fact: FactData) -> NodeState:
    """Return what a node would be after a fact about it that nobody writes."""
    kind = REGISTRY.by_model[type(fact)]
    after = evolve(
        state,
        Recorded(
            seq=state.version,
            stored_at=state.changed_at,
            subject="",
            node_id=state.node_id,
            zone=None,
            owner=kind.owner,
            verb=kind.verb,
            type=kind.text,
            source="",
            event_id="",
            sent_at=None,
            data=fact,
            raw=b"",
        ),
    )
    assert after is not None, "a known node stays known"
    return after


def word_of(state: NodeState | None) -> dict[str, object] | None:
    """Return what a node is in a few words, None for one that is not known."""
    if state is None:
        return None
    derived = derive(state)
    return {"state": derived.state, "intent": derived.intent, "schedulable": derived.schedulable}


def event_id_of(node_id: NodeId, request_id: str, *said: object) -> str:
    """Return the event id of a request about a node: the same request has the same; "" without an id.

    What is said is part of it, so an id that is used for something else does not hide that.
    """
    if not request_id:
        return ""
    told = orjson.dumps([node_id, request_id, *said], default=str)
    return f"r-{blake2b(told, digest_size=16).hexdigest()}"
