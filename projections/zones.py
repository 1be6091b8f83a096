"""When a zone counts as silent, and for how long that holds single verdicts (floor 2, pure).

A switch that fails takes hundreds of nodes with it. They are not lost one by one: one fact says how many went
silent together, and the single verdicts wait until they speak again, or until the hold ends.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from events.log import Int64s
from projections.roster import NOWHERE, Roster, Word
from projections.silence import LATE_INTERVALS, Gap, is_late


@dataclass(frozen=True, slots=True)
class ZoneState:
    """What the last fact about a zone says; `version` is its sequence in FLEET.

    `count` of its `members` were silent, or spoke; `held_until_s` is a time of the broker's since 1970.
    """

    zone: str
    version: int
    is_silent: bool
    count: int
    members: int
    held_until_s: float | None


@dataclass(frozen=True, slots=True)
class ZoneFinding:
    """A zone that went silent or speaks again: `count` of its `members` do."""

    zone: str
    count: int
    members: int


class ZoneBook:
    """The zones that facts are about, and until when (steady seconds) their single verdicts are held."""

    def __init__(self, *, hold_s: float) -> None:
        self.hold_s = hold_s
        self.states: dict[str, ZoneState] = {}
        self.waits_for: dict[str, int] = {}
        """The sequence in FLEET that has to be folded before the zone is judged again."""
        self.unread: dict[str, int] = {}
        """The sequence of a later record about the zone, which the broker counts and nobody could read."""
        self._held_until: dict[str, float] = {}

    def take(self, states: Sequence[ZoneState], *, now: float, broker_now_s: float) -> None:
        """Take over what zones are. A hold lasts no longer than it was ever set for, whatever clocks say."""
        for state in states:
            known = self.states.get(state.zone)
            self.states[state.zone] = state
            if not state.is_silent or state.held_until_s is None:
                self._held_until[state.zone] = -math.inf
            elif known is None or known.version != state.version:
                left_s = state.held_until_s - broker_now_s
                self._held_until[state.zone] = now + min(max(left_s, 0.0), self.hold_s)

    def begin_hold(self, zone: str, *, now: float) -> None:
        """Hold the verdicts of a zone from now on: the fact that says so is on its way."""
        self._held_until[zone] = now + self.hold_s

    def end_hold(self, zone: str) -> None:
        """Hold nothing in a zone: the fact that would have said so was not stored."""
        self._held_until[zone] = -math.inf

    def held_until(self, zone: str) -> float:
        """Return until when the verdicts of a zone are held, -inf where they are not."""
        return self._held_until.get(zone, -math.inf)

    def is_silent(self, zone: str) -> bool:
        """Tell whether the last fact about a zone says that it is silent."""
        state = self.states.get(zone)
        return state is not None and state.is_silent

    def is_free(self, zone: str, *, folded: int) -> bool:
        """Tell whether a zone may be judged: all that is known to be stored about it is folded."""
        return self.waits_for.get(zone, 0) <= folded

    @property
    def mentioned(self) -> set[str]:
        """The zones that facts are about, or will be."""
        return {*self.states, *self.waits_for, *self._held_until}

    def version(self, zone: str) -> int:
        """Return the sequence of the last fact about a zone, 0 for none."""
        state = self.states.get(zone)
        return 0 if state is None else state.version

    @property
    def silent(self) -> list[str]:
        """The zones that are silent."""
        return [zone for zone, state in self.states.items() if state.is_silent]


def gone_silent(
    roster: Roster, due: Int64s, *, until: float, gaps: Sequence[Gap], book: ZoneBook
) -> list[ZoneFinding]:
    """Return the zones of the nodes that are due to be lost of which a large share is late.

    Only nodes that are alive by the facts count. A zone that is silent by a fact already is not among them.
    """
    rules, zones = roster.rules, np.unique(roster.zone[due])
    names = {int(zone): roster.zone_names[zone] for zone in zones[zones != NOWHERE].tolist()}
    names = {zone: name for zone, name in names.items() if not book.is_silent(name)}
    if not names:
        return []
    alive = np.flatnonzero(
        (roster.word[: roster.count] == Word.ALIVE) & np.isin(roster.zone[: roster.count], list(names))
    )
    late = is_late(roster.heard[alive], until=until, interval_s=roster.interval_s[alive], gaps=gaps)
    members = np.bincount(roster.zone[alive], minlength=max(names) + 1)
    silent = np.bincount(roster.zone[alive[late]], minlength=max(names) + 1)
    return [
        ZoneFinding(name, int(silent[zone]), int(members[zone]))
        for zone, name in names.items()
        if silent[zone] >= rules.zone_min and silent[zone] >= rules.zone_share * members[zone]
    ]


def speaking_again(roster: Roster, *, now: float, states: Mapping[str, ZoneState]) -> list[ZoneFinding]:
    """Return the silent zones in which at least half of those that went silent speak again."""
    found: list[ZoneFinding] = []
    for name, state in states.items():
        if not state.is_silent:
            continue
        here = members_of(roster, name)
        spoke_s = now - roster.spoke[here]
        speaking = int(np.count_nonzero(spoke_s < LATE_INTERVALS * roster.interval_s[here]))
        members = min(state.members, len(here))
        if speaking and speaking >= members - min(state.count, members) / 2:
            found.append(ZoneFinding(name, speaking, len(here)))
    return found


def members_of(roster: Roster, zone: str) -> Int64s:
    """Return the numbers of a zone's nodes that have a verdict."""
    word = roster.word[: roster.count]
    found: Int64s = np.flatnonzero(
        (roster.zone[: roster.count] == roster.zone_number(zone))
        & ((word == Word.ALIVE) | (word == Word.LOST))
    )
    return found
