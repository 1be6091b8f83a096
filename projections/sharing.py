"""Who has a handle that somebody else has too: an index over all nodes in memory (floor 2, pure).

A handle is kept as a 64-bit hash of this process with the number of its node, in order of the hashes: twelve
bytes each. What nodes share is a function of what they are now, so neither the order of facts about two
nodes nor how a log is cut into batches shows in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import compress, repeat
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from events.log import Int64s
from projections.handles import SHARED_CONDITIONS, Handle, HandlesChanged

Numbers = npt.NDArray[np.int32]
Conditions = tuple[str, ...]
_ORDER = {condition: at for at, condition in enumerate(SHARED_CONDITIONS)}


class Sharing(NamedTuple):
    """Every handle, by rising hash, and whose it is. Never changed: a batch makes another one."""

    hashes: Int64s
    numbers: Numbers

    def holder_counts(self, hashes: Int64s) -> Int64s:
        """Return how many nodes have each handle."""
        found: Int64s = np.searchsorted(self.hashes, hashes, "right") - np.searchsorted(self.hashes, hashes)
        return found

    def holders(self, handle: Handle) -> list[int]:
        """Return the numbers of all nodes that have a handle, lowest first."""
        return sorted(self._with(hash(handle)).tolist())

    def _with(self, hashed: int) -> Numbers:
        low, high = (int(np.searchsorted(self.hashes, hashed, side)) for side in ("left", "right"))
        return self.numbers[low:high]


NOBODY = Sharing(np.empty(0, np.int64), np.empty(0, np.int32))


class SharingChanged(NamedTuple):
    """The index after a batch, and the conditions of each node that has others than before, perhaps none."""

    sharing: Sharing
    conditions: Mapping[int, Conditions]


class HandleColumn(NamedTuple):
    """One kind of handle of many active nodes: the number of each, and its text; None is no handle."""

    condition: str
    numbers: Int64s
    texts: Sequence[str | None]


def indexed(columns: Iterable[HandleColumn]) -> Sharing:
    """Return the index over all nodes; a node may have the same twice."""
    hashes, numbers = [NOBODY.hashes], [NOBODY.numbers]
    for condition, having, texts in columns:
        has_text = np.fromiter(map(bool, texts), bool, len(texts))
        handles = zip(repeat(condition), compress(texts, has_text.tolist()), strict=False)
        hashes.append(np.fromiter(map(hash, handles), np.int64, int(has_text.sum())))
        numbers.append(having[has_text].astype(np.int32))
    every, whose = np.concatenate(hashes), np.concatenate(numbers)
    order = np.lexsort((whose, every))
    every, whose = every[order], whose[order]
    again = np.zeros(len(every), dtype=bool)
    again[1:] = (every[1:] == every[:-1]) & (whose[1:] == whose[:-1])
    return Sharing(every[~again], whose[~again])


def changed(
    sharing: Sharing,
    given: Mapping[int, HandlesChanged],
    *,
    had: Mapping[int, Conditions],
    handles_of: Callable[[int], tuple[Handle, ...]],
) -> SharingChanged:
    """Return what a batch makes of the index and of the conditions.

    `given` has the nodes that have others than before, by number; `had` the conditions of those
    that have any; `handles_of` says those of some other node.
    """
    if not given:
        return SharingChanged(sharing, {})
    gone = _pairs((number, one.before) for number, one in given.items())
    come = _pairs((number, one.after) for number, one in given.items())
    after = _changed(sharing, gone, come)
    touched = np.unique(np.concatenate([gone.hashes, come.hashes]))
    crossed = touched[(sharing.holder_counts(touched) > 1) != (after.holder_counts(touched) > 1)]
    affected = set(come.numbers[after.holder_counts(come.hashes) > 1].tolist())
    affected.update(number for number in given if number in had)
    for hashed in crossed.tolist():
        affected.update(sharing._with(hashed).tolist(), after._with(hashed).tolist())
    has = {
        number: _conditions(after, given[number].after if number in given else handles_of(number))
        for number in affected
    }
    return SharingChanged(after, {one: now for one, now in has.items() if now != had.get(one, ())})


class _Pairs(NamedTuple):
    """Handles and whose they are, in no order."""

    hashes: Int64s
    numbers: Numbers


def _pairs(given: Iterable[tuple[int, tuple[Handle, ...]]]) -> _Pairs:
    hashes: list[int] = []
    numbers: list[int] = []
    for number, made in given:
        hashes += map(hash, made)
        numbers += [number] * len(made)
    return _Pairs(np.array(hashes, np.int64), np.array(numbers, np.int32))


def _changed(sharing: Sharing, gone: _Pairs, come: _Pairs) -> Sharing:
    hashes, numbers = sharing
    if len(gone.hashes):
        keeps = np.ones(len(hashes), dtype=bool)
        begins = np.searchsorted(hashes, gone.hashes).tolist()
        ends = np.searchsorted(hashes, gone.hashes, "right").tolist()
        for begin, end, number in zip(begins, ends, gone.numbers.tolist(), strict=True):
            keeps[begin + np.flatnonzero(numbers[begin:end] == number)[0]] = False
        hashes, numbers = hashes[keeps], numbers[keeps]
    order = np.argsort(come.hashes, kind="stable")
    new = come.hashes[order]
    at = np.searchsorted(hashes, new)
    return Sharing(np.insert(hashes, at, new), np.insert(numbers, at, come.numbers[order]))


def _conditions(sharing: Sharing, made: tuple[Handle, ...]) -> Conditions:
    counts = sharing.holder_counts(np.array([hash(one) for one in made], np.int64))
    shared = {condition for (condition, _), count in zip(made, counts.tolist(), strict=True) if count > 1}
    return tuple(sorted(shared, key=_ORDER.__getitem__))
