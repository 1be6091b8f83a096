"""Numbers for node ids (floor 2, pure): what the tables and the arrays of heartbeats are keyed by.

A number is given when the log first names a node, be it by a heartbeat or by a fact, and stays. It means
nothing outside one file: another file of the same log may have given numbers in another order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from events.ids import NodeId
from events.log import Int64s
from events.subjects import beat_subject, parse_beat


@dataclass(frozen=True, slots=True)
class NewNodes:
    """Nodes that have no number yet, and the numbers that they get with the next commit, in rising order."""

    node_ids: tuple[NodeId, ...]
    first: int

    def __len__(self) -> int:
        return len(self.node_ids)


class NodeIndex:
    """Node id to number and back. Only the writer changes it; anybody may read."""

    def __init__(self, node_ids: Iterable[NodeId] = ()) -> None:
        self._ids: list[NodeId] = []
        self._numbers: dict[bytes, int] = {}
        self._take(node_ids)

    def __len__(self) -> int:
        return len(self._ids)

    @property
    def subjects(self) -> Mapping[bytes, int]:
        """The subject of each known node's heartbeats, with its number. Not to be changed."""
        return self._numbers

    def number(self, node_id: NodeId) -> int | None:
        return self._numbers.get(beat_subject(node_id).encode())

    def node_id(self, number: int) -> NodeId:
        return self._ids[number]

    def node_ids(self, numbers: Int64s) -> list[NodeId]:
        """Return the ids of the numbers, in their order."""
        ids = self._ids
        return [ids[number] for number in numbers.tolist()]

    def of_subjects(self, subjects: Sequence[bytes]) -> tuple[Int64s, NewNodes]:
        """Return the number of each subject's node, and the nodes among them that are new.

        Each must be spelled as a heartbeat's subject.
        """
        get = self._numbers.get
        found = [get(subject, -1) for subject in subjects]
        made: dict[bytes, int] = {}
        if -1 in found:
            for row, number in enumerate(found):
                if number < 0:
                    found[row] = made.setdefault(subjects[row], len(self._ids) + len(made))
        new = NewNodes(tuple(parse_beat(subject.decode()) for subject in made), len(self._ids))
        return np.array(found, dtype=np.int64), new

    def of_nodes(self, node_ids: Sequence[NodeId]) -> tuple[Int64s, NewNodes]:
        """Return the number of each node, and the nodes among them that are new."""
        return self.of_subjects([beat_subject(node_id).encode() for node_id in node_ids])

    def add(self, new: NewNodes) -> None:
        """Make the numbers of new nodes known, once they are committed."""
        assert new.first == len(self._ids), "numbers are given by one writer, one batch at a time"
        self._take(new.node_ids)

    def _take(self, node_ids: Iterable[NodeId]) -> None:
        for node_id in node_ids:
            number = len(self._ids)
            self._ids.append(node_id)
            # Last, since a reader that finds the number asks for the id.
            self._numbers[beat_subject(node_id).encode()] = number
