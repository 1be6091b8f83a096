"""The rules on silence (floor 2, pure): how long a node was silent while somebody watched, and what follows.

All times here are steady seconds: readings of one clock that only runs forward. No rule sees a wall clock, so
none can be misled by one. A node is lost when its watched silence reaches its grace; time in which nobody
could have heard it does not count:

- a pause of our own is left out as long as it was;
- an outage of the broker is left out together with one interval, in which agents find their way back;
- the time between two processes is left out, whatever it was.

A node that was not late before an outage or a restart begins its grace anew after it; one that was late goes
on where it was, since its silence is proven.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

GRACE_INTERVALS = 3
# A grace of fewer intervals calls a node lost after one dropped beat and one late one.
LATE_INTERVALS = 1.5
# A node whose beat is late by half an interval missed it: agents jitter by a tenth.
INTERVALS_S = (0.05, 86_400.0)
# What an agent may say its interval is. Below, nothing would be gained; above, a lost node is never noticed.

GapKind = Literal["pause", "outage", "start"]


class Gap(NamedTuple):
    """A time in which nobody watched, from the last sign that all was well to the first one after it."""

    begin: float
    end: float
    kind: GapKind


class Pace(NamedTuple):
    """How often a node beats, and how long it may be silent."""

    interval_s: float
    grace_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LivenessRules:
    """What is set: the pace of nodes, by pool where a pool has its own, and when a zone counts as silent."""

    interval_s: float = 10.0
    grace_s: float = 30.0
    pools: Mapping[str, Pace] = field(default_factory=dict)
    zone_share: float = 0.5
    zone_min: int = 10
    zone_hold_s: float = 300.0
    probe: bool = False

    def pace(self, *, pool: str | None, reported_s: float | None) -> Pace:
        """Return the pace of a node: its own interval where it reports one, and a grace of three at least."""
        default = Pace(self.interval_s, self.grace_s)
        interval_s, grace_s = self.pools.get(pool, default) if pool is not None else default
        if reported_s is not None and math.isfinite(reported_s) and reported_s > 0:
            interval_s = min(max(reported_s, INTERVALS_S[0]), INTERVALS_S[1])
        return Pace(interval_s, max(grace_s, round(GRACE_INTERVALS * interval_s, 6)))

    @property
    def shortest(self) -> Pace:
        """The shortest interval and the shortest grace that are set."""
        paces = [Pace(self.interval_s, self.grace_s), *self.pools.values()]
        return Pace(min(pace.interval_s for pace in paces), min(pace.grace_s for pace in paces))


def watched_silence(spoke: Floats, *, until: float, interval_s: Floats, gaps: Sequence[Gap]) -> Floats:
    """Return for how long each node was silent and watched, from when it last spoke until `until`.

    `gaps` are in order of time and do not overlap. Never negative, and 0 for a node that spoke after `until`.
    """
    silent_s, counts_from = np.zeros(len(spoke)), spoke
    for gap in gaps:
        if gap.begin >= until:
            break
        was_silent = spoke < gap.end
        before_s = silent_s + np.maximum(gap.begin - counts_from, 0.0)
        again_from = np.full(len(spoke), gap.end, np.float64)
        if gap.kind != "pause":
            before_s = np.where(before_s < LATE_INTERVALS * interval_s, 0.0, before_s)
        if gap.kind == "outage":
            again_from += interval_s
        silent_s = np.where(was_silent, before_s, silent_s)
        counts_from = np.where(was_silent, np.maximum(counts_from, again_from), counts_from)
    return silent_s + np.maximum(until - counts_from, 0.0)


def is_lost(
    spoke: Floats,
    *,
    until: float,
    interval_s: Floats,
    grace_s: Floats,
    gaps: Sequence[Gap],
    watching_since: float,
) -> tuple[Flags, Floats]:
    """Say of each node whether it is lost, and its watched silence. At its grace exactly, it is.

    Whatever is said of the time before `watching_since`, when this process had read all there was, a node has
    to be late after it too: what one process left to the next may be wrong by a step of the broker's clock.
    """
    silent_s = watched_silence(spoke, until=until, interval_s=interval_s, gaps=gaps)
    here_s = watched_silence(np.maximum(spoke, watching_since), until=until, interval_s=interval_s, gaps=gaps)
    return (silent_s >= grace_s) & (here_s >= LATE_INTERVALS * interval_s), silent_s


def is_late(spoke: Floats, *, until: float, interval_s: Floats, gaps: Sequence[Gap]) -> Flags:
    """Say of each node whether it missed a beat while somebody watched."""
    late: Flags = (
        watched_silence(spoke, until=until, interval_s=interval_s, gaps=gaps) >= LATE_INTERVALS * interval_s
    )
    return late
