"""The fleet in memory: what the projection answers at once, about 1.5 KB a node (floor 2).

It is loaded from the tables at the start and changed after each commit, so it never knows more than they do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from events.ids import NodeId
from events.log import Int64s
from projections.beat_batch import BeatBatch
from projections.beat_tables import load_beats, load_last_use, load_node_ids, load_resources
from projections.checkpoints import Checkpoint, load_checkpoints
from projections.directory import Directory, Listed
from projections.fact_tables import last_announcement, load_nodes
from projections.fold import FactsFolded
from projections.heartbeats import BEAT_SEQ, LAST_HEARTBEAT_US, Heartbeat, Rows
from projections.node_index import NewNodes, NodeIndex
from projections.usage import LastUse, Resources

if TYPE_CHECKING:
    import duckdb

    from projections.rows import NodeRow


class Memory:
    """Only the writer changes it, under the projection's lock; packed states are read without."""

    def __init__(self) -> None:
        self.checkpoints: dict[str, Checkpoint] = {}
        self.index = NodeIndex()
        self.packed: dict[NodeId, bytes] = {}
        self.directory = Directory()
        self.beats = Rows()
        self.resources = Resources()
        self.last_use = LastUse()
        self.announced = 0

    @classmethod
    def load(cls, connection: duckdb.DuckDBPyConnection) -> Memory:
        """Return what the tables hold."""
        memory = cls()
        memory.checkpoints = load_checkpoints(connection)
        memory.index = NodeIndex(load_node_ids(connection))
        memory.announced = last_announcement(connection)
        memory._hold(len(memory.index))
        numbers, packed, listed = load_nodes(connection)
        memory.packed = dict(zip(memory.index.node_ids(numbers), packed, strict=True))
        memory.directory.put(numbers, listed)
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

    def last_contacts(self) -> tuple[list[NodeId], Int64s]:
        """Return each node that ever beat, and when the broker received its last beat (µs since 1970)."""
        table = self.beats.table[: len(self.index)]
        numbers = np.flatnonzero(table[:, BEAT_SEQ])
        return self.index.node_ids(numbers), table[numbers, LAST_HEARTBEAT_US]

    def show_facts(self, folded: FactsFolded, numbers: dict[NodeId, int], new: NewNodes) -> None:
        """Take over what a committed batch of facts comes to; `numbers` has each of its nodes."""
        self.index.add(new)
        self._hold(len(self.index))
        for row in folded.nodes:
            self.packed[row.node_id] = row.packed
        at = [numbers[row.node_id] for row in folded.nodes]
        self.directory.put(np.array(at, dtype=np.int64), [_listed(row) for row in folded.nodes])
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


def _listed(row: NodeRow) -> Listed:
    return Listed(
        row.node_id,
        row.state,
        row.liveness,
        row.intent,
        row.zone,
        row.pool,
        row.region,
        row.dialect,
        row.native_id,
        row.hostname,
        row.display_name,
        row.labels,
    )
