"""What one round of judging has to say (floor 2, pure): a zone first, then single nodes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from events.log import Int64s
from projections import judging
from projections.judging import Due
from projections.roster import Roster
from projections.silence import Floats
from projections.watch import Watch
from projections.zones import ZoneBook, ZoneFinding, gone_silent, speaking_again

NOBODY: Int64s = np.zeros(0, np.int64)
_NO_TIME: Floats = np.zeros(0)


class Round(NamedTuple):
    """What has to be said now. Where a zone has to be told of, nobody is judged beside it."""

    recovered: ZoneFinding | None = None
    silent: ZoneFinding | None = None
    alive: Int64s = NOBODY
    due: Due = Due(NOBODY, _NO_TIME)

    @property
    def tells_zone(self) -> bool:
        return self.recovered is not None or self.silent is not None


def next_round(roster: Roster, watch: Watch, book: ZoneBook, *, now: float, folded: int) -> Round:
    """Return what has to be said at `now`, with everything up to a position in FLEET known.

    Whoever is due is silent by what is folded; that the broker holds no later heartbeat of theirs has to be
    made sure of before they are called lost.
    """
    for found in speaking_again(roster, now=now, states=book.states):
        if book.is_free(found.zone, folded=folded):
            return Round(recovered=found)
    alive = judging.newly_alive(roster, now=now, folded=folded, facts_known_until=watch.facts_known_until)
    if not watch.may_judge(now):
        return Round(alive=alive)
    due = judging.due(roster, watch, now=now, folded=folded)
    if len(due.numbers):
        for found in gone_silent(roster, due.numbers, until=watch.horizon, gaps=watch.gaps, book=book):
            if book.is_free(found.zone, folded=folded):
                return Round(silent=found)
        due = due.only(~np.isin(roster.zone[due.numbers], _held_zones(roster, book, now=now, folded=folded)))
    return Round(alive=alive, due=due)


def _held_zones(roster: Roster, book: ZoneBook, *, now: float, folded: int) -> list[int]:
    """Return the zones in which nobody is called lost now."""
    return [
        roster.zone_number(zone)
        for zone in book.mentioned
        if book.held_until(zone) > now or not book.is_free(zone, folded=folded)
    ]
