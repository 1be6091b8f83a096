"""When a node that stays lost leaves the fleet by itself, and the fact that says so (floor 2, pure)."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import NamedTuple

from events.facts import Retired
from projections.state import NodeState

ACTOR = "fleetfold"
"""Who retires a node that was lost for long enough."""
LOST = "lost"


class Overdue(NamedTuple):
    """The retirement of one node. The same silence has the same `event_id`, whoever ends it."""

    fact: Retired
    event_id: str


def overdue(state: NodeState, *, now: datetime, after: timedelta) -> Overdue | None:
    """Return the retirement of a node that has been lost for `after`; None where it stays.

    A node that somebody holds, or on which a workload is, waits for them however long it takes.
    """
    verdict = state.standing_verdict
    if verdict is None or verdict.word != LOST or state.retired_at is not None:
        return None
    if now - verdict.at < after or state.standing_holds or state.standing_allocations:
        return None
    days = after.total_seconds() / 86_400
    said = f"lost since {verdict.at:%Y-%m-%dT%H:%M:%SZ}, which is longer than {days:g} days"
    return Overdue(Retired(actor=ACTOR, reason=said), f"retention/{state.node_id}/{verdict.seq}")
