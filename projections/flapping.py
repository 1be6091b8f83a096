"""When a node flaps: lost and back again so often that nobody wants to hear each time (floor 2, pure).

A *flip* is a change of liveness to or from `lost`. More than `FLIPS` of them within `WINDOW` and the node
flaps: its history goes on as ever, but of its changes of state only that it flaps is announced, and that it
has settled. It settles by a fact: `settled`, which the evaluator says after `QUIET`, or the next flip where
that comes later than that; and with the tombstone or the end of its incarnation.

These are constants, not settings: the same log has to give the same announcements everywhere, for ever.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from projections.parts import Flips
from projections.state import NodeState

FLIPS = 4
# Twice lost and back again is told as it happens: a reboot of each of two cables. The fifth flip is a habit.
WINDOW = timedelta(minutes=10)
# A machine with the default grace of 30 s on a link that comes and goes can flip some thirty times in it.
QUIET = timedelta(minutes=5)
# Half of the window: who flips at the rate that just raised it, every 2.5 minutes, does not settle meanwhile.

LOST = "lost"


def counted(old: NodeState, new: NodeState) -> NodeState:
    """Return the new state with its flips counted; the same one where nothing flipped."""
    if new.verdict is old.verdict and new.boot_id == old.boot_id and new.retirement is old.retirement:
        return new
    flips = new.flips
    if new.incarnation != old.incarnation or new.retired_at is not None or old.retired_at is not None:
        return new if flips is None else new._replace(flips=None)
    was, now = old.liveness, new.liveness
    if was == now or LOST not in (was, now):
        return new
    at, since = new.changed_at, None
    recent: tuple[datetime, ...] = (at,)
    if flips is not None and flips.since is not None:
        since = flips.since if at - flips.times[-1] < QUIET else None
    elif flips is not None:
        recent = (*[time for time in flips.times if at - time < WINDOW], at)
        if len(recent) > FLIPS:
            recent, since = (at,), at
    return new._replace(flips=Flips(recent, new.version, since))
