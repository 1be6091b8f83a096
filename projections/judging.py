"""Who is alive, and who is lost (floor 2, pure): the roster looked over against the watch."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import NamedTuple

import numpy as np

from events.log import Int64s
from projections.roster import NOWHERE, Roster, Word
from projections.silence import LATE_INTERVALS, Floats, is_lost, watched_silence
from projections.watch import Watch
from projections.zones import ZoneBook


class Due(NamedTuple):
    """Nodes whose grace is over, by number, and how long they were silent and watched."""

    numbers: Int64s
    silent_s: Floats

    def only(self, which: Int64s | np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> Due:
        """Return some of them."""
        return Due(self.numbers[which], self.silent_s[which])


class Outlook(NamedTuple):
    """What is to be expected of a node's liveness.

    `is_suspect` says that it missed a beat; `expected_lost_at` when it will be called lost if it stays silent
    from now on (None: never, as things are). `silent_s` counts from its last sign, watched or not. `reason`
    says what holds verdicts now, "" where nothing does. `interval_s` is how often it should beat.
    """

    is_suspect: bool
    expected_lost_at: datetime | None
    silent_s: float | None
    grace_s: float
    mode: str
    reason: str
    interval_s: float | None = None


def newly_alive(roster: Roster, *, now: float, folded: int, facts_known_until: float) -> Int64s:
    """Return the nodes whose last beat makes them alive: `folded` is the position in FLEET that is known.

    A node that no fact was about is among them only where each fact older than its beat is known.
    """
    n = roster.count
    word, beat_seq, spoke = roster.word[:n], roster.beat_seq[:n], roster.spoke[:n]
    is_asked = (beat_seq > 0) & (now - spoke < roster.grace_s[:n])
    is_asked &= (roster.waits_for[:n] <= folded) & (roster.again_at[:n] <= now)
    is_due = (word == Word.NOBODY) & (spoke < facts_known_until)
    is_due |= roster.speaks_for_its_boot() & (
        (word == Word.PENDING) | ((word == Word.LOST) & (beat_seq != roster.known_beat[:n]))
    )
    found: Int64s = np.flatnonzero(is_asked & is_due)
    return found


def due(roster: Roster, watch: Watch, *, now: float, folded: int) -> Due:
    """Return the nodes whose grace is over by what is folded, whatever else may hold their verdicts.

    Nobody is lost by that alone: the broker may hold a heartbeat that is not folded yet.
    """
    n, until = roster.count, watch.until(now)
    word, heard = roster.word[:n], roster.heard
    is_asked = (word == Word.ALIVE) | (word == Word.PENDING)
    is_asked &= (roster.waits_for[:n] <= folded) & (roster.again_at[:n] <= now)
    numbers = np.flatnonzero(is_asked & (until - heard >= roster.grace_s[:n]))
    if not len(numbers):
        return Due(numbers, np.zeros(0))
    lost, silent_s = is_lost(
        heard[numbers],
        until=until,
        interval_s=roster.interval_s[numbers],
        grace_s=roster.grace_s[numbers],
        gaps=watch.gaps,
        watching_since=watch.watching_since,
    )
    return Due(numbers[lost], silent_s[lost])


def next_deadline(roster: Roster) -> float:
    """Return the earliest steady time at which somebody may be lost; inf where nobody can be."""
    n = roster.count
    word = roster.word[:n]
    waits = (word == Word.ALIVE) | (word == Word.PENDING)
    return float(np.min((roster.heard + roster.grace_s[:n])[waits], initial=math.inf))


def oldest_sign(roster: Roster) -> float:
    """Return when the longest silence began that may still end in a verdict; inf where there is none."""
    n = roster.count
    word = roster.word[:n]
    return float(np.min(roster.heard[(word == Word.ALIVE) | (word == Word.PENDING)], initial=math.inf))


def outlook(roster: Roster, watch: Watch, book: ZoneBook, number: int, *, now: float) -> Outlook:
    """Return what is to be expected of one node; may be called beside the evaluator."""
    mode, reason = watch.mode(now)
    reason = "" if watch.may_judge(now) else reason
    grace_s, word = float(roster.grace_s[number]), roster.word[number]
    heard = max(float(roster.spoke[number]), float(roster.since[number]))
    silent_s = None if heard == -math.inf else max(0.0, now - heard)
    if word not in (Word.ALIVE, Word.PENDING) or watch.last_look is None or silent_s is None:
        return Outlook(False, None, silent_s, grace_s, mode, reason, float(roster.interval_s[number]))
    interval_s, watched_s = float(roster.interval_s[number]), silent_s
    if gaps := [gap for gap in tuple(watch.gaps) if gap.end > heard]:
        one, paces = np.array([heard]), np.array([interval_s])
        watched_s = float(watched_silence(one, until=now, interval_s=paces, gaps=gaps)[0])
    expected = now + max(0.0, grace_s - watched_s)
    zone = roster.zone[number]
    if zone != NOWHERE and (held_until := book.held_until(roster.zone_names[zone])) > now:
        expected, reason = max(expected, held_until), "its whole zone is silent: single verdicts are held"
    return Outlook(
        is_suspect=bool(watched_s >= LATE_INTERVALS * interval_s),
        expected_lost_at=datetime.fromtimestamp(watch.broker_time(expected), UTC),
        silent_s=silent_s,
        grace_s=grace_s,
        mode=mode,
        reason=reason,
        interval_s=interval_s,
    )
