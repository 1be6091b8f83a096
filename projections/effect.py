"""When a fact takes effect, and on what (floor 2, pure): shared by the folds of every owner."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from events.codec import Recorded
from projections.parts import made
from projections.state import NodeState


def effective_at(state: NodeState, fact: Recorded) -> datetime:
    """Return when the fact takes effect: never before the last change, whatever the broker's clock."""
    return fact.stored_at if fact.stored_at >= state.changed_at else state.changed_at


def provisional(fact: Recorded) -> NodeState:
    """Return the state of a node of which nothing is known but that somebody said something about it."""
    assert fact.node_id is not None, "only facts about a node are folded into one"
    return NodeState(fact.node_id, fact.seq, fact.stored_at)


def unchanged(state: NodeState, fact: Recorded) -> NodeState:
    """Return the state after a fact that changes nothing but the version."""
    fields: tuple[Any, ...] = state
    return made(NodeState, (fields[0], fact.seq, *fields[2:]))
