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

SHOWN_CHARS = 200
# Of who placed a hold and why: both may be nearly as long as a record, and the end has to fit into one.
AT_ONCE = 100
# Of one node, whose owners are as many as somebody names; well below what the broker takes in one batch.


class HoldEnd(NamedTuple):
    """The release of one hold. The same hold has the same `event_id`, whoever ends it."""

    fact: Release
    event_id: str


def next_end(state: NodeState) -> datetime | None:
    """Return when the first of a node's holds ends, None where none does by itself."""
    return min((hold.until for hold in state.standing_holds if hold.until is not None), default=None)


def ended(state: NodeState, *, now: datetime) -> list[HoldEnd]:
    """Return a release for each hold of a node whose end has come, at the very moment it has.

    They are `AT_ONCE` at most: the others are there again once these are folded.
    """
    return [
        _end(state, hold, hold.until)
        for hold in state.standing_holds
        if hold.until is not None and hold.until <= now
    ][:AT_ONCE]


def _end(state: NodeState, hold: Hold, until: datetime) -> HoldEnd:
    placed = f"placed by {_cut(hold.actor or hold.owner)}" + (f": {_cut(hold.reason)}" if hold.reason else "")
    reason = f"its end at {until:%Y-%m-%dT%H:%M:%SZ} has passed ({placed})"
    fact = BY_WORD[hold.kind].ended(owner=hold.owner, actor=ACTOR, reason=reason)
    told = (state.node_id, hold.kind, hold.owner, hold.at.isoformat(), until.isoformat())
    return HoldEnd(fact, f"end-{blake2b(repr(told).encode(), digest_size=16).hexdigest()}")


def _cut(text: str) -> str:
    return text if len(text) <= SHOWN_CHARS else text[: SHOWN_CHARS - 1] + "…"
