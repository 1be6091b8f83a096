"""The fleet in memory: what the projection answers at once, about 1.5 KB a node (floor 2).

It is loaded from the tables at the start and changed after each commit, so it never knows more than they do.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from events.ids import NodeId
from events.log import Cursor, Int64s
from events.streams import BEATS_NAME
from projections.beat_batch import BeatBatch
from projections.beat_tables import load_beats, load_last_use, load_node_ids, load_resources
from projections.capacity_queries import load_sums
from projections.capacity_sums import CapacitySums, Group
from projections.checkpoints import Checkpoint, load_checkpoints
from projections.directory import TEXTS, Directory, Listed
from projections.fact_tables import last_announcement, load_nodes, load_shared
from projections.fold import FactsFolded
from projections.handles import Handle, handles
from projections.heartbeats import BEAT_SEQ, LAST_HEARTBEAT_US, OTHER_BOOT, Heartbeat, Rows
from projections.node_index import NewNodes, NodeIndex
from projections.sharing import NOBODY, Conditions, HandleColumn, SharingChanged, changed, indexed
from projections.state import unpack
from projections.usage import LastUse, Resources

if TYPE_CHECKING:
    import duckdb

    from projections.rows import NodeRow


class Contacts(NamedTuple):
    """What each node's last accepted heartbeat was, by number, and as of which position in BEATS.

    `beat_seqs` are sequences in BEATS, 0 for a node that never beat; `heard_us` is when the broker received
    it, in microseconds since 1970. `other_boot` counts the beats of earlier boots so far.
    """

    cursor: Cursor
    beat_seqs: Int64s
    heard_us: Int64s
    other_boot: Int64s


class Memory:
    """Only the writer changes it, under the projection's lock; packed states are read without."""

    def __init__(self) -> None:
        self.checkpoints: dict[str, Checkpoint] = {}
        self.index = NodeIndex()
        self.packed: dict[NodeId, bytes] = {}
        self.directory = Directory()
        self.sums = CapacitySums()
        self.beats = Rows()
        self.resources = Resources()
        self.last_use = LastUse()
        self.sharing = NOBODY
        self.shared: dict[int, Conditions] = {}
        self.announced = 0

    @classmethod
    def load(cls, connection: duckdb.DuckDBPyConnection) -> Memory:
        """Return what the tables hold."""
        memory = cls()
        memory.checkpoints = load_checkpoints(connection)
        memory.index = NodeIndex(load_node_ids(connection))
        memory.announced = last_announcement(connection)
        memory._hold(len(memory.index))
        given: list[HandleColumn] = []
        for numbers, packed, listed, columns in load_nodes(connection):
            node_ids = memory.index.node_ids(numbers)
            memory.packed.update(zip(node_ids, packed, strict=True))
            memory.directory.put(numbers, replace(listed, node_ids=node_ids))
            given += columns
        memory.sharing, memory.shared = indexed(given), load_shared(connection)
        memory.sums = load_sums(connection)
        memory.resources = load_resources(connection)
        load_beats(connection, memory.beats)
        load_last_use(connection, memory.last_use)
        return memory

    def heartbeat(self, node_id: NodeId) -> Heartbeat | None:
        """Return what a node's heartbeats say, None where it never beat."""
        number = self.index.number(node_id)
        if number is None:
            return None
        return self.beats.heartbeat(number, node_id, self.last_use.of(number, self.resources))

    def used_by(self, group: Group) -> dict[tuple[str, str | None], float]:
        """Return the sums of what nodes that are not lost or retired measured last, by resource and place."""
        numbers, begins = self.directory.grouped("state" if group == "resource" else group)
        used: dict[tuple[str, str | None], float] = {}
        for begin, sums in zip(begins.tolist(), self.last_use.sums(numbers, begins), strict=True):
            place = None if group == "resource" else self._place(int(numbers[begin]), group)
            for resource, value in sums.items():
                key = self.resources.names[resource], place
                used[key] = used.get(key, 0.0) + value
        return used

    def _place(self, number: int, group: Group) -> str | None:
        place: str | None = getattr(unpack(self.packed[self.index.node_id(number)]), group)
        return place

    def contacts(self) -> Contacts:
        """Return every node's last accepted heartbeat, as a copy."""
        table, reached = self.beats.table[: len(self.index)], self.checkpoints.get(BEATS_NAME, Checkpoint())
        columns = [table[:, column].copy() for column in (BEAT_SEQ, LAST_HEARTBEAT_US, OTHER_BOOT)]
        return Contacts(reached.cursor, *columns)

    def conditions_shared(self, node_id: NodeId) -> Conditions:
        """Return the conditions that a node has by a handle that another one has too."""
        number = self.index.number(node_id) if self.shared else None
        return () if number is None else self.shared.get(number, ())

    def sharers(self, node_id: NodeId) -> dict[Handle, list[NodeId]]:
        """Return of each handle that a node shares which others have it, in order of their numbers."""
        number, packed = self.index.number(node_id), self.packed.get(node_id)
        if number is None or packed is None or number not in self.shared:
            return {}
        found = {}
        for handle in handles(unpack(packed)):
            others = [other for other in self.sharing.holders(handle) if other != number]
            if others:
                found[handle] = self.index.node_ids(np.array(others, dtype=np.int64))
        return found

    def sharing_after(self, folded: FactsFolded, numbers: dict[NodeId, int]) -> SharingChanged:
        """Return what a batch of facts makes of who shares what; `numbers` has each of its nodes."""

        def handles_of(number: int) -> tuple[Handle, ...]:
            return handles(unpack(self.packed[self.index.node_id(number)]))

        given = {numbers[node_id]: one for node_id, one in folded.handles.items()}
        return changed(self.sharing, given, had=self.shared, handles_of=handles_of)

    def show_facts(
        self,
        folded: FactsFolded,
        shared: SharingChanged,
        numbers: dict[NodeId, int],
        new: NewNodes,
    ) -> None:
        """Take over what a committed batch of facts comes to; `numbers` has each of its nodes."""
        self.sharing = shared.sharing
        for number, conditions in shared.conditions.items():
            if conditions:
                self.shared[number] = conditions
            else:
                self.shared.pop(number, None)
        self.sums.add(folded.sums)
        self.index.add(new)
        self._hold(len(self.index))
        at = np.array([numbers[row.node_id] for row in folded.nodes], dtype=np.int64)
        node_ids = self.index.node_ids(at)
        self.packed.update(zip(node_ids, [row.packed for row in folded.nodes], strict=True))
        self.directory.put(at, _listed(node_ids, folded.nodes))
        self.announced += len(folded.announcements)

    def show_beats(self, batch: BeatBatch) -> None:
        """Take over what a committed batch of beats comes to."""
        self.index.add(batch.new_nodes)
        self._hold(len(self.index))
        self.beats.put(batch.folded)
        self.resources.add(batch.samples.new_resources)
        self.last_use.put(batch.contacts, batch.samples)

    def _hold(self, count: int) -> None:
        self.beats.hold(count)
        self.last_use.hold(count)


def _listed(node_ids: list[NodeId], rows: list[NodeRow]) -> Listed:
    return Listed(
        node_ids=node_ids,
        texts=[[getattr(row, name) for row in rows] for name in TEXTS],
        label_counts=np.array([len(row.labels) for row in rows], dtype=np.int64),
        labels=chain.from_iterable(row.labels.items() for row in rows),
    )
