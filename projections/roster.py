"""What the evaluator knows of each node, by node number (floor 2, pure): about 120 bytes a node.

Facts and heartbeats are taken over as columns, whole fleets at once. Texts that are only compared are kept as
64-bit hashes of this process. Times are steady seconds; -inf is never.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from events.errors import InvalidNodeIdError
from events.ids import zone
from events.log import Int64s
from projections.silence import Flags, Floats, LivenessRules

NOWHERE = -1
"""The zone of a node that names none."""


class Word(IntEnum):
    """What the facts say of a node; `NOBODY` is one that neither registered nor has a verdict."""

    NOBODY = 0
    PENDING = 1
    ALIVE = 2
    LOST = 3
    UNMONITORED = 4
    RETIRED = 5


_WORDS = {"pending": Word.PENDING, "alive": Word.ALIVE, "lost": Word.LOST, "unmonitored": Word.UNMONITORED}


@dataclass(frozen=True, slots=True)
class NodeRows:
    """What facts made of nodes, as columns; `since_us` is since when the liveness is what it is."""

    numbers: Int64s
    versions: Int64s
    states: Sequence[str]
    livenesses: Sequence[str]
    boot_ids: Sequence[str | None]
    zones: Sequence[str | None]
    pools: Sequence[str | None]
    intervals_s: Sequence[float | None]
    is_registered: Flags
    since_us: Int64s


@dataclass(frozen=True, slots=True)
class BeatRows:
    """What heartbeats made of nodes, as columns: only nodes that beat since they were last looked at."""

    numbers: Int64s
    beat_seqs: Int64s
    spoke: Floats
    boot_ids: Sequence[str | None]
    digests: Sequence[str | None]


class Roster:
    """One row for each node number. Only the evaluator changes it; single numbers may be read beside it."""

    def __init__(self, rules: LivenessRules) -> None:
        self.rules = rules
        self.zone_names: list[str] = []
        """The zones by their numbers, in the order of their first mention."""
        self._zone_numbers: dict[str, int] = {}
        self.count = 0
        self.word: npt.NDArray[np.int8] = np.zeros(0, np.int8)
        self.version = _none()
        self.waits_for = _none()
        """The sequence in FLEET that has to be folded before the node is judged again."""
        self.boot, self.beat_boot = _none(), _none()
        self.digest, self.beat_digest = _none(), _none()
        self.beat_seq, self.known_beat = _none(), _none()
        """The last accepted beat, and the last one that the standing `lost` knew of."""
        self.zone = _none()
        self.registered_at_seq = _none()
        """Where in FLEET the last registration is, while its digest is not known; else 0."""
        self.other_boots, self.other_boots_known = _none(), _none()
        """How many beats of earlier boots there were, and how many when the node was asked last."""
        self.is_unchecked: Flags = np.zeros(0, bool)
        """Whether the node beat since somebody looked if it has to be asked something."""
        self.interval_s, self.grace_s = _never(), _never()
        self.spoke, self.since = _never(), _never()
        """When it last beat, and when the clock began to run for another reason."""
        self.again_at = _never()
        """Before when it gets no second verdict of a kind that changed nothing."""
        self.probed_at, self.ask_at, self.ask_pause_s = _never(), _never(), _never()
        """When it was probed, before when it is asked nothing, and for how long the next time."""
        self._has_other_boots = False
        self._pace = lru_cache(4096)(rules.pace)

    @property
    def heard(self) -> Floats:
        """When each node's silence began."""
        return np.maximum(self.spoke[: self.count], self.since[: self.count])

    def zone_number(self, name: str | None) -> int:
        """Return the number of a zone, NOWHERE for none and for a text that no subject can carry."""
        if name is None:
            return NOWHERE
        found = self._zone_numbers.get(name)
        if found is None:
            found = self._zone_numbers[name] = len(self.zone_names) if _is_zone(name) else NOWHERE
            if found != NOWHERE:
                self.zone_names.append(name)
        return found

    def hold(self, count: int) -> None:
        """Make room for the numbers below `count`."""
        have = len(self.word)
        if count > have:
            more = max(count, have + have // 4, 1024) - have
            pace = self._pace(pool=None, reported_s=None)
            for name, column in vars(self).items():
                if isinstance(column, np.ndarray):
                    filled = _FILLED.get(name, 0)
                    setattr(self, name, np.concatenate([column, np.full(more, filled, column.dtype)]))
            self.interval_s[have:], self.grace_s[have:] = pace
        self.count = max(self.count, count)

    def take_beats(self, rows: BeatRows) -> None:
        """Take over what nodes' heartbeats say now."""
        if not len(rows.numbers):
            return
        at = rows.numbers
        self.hold(int(at.max()) + 1)
        self.beat_seq[at] = rows.beat_seqs
        self.spoke[at] = rows.spoke
        self.beat_boot[at] = _hashes(rows.boot_ids)
        self.beat_digest[at] = _hashes(rows.digests)
        self.is_unchecked[at] = True

    def take_other_boots(self, counts: Int64s) -> None:
        """Take over how often earlier boots of each node beat; what was before this process is over."""
        n = len(counts)
        if self._has_other_boots:
            self.is_unchecked[:n] |= counts != self.other_boots[:n]
        else:
            self.other_boots_known[:n] = counts
            self._has_other_boots = True
        self.other_boots[:n] = counts

    def take_nodes(self, rows: NodeRows, *, since: Floats) -> None:
        """Take over what nodes are now; the clock runs from `since` where a node has no verdict yet."""
        if not len(rows.numbers):
            return
        at = rows.numbers
        self.hold(int(at.max()) + 1)
        boot = _hashes(rows.boot_ids)
        words = np.array(
            [
                _word(state, liveness, is_registered)
                for state, liveness, is_registered in zip(
                    rows.states, rows.livenesses, rows.is_registered.tolist(), strict=True
                )
            ],
            np.int8,
        )
        begins = (words == Word.PENDING) & ((self.word[at] != Word.PENDING) | (self.boot[at] != boot))
        begins |= np.isneginf(self.spoke[at]) & np.isneginf(self.since[at])
        self.since[at] = np.where(begins, since, self.since[at])
        # A verdict that another evaluator made, or this one before it began: what it knew is read with it.
        lost_now = (words == Word.LOST) & (self.word[at] != Word.LOST)
        self.known_beat[at[lost_now]] = self.beat_seq[at[lost_now]]
        self.again_at[at[words != self.word[at]]] = -math.inf
        self.word[at], self.boot[at], self.version[at] = words, boot, rows.versions
        self.zone[at] = [self.zone_number(zone) for zone in rows.zones]
        paces = [
            self._pace(pool=pool, reported_s=reported)
            for pool, reported in zip(rows.pools, rows.intervals_s, strict=True)
        ]
        self.interval_s[at], self.grace_s[at] = np.array(paces, np.float64).T
        self.is_unchecked[at] |= self.beat_seq[at] > 0

    def knew(self, number: int, beat_seq: int | None) -> None:
        """Take over which beat the standing `lost` of a node knew of; None is unknown."""
        if beat_seq is not None and self.word[number] == Word.LOST:
            self.known_beat[number] = beat_seq

    def registered(self, number: int, digest: str, *, seq: int) -> None:
        """Take over the digest of a node's last registration; "" where it has to be computed if need be."""
        self.hold(number + 1)
        self.digest[number] = hash(digest) if digest else 0
        self.registered_at_seq[number] = 0 if digest else seq
        self.is_unchecked[number] |= self.beat_seq[number] > 0

    def speaks_for_its_boot(self) -> Flags:
        """Say of each node whether its heartbeats are of the boot that registered, or none did."""
        boot = self.boot[: self.count]
        same: Flags = (boot == 0) | (boot == self.beat_boot[: self.count])
        return same


def _is_zone(name: str) -> bool:
    try:
        return zone(name) == name
    except InvalidNodeIdError:
        return False


def _word(state: str, liveness: str, is_registered: bool) -> Word:
    if state == "retired":
        return Word.RETIRED
    word = _WORDS[liveness]
    return Word.NOBODY if word == Word.PENDING and not is_registered else word


def _none() -> Int64s:
    return np.zeros(0, np.int64)


def _never() -> Floats:
    return np.zeros(0, np.float64)


_FILLED = dict.fromkeys(("spoke", "since", "again_at", "probed_at", "ask_at"), -math.inf) | {"zone": NOWHERE}


def _hashes(texts: Sequence[str | None]) -> Int64s:
    return np.fromiter((0 if text is None else hash(text) for text in texts), np.int64, len(texts))
