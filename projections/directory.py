"""The nodes in memory as a page selects them (floor 2, pure): in order of their ids, by what they are.

Texts are kept as 64-bit hashes of this process, a few numbers for each node: a filter over 100,000 nodes
takes a millisecond and no table. Two texts of a fleet share a hash with a chance of 1 in 10^13 for each
question.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from events.ids import NodeId
from events.log import Int64s
from projections.node_index import NodeIndex

LABELS_IN_ROW = 8
# Nodes with more labels, few in most fleets, have their labels in a set of its own each.
_NO_LABELS = [0] * LABELS_IN_ROW
_SLICE = 8192
# Nodes looked at in one step: a page without a filter ends with the first, one with a rare value takes them
# all.


class Listed(NamedTuple):
    """What a node is selected by."""

    node_id: NodeId
    state: str
    liveness: str
    intent: str
    zone: str | None
    pool: str | None
    region: str | None
    dialect: str | None
    native_id: str | None
    hostname: str | None
    display_name: str | None
    labels: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFilter:
    """What has to fit, all of it; None and no labels ask for nothing.

    `name` fits a hostname, a display name or the id in a dialect. Retired nodes fit only where
    `include_retired` says so, or `state` asks for them.
    """

    state: str | None = None
    liveness: str | None = None
    intent: str | None = None
    zone: str | None = None
    pool: str | None = None
    region: str | None = None
    dialect: str | None = None
    native_id: str | None = None
    name: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    include_retired: bool = False


EVERY_NODE = NodeFilter()
_TEXTS = Listed._fields[1:-1]
_COLUMN = {name: column for column, name in enumerate(_TEXTS)}
_NAMES = (_COLUMN["hostname"], _COLUMN["display_name"], _COLUMN["native_id"])
_STATE = _COLUMN["state"]
_RETIRED = hash("retired")


class Directory:
    """Every node that a fact was about. Only the writer changes it; whoever reads holds the writer's lock."""

    def __init__(self) -> None:
        self._order: list[NodeId] = []
        self._numbers: Int64s = np.empty(0, dtype=np.int64)
        self._is_listed: npt.NDArray[np.bool_] = np.empty(0, dtype=bool)
        self._texts: Int64s = np.empty((0, len(_TEXTS)), dtype=np.int64)
        self._labels: Int64s = np.empty((0, LABELS_IN_ROW), dtype=np.int64)
        self._more_labels: dict[int, frozenset[int]] = {}
        self._states: dict[int, str] = {}

    def __len__(self) -> int:
        return len(self._order)

    def put(self, numbers: Int64s, listed: Sequence[Listed]) -> None:
        """Take over what nodes are now; a node may not be in it twice."""
        if not len(numbers):
            return
        self._hold(int(numbers.max()) + 1)
        self._texts[numbers] = [[_hash(text) for text in one[1:-1]] for one in listed]
        self._put_labels(numbers, [list(map(hash, one.labels.items())) for one in listed])
        for state in {one.state for one in listed}:
            self._states[hash(state)] = state
        is_new = ~self._is_listed[numbers]
        if is_new.any():
            self._is_listed[numbers] = True
            news = sorted((one.node_id, at) for at, one in enumerate(listed) if is_new[at])
            self._list([node_id for node_id, _ in news], numbers[[at for _, at in news]])

    def page(self, asked: NodeFilter, *, after: str, limit: int) -> list[NodeId]:
        """Return the first ids beyond `after` that fit, in order, `limit` at most."""
        begin = bisect_right(self._order, after)
        found: list[NodeId] = []
        while begin < len(self._order) and len(found) < limit:
            numbers = self._numbers[begin : begin + _SLICE]
            fits = np.flatnonzero(self._fits(asked, numbers))[: limit - len(found)]
            found += [self._order[begin + at] for at in fits.tolist()]
            begin += _SLICE
        return found

    def count_by_state(self) -> dict[str, int]:
        """Return how many nodes are in each state, retired ones included."""
        states, counts = np.unique(self._texts[self._numbers, _STATE], return_counts=True)
        return {
            self._states[state]: count for state, count in zip(states.tolist(), counts.tolist(), strict=True)
        }

    def sharing(self, index: NodeIndex, name: str, text: str) -> list[NodeId]:
        """Return the ids of nodes, retired ones included, that have a text in a column, in order."""
        numbers = self._numbers[self._texts[self._numbers, _COLUMN[name]] == hash(text)]
        return index.node_ids(numbers)

    def _fits(self, asked: NodeFilter, numbers: Int64s) -> npt.NDArray[np.bool_]:
        texts = self._texts[numbers]
        fits = np.ones(len(numbers), dtype=bool)
        if not asked.include_retired and asked.state != "retired":
            fits &= texts[:, _STATE] != _RETIRED
        for name, column in _COLUMN.items():
            text = getattr(asked, name, None)
            if text is not None:
                fits &= texts[:, column] == hash(text)
        if asked.name is not None:
            fits &= (texts[:, _NAMES] == hash(asked.name)).any(axis=1)
        for pair in asked.labels.items():
            fits &= self._has_label(numbers, hash(pair))
        return fits

    def _has_label(self, numbers: Int64s, label: int) -> npt.NDArray[np.bool_]:
        has: npt.NDArray[np.bool_] = (self._labels[numbers] == label).any(axis=1)
        if self._more_labels:
            more = [number for number, labels in self._more_labels.items() if label in labels]
            if more:
                has |= np.isin(numbers, more)
        return has

    def _put_labels(self, numbers: Int64s, labels: list[list[int]]) -> None:
        self._labels[numbers] = [
            (one + _NO_LABELS[len(one) :]) if len(one) <= LABELS_IN_ROW else _NO_LABELS for one in labels
        ]
        if self._more_labels or max(map(len, labels)) > LABELS_IN_ROW:
            for number, one in zip(numbers.tolist(), labels, strict=True):
                self._more_labels.pop(number, None)
                if len(one) > LABELS_IN_ROW:
                    self._more_labels[number] = frozenset(one)

    def _list(self, node_ids: list[NodeId], numbers: Int64s) -> None:
        """Add new nodes, in order of their ids."""
        at = [bisect_left(self._order, node_id) for node_id in node_ids]
        self._numbers = np.insert(self._numbers, at, numbers)
        self._order += node_ids
        self._order.sort()

    def _hold(self, count: int) -> None:
        have = len(self._is_listed)
        if count > have:
            more = max(count, have + have // 4, 1024) - have
            self._is_listed = np.concatenate([self._is_listed, np.zeros(more, dtype=bool)])
            self._texts = np.concatenate([self._texts, np.zeros((more, len(_TEXTS)), dtype=np.int64)])
            self._labels = np.concatenate([self._labels, np.zeros((more, LABELS_IN_ROW), dtype=np.int64)])


def _hash(text: str | None) -> int:
    return 0 if text is None else hash(text)
