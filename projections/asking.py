"""Which agents have to be asked something (floor 2, pure).

A node that beats and is not registered, or is registered as another boot or with another inventory than its
beat names, is asked to register, and so are all who beat under one id in turn; one that was retired is told
that it is gone. Nobody is asked before every
fact older than the beat is known, and nobody twice within an interval; who does not listen is asked ever more
seldom.
"""

from __future__ import annotations

from datetime import timedelta
from typing import NamedTuple

import numpy as np

from events.log import Int64s
from projections.roster import Roster, Word

LONGEST_PAUSE_S = timedelta(hours=1).total_seconds()
# An agent that cannot answer costs a message and perhaps a record an hour.
OTHERS = 2
# One beat of an earlier boot may have been on its way when its machine was started again.


class Asking(NamedTuple):
    """The nodes to ask, by number. Those to `register`, by why; those that are `gone`.

    `in_turn` are those under whose id an earlier boot goes on beating.
    """

    unknown: Int64s
    other_boot: Int64s
    other_inventory: Int64s
    in_turn: Int64s
    gone: Int64s


def unread_digests(roster: Roster, *, most: int) -> Int64s:
    """Return nodes that name an inventory, and whose registration's digest has to be computed first."""
    n = roster.count
    found: Int64s = np.flatnonzero(
        roster.is_unchecked[:n] & (roster.beat_digest[:n] != 0) & (roster.registered_at_seq[:n] > 0)
    )
    return found[:most]


def to_ask(roster: Roster, *, now: float, facts_known_until: float) -> Asking:
    """Return whom to ask of those that beat since this was last asked, and take note that it is done."""
    n = roster.count
    numbers = np.flatnonzero(
        roster.is_unchecked[:n]
        & (roster.registered_at_seq[:n] * (roster.beat_digest[:n] != 0) == 0)
        & (roster.spoke[:n] < facts_known_until)
    )
    roster.is_unchecked[numbers] = False
    # What was said long ago, by the log of a process before this one, was asked by that or is over.
    numbers = numbers[now - roster.spoke[numbers] < roster.grace_s[numbers]]
    word, boot = roster.word[numbers], roster.boot[numbers]
    digest, beat_digest = roster.digest[numbers], roster.beat_digest[numbers]
    is_other_boot = (boot != 0) & (boot != roster.beat_boot[numbers])
    is_gone = (word == Word.RETIRED) & ~is_other_boot
    is_unknown = (word == Word.NOBODY) | ((boot == 0) & (word != Word.RETIRED))
    is_other = ~is_other_boot & ~is_gone & ~is_unknown & (beat_digest != 0) & (digest != 0)
    is_other &= digest != beat_digest
    others = roster.other_boots[numbers] - roster.other_boots_known[numbers]
    is_in_turn = ~is_other_boot & ~is_gone & ~is_unknown & ~is_other & (others >= OTHERS)
    wanting = is_unknown | is_other_boot | is_other | is_gone | is_in_turn
    is_quiet = ~wanting & (roster.ask_at[numbers] + roster.ask_pause_s[numbers] <= now)
    roster.ask_pause_s[numbers[is_quiet]] = 0.0
    may = wanting & (roster.ask_at[numbers] <= now)
    asked = numbers[may]
    roster.other_boots_known[asked] = roster.other_boots[asked]
    pause_s = np.maximum(2 * roster.ask_pause_s[asked], roster.interval_s[asked])
    roster.ask_pause_s[asked] = np.minimum(pause_s, LONGEST_PAUSE_S)
    roster.ask_at[asked] = now + roster.ask_pause_s[asked]
    return Asking(
        unknown=numbers[may & is_unknown],
        other_boot=numbers[may & is_other_boot],
        other_inventory=numbers[may & is_other],
        in_turn=numbers[may & is_in_turn],
        gone=numbers[may & is_gone],
    )
