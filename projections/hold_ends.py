"""When holds end, and the facts that end those whose time has come (floor 2, pure)."""

from __future__ import annotations

from datetime import datetime
from hashlib import blake2b
from typing import NamedTuple

from events.facts import Release
from projections.parts import Hold
from projections.situations import BY_WORD
from projections.state import NodeState

ACTOR = "fleetfold"
"""Who ends a hold whose time has come."""


class HoldEnd(NamedTuple):
    """The release of one hold. The same hold has the same `event_id`, whoever ends it."""

    fact: Release
    event_id: str


def next_end(state: NodeState) -> datetime | None:
    """Return when the first of a node's holds ends, None where none does by itself."""
    return min((hold.until for hold in state.standing_holds if hold.until is not None), default=None)


def ended(state: NodeState, *, now: datetime) -> list[HoldEnd]:
    """Return a release for each hold of a node whose end has come; at the very moment it has."""
    return [
        _end(state, hold, hold.until)
        for hold in state.standing_holds
        if hold.until is not None and hold.until <= now
    ]


def _end(state: NodeState, hold: Hold, until: datetime) -> HoldEnd:
    placed = f"placed by {hold.actor or hold.owner}" + (f": {hold.reason}" if hold.reason else "")
    reason = f"its end at {until:%Y-%m-%dT%H:%M:%SZ} has passed ({placed})"
    fact = BY_WORD[hold.kind].ended(owner=hold.owner, actor=ACTOR, reason=reason)
    told = (state.node_id, hold.kind, hold.owner, hold.at.isoformat(), until.isoformat())
    return HoldEnd(fact, f"end-{blake2b(repr(told).encode(), digest_size=16).hexdigest()}")
