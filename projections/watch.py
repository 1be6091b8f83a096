"""What was watched, and when (floor 2, pure): the broker's answers, laid out on our own steady clock.

Every look asks the broker for its time and for the head of both streams. So a record is dated by its
sequence: it was stored after the last look whose head was before it, and before the first look whose head was
not. The broker's wall clock only says where in between, which is a fraction of a second; a step of it, or of
our own wall clock, moves nothing out of there.

The same looks give the horizon: once all that the broker held at a look is folded, nothing that it received
before is unknown. A horizon that is far behind ends the judging, whatever it is that is late. Two looks that
are too far apart are a gap.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from typing import NamedTuple

import numpy as np

from events.log import Cursor, Int64s
from projections.silence import Floats, Gap, GapKind, Pace

STEP_S = 0.5
# What a wall clock may move against the steady one between two looks: daemons that discipline clocks step
# from 0.128 s on and slew below; an answer may be late by as much.
MOST_GAPS = 64
MOST_LOOKS = 4096
# Of a backlog that is folded for minutes; every second one is forgotten then, which dates half as exactly.


class Bounds(NamedTuple):
    """What counts as late, in seconds: a look, or an answer to one; the folding of what was stored."""

    late_s: float
    lag_s: float


def bounds(shortest: Pace) -> Bounds:
    """Return the bounds for nodes of this pace.

    A second is above what a loaded machine makes of 20 ms, and a thirtieth of the default grace; nodes that
    beat more often need a sharper eye.
    """
    return Bounds(
        late_s=min(1.0, max(0.25, shortest.interval_s / 2)),
        lag_s=min(2.0, max(0.5, shortest.grace_s / 3)),
    )


class Look(NamedTuple):
    """One answer of the broker. `asked` and `answered` are steady; `broker_at` and `wall_at` are the broker's
    and our own wall clock at the answer, in seconds since 1970.
    """

    asked: float
    answered: float
    broker_at: float
    wall_at: float
    beats: tuple[str, int]
    fleet: tuple[str, int]


class Sights:
    """The looks at one stream of one epoch, as far back as records of it may still have to be dated."""

    def __init__(self) -> None:
        self.epoch = ""
        self._heads: list[int] = []
        self._asked: list[float] = []
        self._answered: list[float] = []
        self._offsets: list[float] = []
        self._not_before = -math.inf

    def saw(self, look: Look, epoch: str, head: int) -> None:
        """Take a look; one at another epoch, or at a head that went back, begins anew."""
        if epoch != self.epoch or (self._heads and head < self._heads[-1]):
            if self._asked:
                self._not_before = self._asked[-1]
            self.epoch = epoch
            for column in (self._heads, self._asked, self._answered, self._offsets):
                column.clear()
        self._heads.append(head)
        self._asked.append(look.asked)
        self._answered.append(look.answered)
        self._offsets.append(look.answered - look.broker_at)
        if len(self._heads) > MOST_LOOKS:
            for column in (self._heads, self._asked, self._answered, self._offsets):
                del column[1:-1:2]

    def horizon(self, cursor: Cursor) -> float:
        """Return the time before which nothing unknown was stored, -inf where there is none yet."""
        if cursor.epoch != self.epoch and self._heads and self._heads[-1] > 0:
            return -math.inf
        at = bisect_right(self._heads, cursor.seq) - 1
        return self._asked[at] if at >= 0 else -math.inf

    def dated(self, seqs: Int64s, stored_s: Floats, *, now: float) -> Floats:
        """Return when records were stored, on the steady clock: between the looks before and after each."""
        if not self._heads:
            return np.full(len(seqs), now)
        count = len(self._heads)
        after = np.searchsorted(np.array(self._heads), seqs, side="left")
        offsets = np.array(self._offsets)
        lower = np.array([self._not_before, *self._asked])[after]
        upper = np.array([*self._answered, now])[after]
        guess = stored_s + offsets[np.minimum(after, count - 1)]
        when: Floats = np.clip(guess, lower, np.maximum(lower, upper))
        return when

    def forget(self, cursor: Cursor) -> None:
        """Forget the looks that no record after the cursor needs."""
        if cursor.epoch != self.epoch:
            return
        last = bisect_right(self._heads, cursor.seq) - 1
        for column in (self._heads, self._asked, self._answered, self._offsets):
            del column[: max(0, last)]


class Watch:
    """All that one process watched. Called by the evaluator's thread only, but for `mode` and `broker_time`.

    `mark_s` is the broker's time of the last record that was folded before this process, None for none.
    """

    def __init__(self, *, shortest: Pace, mark_s: float | None) -> None:
        self.bounds = bounds(shortest)
        self.gaps: list[Gap] = []
        self.beats, self.fleet = Sights(), Sights()
        self.horizon = -math.inf
        """Before it, no heartbeat was stored that is not folded."""
        self.facts_known_until = -math.inf
        """The same for facts alone."""
        self.watching_since = math.inf
        self.stepped_by_s = 0.0
        self._mark_s, self._shortest = mark_s, shortest
        self._last: Look | None = None
        self._resumed_at = math.inf
        self._stepped_until = self._held_until = -math.inf

    @property
    def last_look(self) -> Look | None:
        """The last answer; None before the first."""
        return self._last

    def broker_time(self, at: float) -> float:
        """Return what the broker's wall clock says at a steady time, in seconds since 1970."""
        assert self._last is not None, "asked after a look"
        return at + self._last.broker_at - self._last.answered

    def steady_times(self, broker_s: Floats) -> Floats:
        """Return the steady times of times of the broker's, by its clock as it is now."""
        assert self._last is not None, "asked after a look"
        return broker_s + (self._last.answered - self._last.broker_at)

    def looked(self, look: Look, *, due: float, was_interrupted: bool) -> None:
        """Take an answer to the look that was due at `due`.

        `was_interrupted` says that the broker was away since the look before, however shortly.
        """
        last, self._last = self._last, look
        self.beats.saw(look, *look.beats)
        self.fleet.saw(look, *look.fleet)
        if last is None:
            return
        if was_interrupted or look.answered - look.asked > self.bounds.late_s:
            self._missed(Gap(last.asked, look.answered, "outage"))
        elif look.asked - due > self.bounds.late_s:
            self._missed(Gap(last.asked, look.answered, "pause"))
        steps = (
            (look.broker_at - look.answered) - (last.broker_at - last.answered),
            (look.wall_at - look.answered) - (last.wall_at - last.answered),
        )
        largest = max(steps, key=abs)
        # An answer that was late itself moves the first of them by as much.
        if abs(largest) > STEP_S + max(look.answered - look.asked, last.answered - last.asked):
            self.stepped_by_s = largest
            self._stepped_until = look.answered + self._shortest.grace_s
            if abs(largest) > self._shortest.grace_s:
                self._held_until = self._stepped_until

    def reached(self, *, beats: Cursor, fleet: Cursor, now: float) -> None:
        """Take note of how far both streams are folded; forget what is known through that."""
        self.horizon, self.facts_known_until = self.beats.horizon(beats), self.fleet.horizon(fleet)
        known_until = min(self.horizon, self.facts_known_until)
        if self.watching_since == math.inf and known_until > -math.inf:
            # From here on this process knows all that there is.
            begin = (
                -math.inf if self._mark_s is None else min(now + self._mark_s - self.broker_time(now), now)
            )
            self.watching_since = self._resumed_at = now
            self.gaps = [Gap(begin, now, "start")]

    def forget(self, *, beats: Cursor, fleet: Cursor, oldest: float) -> None:
        """Forget what is needed neither for records after the cursors, nor for silence since `oldest`."""
        self.beats.forget(beats)
        self.fleet.forget(fleet)
        while self.gaps and self.gaps[0].end <= oldest:
            del self.gaps[0]

    def until(self, now: float) -> float:
        """Return up to when silence may count: not beyond where the next look would still be in time."""
        return -math.inf if self._last is None else min(now, self._last.answered + self.bounds.late_s)

    def may_judge(self, now: float) -> bool:
        """Say whether anybody may be called lost now."""
        return self._fault(now) == "" and now >= self._held_until

    def mode(self, now: float) -> tuple[str, str]:
        """Return `watching`, `waiting` or `degraded`, and why; "" where all is well."""
        if self.watching_since == math.inf:
            return "waiting", "it has not read all that the log held at the start"
        if fault := self._fault(now):
            return "degraded", fault
        if now < self._stepped_until:
            held = ": no verdicts for one grace" if now < self._held_until else ""
            return "degraded", f"a clock was set by {self.stepped_by_s:+.1f} s{held}"
        left_s = self._resumed_at + self._shortest.grace_s - now
        if left_s > 0:
            return "waiting", f"it has to watch for {left_s:.1f} s more until it has for one grace"
        return "watching", ""

    def _fault(self, now: float) -> str:
        if self._last is None:
            return "the broker has not answered yet"
        if now - self._last.answered > self.bounds.late_s + 1.0:
            return f"the broker has not answered for {now - self._last.answered:.1f} s"
        if now - min(self.horizon, self.facts_known_until) > self.bounds.lag_s + 1.0:
            return "what the broker stored is not folded yet"
        return ""

    def _missed(self, gap: Gap) -> None:
        if self.watching_since == math.inf:
            return  # all of that is one gap, which ends when everything is read
        if gap.kind == "outage":
            self._resumed_at = gap.end
        if self.gaps and gap.begin <= self.gaps[-1].end:
            before = self.gaps.pop()
            gap = Gap(before.begin, max(before.end, gap.end), _graver(before.kind, gap.kind))
        self.gaps.append(gap)
        if len(self.gaps) > MOST_GAPS:
            first, second = self.gaps[:2]
            self.gaps[:2] = [Gap(first.begin, second.end, _graver(first.kind, second.kind))]


def _graver(one: GapKind, other: GapKind) -> GapKind:
    order: tuple[GapKind, ...] = ("pause", "start", "outage")
    return max(one, other, key=order.index)
