"""Logs of records folded without a store: in one batch, or cut anywhere with packed states in between."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import pairwise

import numpy as np

from events.codec import Recorded, decode_fact
from events.errors import UnreadableError
from events.facts import FactData
from events.ids import NodeId
from events.log import Batch, Cursor
from events.streams import FLEET_NAME
from projections.derive import Derived, derive
from projections.fold import FactsFolded, fold_facts
from projections.rows import (
    AllocationRow,
    AnnouncementRow,
    CapacityHistoryRow,
    DeviceRow,
    FactRow,
    LabelHistoryRow,
    NodeHistoryRow,
    NodeRow,
    QuarantineRow,
)
from projections.state import NodeState, unpack
from tests.support.strategies import NODES, Log, Record, placed, said


def batch_of(records: Iterable[Record]) -> Batch:
    """Return records as a reader hands them on."""
    log = list(records)
    last = log[-1] if log else None
    return Batch(
        stream=FLEET_NAME,
        seqs=np.array([one.seq for one in log], dtype=np.int64),
        stored_at_ns=np.array([one.stored_at_ns for one in log], dtype=np.int64),
        subjects=[one.subject.encode() for one in log],
        payloads=[one.payload for one in log],
        cursor=Cursor("epoch", last.seq, last.stored_at_ns) if last else Cursor(),
    )


@dataclass
class Tables:
    """What a store would hold after some batches: the rows, and packed states alone for memory."""

    nodes: dict[NodeId, NodeRow] = field(default_factory=dict)
    node_history: list[NodeHistoryRow] = field(default_factory=list)
    capacity_history: list[CapacityHistoryRow] = field(default_factory=list)
    label_history: list[LabelHistoryRow] = field(default_factory=list)
    devices: dict[NodeId, list[DeviceRow]] = field(default_factory=dict)
    allocations: dict[NodeId, list[AllocationRow]] = field(default_factory=dict)
    announcements: list[AnnouncementRow] = field(default_factory=list)
    facts: list[FactRow] = field(default_factory=list)
    quarantined: list[QuarantineRow] = field(default_factory=list)
    counters: Counter[str] = field(default_factory=Counter)

    def state(self, node_id: NodeId) -> NodeState | None:
        """Return a node's state as it comes out of its packed form."""
        row = self.nodes.get(node_id)
        return None if row is None else unpack(row.packed)

    def apply(self, records: Iterable[Record]) -> FactsFolded:
        """Fold one batch and keep what it comes to."""
        folded = fold_facts(batch_of(records), self.state)
        self.nodes |= {row.node_id: row for row in folded.nodes}
        self.node_history += folded.node_history
        self.capacity_history += folded.capacity_history
        self.label_history += folded.label_history
        for node_id, devices in folded.devices.items():
            self.devices.pop(node_id, None)
            if devices:
                self.devices[node_id] = devices
        for node_id, allocations in folded.allocations.items():
            self.allocations.pop(node_id, None)
            if allocations:
                self.allocations[node_id] = allocations
        self.announcements += folded.announcements
        self.facts += folded.facts
        self.quarantined += folded.quarantined
        self.counters.update(folded.counters)
        return folded


def folded(log: Log, *, cuts: Iterable[int] = ()) -> Tables:
    """Return what a log comes to when it is cut before the records at these positions."""
    tables = Tables()
    edges = sorted({0, len(log), *[cut for cut in cuts if cut < len(log)]})
    for begin, end in pairwise(edges):
        tables.apply(log[begin:end])
    return tables


@dataclass
class Life:
    """One node told of in order, a second between facts; each is folded as it comes."""

    tables: Tables = field(default_factory=Tables)
    told: int = 0

    def tell(self, *data: FactData, after: timedelta = timedelta(0)) -> Life:
        """Append facts; `after` is added to the broker's clock for these alone."""
        for one in data:
            self.told += 1
            record = placed([said(one, NODES[0])], at=[timedelta(seconds=self.told) + after])[0]
            self.tables.apply([record._replace(seq=self.told)])
        return self

    @property
    def state(self) -> NodeState:
        state = self.tables.state(NODES[0])
        assert state is not None, "nothing was told that makes a node"
        return state

    @property
    def derived(self) -> Derived:
        return derive(self.state)

    def announced(self, *, of: int | None = None) -> list[str]:
        """Return what the last fact announced, or the one at another sequence, as `<kind>.<detail>`."""
        cause = self.told if of is None else of
        return [f"{one.kind}.{one.detail}" for one in self.tables.announcements if one.cause_seq == cause]


def life(*data: FactData) -> Life:
    """Return a node of which these facts were told."""
    return Life().tell(*data)


def decoded(record: Record) -> Recorded | None:
    """Return the fact that a record holds, None where it can't be read."""
    try:
        return decode_fact(
            seq=record.seq,
            stored_at_ns=record.stored_at_ns,
            subject=record.subject,
            payload=record.payload,
        )
    except UnreadableError:
        return None
