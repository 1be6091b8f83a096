"""The nodes in memory as a page selects them (floor 2, pure): in order of their ids, by what they are.

Texts are kept as 64-bit hashes of this process, a few numbers for each node: a filter over 100,000 nodes
takes a millisecond and no table. Two texts of a fleet share a hash with a chance of 1 in 10^13 for each
question.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from events.ids import NodeId
from events.log import Int64s

LABELS_IN_ROW = 8
# What a node has beyond, few in most fleets have that many, lies in a set of its own.
_SLICE = 8192
# Nodes looked at in one step: a page without a filter ends with the first, one with a rare value takes them
# all.


TEXTS = (
    "state",
    "liveness",
    "intent",
    "zone",
    "pool",
    "region",
    "dialect",
    "native_id",
    "hostname",
    "display_name",
)
"""What a node is selected by, besides its labels: columns of its row."""


@dataclass(frozen=True, slots=True)
class Listed:
    """What nodes are selected by, as columns of one length. Each node is in it once.

    `texts` has a column for each of TEXTS. The labels of all nodes follow one another in `labels`.
    """

    node_ids: Sequence[NodeId]
    texts: Sequence[Sequence[str | None]]
    label_counts: Int64s
    labels: Iterable[tuple[str, str]]


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
_COLUMN = {name: column for column, name in enumerate(TEXTS)}
_NAMES = (_COLUMN["hostname"], _COLUMN["display_name"], _COLUMN["native_id"])
_STATE = _COLUMN["state"]
_RETIRED, _LOST = hash("retired"), hash("lost")


class Directory:
    """Every node that a fact was about. Only the writer changes it; whoever reads holds the writer's lock."""

    def __init__(self) -> None:
        self._order: list[NodeId] = []
        self._numbers: Int64s = np.empty(0, dtype=np.int64)
        self._is_listed: npt.NDArray[np.bool_] = np.empty(0, dtype=bool)
        self._texts: list[Int64s] = [np.empty(0, dtype=np.int64) for _ in TEXTS]
        self._labels: Int64s = np.empty((0, LABELS_IN_ROW), dtype=np.int64)
        self._more_labels: dict[int, set[int]] = {}
        self._states: dict[int, str] = {}
        self._grouped: dict[str, tuple[Int64s, Int64s]] = {}

    def __len__(self) -> int:
        return len(self._order)

    def put(self, numbers: Int64s, listed: Listed) -> None:
        """Take over what nodes are now."""
        if not len(numbers):
            return
        self._grouped.clear()
        self._hold(int(numbers.max()) + 1)
        for kept, column in zip(self._texts, listed.texts, strict=True):
            kept[numbers] = np.fromiter(map(hash, column), np.int64, len(numbers))
        for state in set(listed.texts[_STATE]):
            assert state is not None, "every node has a state"
            self._states[hash(state)] = state
        self._put_labels(numbers, listed)
        is_new = ~self._is_listed[numbers]
        if is_new.any():
            self._is_listed[numbers] = True
            news = sorted((listed.node_ids[at], at) for at in np.flatnonzero(is_new).tolist())
            self._list([node_id for node_id, _ in news], numbers[[at for _, at in news]])

    def page(self, asked: NodeFilter, *, after: str, limit: int) -> list[NodeId]:
        """Return the first ids beyond `after` that fit, in order, `limit` at most."""
        begin = bisect_right(self._order, after)
        found: list[NodeId] = []
        while begin < len(self._order) and len(found) < limit:
            fits = self._fitting(asked, self._numbers[begin : begin + _SLICE])[: limit - len(found)]
            found += [self._order[begin + at] for at in fits.tolist()]
            begin += _SLICE
        return found

    def count_by_state(self) -> dict[str, int]:
        """Return how many nodes are in each state, retired ones included."""
        states, counts = np.unique(self._texts[_STATE][self._numbers], return_counts=True)
        return {
            self._states[state]: count for state, count in zip(states.tolist(), counts.tolist(), strict=True)
        }

    def grouped(self, name: str) -> tuple[Int64s, Int64s]:
        """Return the numbers of nodes, those of one text of TEXTS side by side, and where each group begins.

        Without nodes that are lost or retired. The groups are in no order.
        """
        found = self._grouped.get(name)
        if found is None:
            state = self._texts[_STATE][self._numbers]
            numbers = self._numbers[(state != _RETIRED) & (state != _LOST)]
            texts = self._texts[_COLUMN[name]][numbers]
            order = np.argsort(texts)
            ordered = texts[order]
            begins = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]])[: len(ordered)])
            found = self._grouped[name] = numbers[order], begins
        return found

    def _fitting(self, asked: NodeFilter, numbers: Int64s) -> Int64s:
        """Return the positions in `numbers` of the nodes that fit."""
        at = np.arange(len(numbers))
        if not asked.include_retired and asked.state != "retired":
            at = at[self._texts[_STATE][numbers] != _RETIRED]
        for name, column in _COLUMN.items():
            text = getattr(asked, name, None)
            if text is not None:
                at = at[self._texts[column][numbers[at]] == hash(text)]
        if asked.name is not None:
            name_hash, left = hash(asked.name), numbers[at]
            at = at[np.logical_or.reduce([self._texts[column][left] == name_hash for column in _NAMES])]
        for pair in asked.labels.items():
            at = at[self._has_label(numbers[at], hash(pair))]
        return at

    def _has_label(self, numbers: Int64s, label: int) -> npt.NDArray[np.bool_]:
        has: npt.NDArray[np.bool_] = (self._labels[numbers] == label).any(axis=1)
        if self._more_labels:
            has |= np.isin(numbers, [one for one, labels in self._more_labels.items() if label in labels])
        return has

    def _put_labels(self, numbers: Int64s, listed: Listed) -> None:
        counts = listed.label_counts
        nodes, total = np.repeat(numbers, counts), int(counts.sum())
        hashes = np.fromiter(map(hash, listed.labels), np.int64, total)
        nth = np.arange(total) - np.repeat(np.cumsum(counts) - counts, counts)
        in_row = nth < LABELS_IN_ROW
        self._labels[numbers] = 0
        self._labels[nodes[in_row], nth[in_row]] = hashes[in_row]
        if self._more_labels:
            for number in numbers.tolist():
                self._more_labels.pop(number, None)
        for at in np.flatnonzero(~in_row).tolist():
            self._more_labels.setdefault(int(nodes[at]), set()).add(int(hashes[at]))

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
            self._texts = [np.concatenate([kept, np.zeros(more, dtype=np.int64)]) for kept in self._texts]
            self._labels = np.concatenate([self._labels, np.zeros((more, LABELS_IN_ROW), dtype=np.int64)])
