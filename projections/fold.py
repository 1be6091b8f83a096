"""A batch of facts to everything that has to be written of it (floor 2, pure).

In stream order, one by one. The result does not depend on how a log is cut into batches.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from events.codec import Recorded, decode_fact
from events.errors import UnreadableError
from events.ids import NodeId
from events.log import Batch
from projections.bands import capacity_bands, label_bands, node_bands
from projections.capacity import capacity
from projections.capacity_sums import Row, sums_changed
from projections.current import allocation_rows, device_rows, node_row
from projections.decide import Seen, announced, seen
from projections.derive import derive
from projections.evolve import evolve
from projections.fact_rows import fact_row, quarantine_row
from projections.handles import HandlesChanged, changed_handles
from projections.parts import DeclaredResource, made
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
from projections.state import CONTENT, COUNTERS, NodeState

Read = Callable[[NodeId], NodeState | None]

_COUNTED = NodeState._fields[COUNTERS]
_UNCOUNTED = (0,) * len(_COUNTED)


@dataclass(frozen=True, slots=True)
class FactsFolded:
    """What a batch of facts comes to. Every list but `sums` is in stream order.
    Any may be empty.

    `nodes` has one row, the last, for each node that a record was about. `devices` and `allocations` hold all
    rows of each node that has others than before. In `capacity_history`, the last row of a node and resource
    is also what is now: see `projections.current.latest_capacity`. `sums` is what the batch adds to the sums
    of capacity, in no order, and below zero where it takes out. `handles` has the nodes that have others than
    before the batch.

    `counters` counts records by what became of them: `facts`, `unreadable`, `unknown_type`, `duplicates`,
    `reordered`, `identical`, `zombies`, and warnings as `warning.<code>`.
    """

    states: dict[NodeId, NodeState]
    nodes: list[NodeRow]
    node_history: list[NodeHistoryRow]
    capacity_history: list[CapacityHistoryRow]
    sums: list[Row]
    label_history: list[LabelHistoryRow]
    devices: dict[NodeId, list[DeviceRow]]
    allocations: dict[NodeId, list[AllocationRow]]
    handles: dict[NodeId, HandlesChanged]
    announcements: list[AnnouncementRow]
    facts: list[FactRow]
    quarantined: list[QuarantineRow]
    counters: Mapping[str, int]


class _Folding:
    """The batch so far: the states that it has reached, and what is to be written."""

    def __init__(self, read: Read) -> None:
        self.read = read
        self.first: dict[NodeId, Seen | None] = {}
        self.last: dict[NodeId, Seen] = {}
        self.node_history: list[NodeHistoryRow] = []
        self.capacity_history: list[CapacityHistoryRow] = []
        self.label_history: list[LabelHistoryRow] = []
        self.announcements: list[AnnouncementRow] = []

    def before(self, node_id: NodeId) -> Seen | None:
        """Return the node as the batch has reached it, None where it is unknown."""
        reached = self.last.get(node_id)
        if reached is not None or node_id in self.first:
            return reached
        state = self.read(node_id)
        first = self.first[node_id] = None if state is None else seen(state)
        return first

    def fold(self, node_id: NodeId, fact: Recorded) -> None:
        """Fold one readable fact about a node."""
        before = self.before(node_id)
        if before is None:
            state = evolve(None, fact)
            if state is None:
                return
            after = seen(state)
        else:
            old = before.state
            state = evolve(old, fact)
            assert state is not None, "a known node stays known"
            if state[CONTENT] == old[CONTENT]:
                self.last[node_id] = made(Seen, (state, before.derived, before.resources))
                return
            resources = capacity(state) if _has_other_resources(old, state) else before.resources
            after = made(Seen, (state, derive(state, resources), resources))
        self.last[node_id] = after
        self.node_history.extend(node_bands(before, after, fact))
        self.capacity_history.extend(capacity_bands(before, after, fact))
        self.label_history.extend(label_bands(before, after, fact))
        self.announcements.extend(announced(before, after, fact))

    def skip(self, node_id: NodeId, seq: int) -> None:
        """Take note of a record about a node that could not be read: writers have to expect its sequence."""
        before = self.before(node_id)
        if before is not None:
            self.last[node_id] = before._replace(state=before.state._replace(version=seq))


def fold_facts(batch: Batch, read: Read) -> FactsFolded:
    """Return what the batch of FLEET comes to; `read` gives the state of a node before the batch.

    Never raises for a record of the log. What can't be read goes to `quarantined`, whole.
    """
    folding = _Folding(read)
    facts: list[FactRow] = []
    quarantined: list[QuarantineRow] = []
    counters: Counter[str] = Counter()
    records = zip(
        batch.seqs.tolist(), batch.stored_at_ns.tolist(), batch.subjects, batch.payloads, strict=True
    )
    for seq, stored_at_ns, subject, payload in records:
        try:
            fact = decode_fact(
                seq=seq, stored_at_ns=stored_at_ns, subject=subject.decode(errors="replace"), payload=payload
            )
        except UnreadableError as err:
            row = quarantine_row(batch.stream, seq, stored_at_ns, subject, payload, why=err)
            quarantined.append(row)
            if row.node_id is not None:
                folding.skip(row.node_id, seq)
            continue
        facts.append(fact_row(fact))
        if fact.data is None:
            counters["unknown_type"] += 1
        for warning in fact.warnings:
            counters[f"warning.{warning.code}"] += 1
        if fact.node_id is not None:
            folding.fold(fact.node_id, fact)
    counters["facts"] = len(facts)
    counters["unreadable"] = len(quarantined)
    return _finished(folding, facts, quarantined, counters)


def _finished(
    folding: _Folding, facts: list[FactRow], quarantined: list[QuarantineRow], counters: Counter[str]
) -> FactsFolded:
    devices: dict[NodeId, list[DeviceRow]] = {}
    allocations: dict[NodeId, list[AllocationRow]] = {}
    handles: dict[NodeId, HandlesChanged] = {}
    for node_id, reached in folding.last.items():
        first, new = folding.first[node_id], reached.state
        old = None if first is None else first.state
        if new.devices or (old is not None and old.devices):
            has = device_rows(new)
            if old is None or has != device_rows(old):
                devices[node_id] = has
        if new.allocations or (old is not None and old.allocations):
            given = allocation_rows(new)
            if old is None or given != allocation_rows(old):
                allocations[node_id] = given
        had_and_has = changed_handles(old, new)
        if had_and_has is not None:
            handles[node_id] = had_and_has
        known, counted = _UNCOUNTED if old is None else _counts(old), _counts(new)
        if known != counted:
            for name, count, had in zip(_COUNTED, counted, known, strict=True):
                counters[name] += count - had
    return FactsFolded(
        states={node_id: reached.state for node_id, reached in folding.last.items()},
        nodes=[node_row(reached.state, reached.derived) for reached in folding.last.values()],
        node_history=folding.node_history,
        capacity_history=folding.capacity_history,
        sums=sums_changed((folding.first[node_id], reached) for node_id, reached in folding.last.items()),
        label_history=folding.label_history,
        devices=devices,
        allocations=allocations,
        handles=handles,
        announcements=folding.announcements,
        facts=facts,
        quarantined=quarantined,
        counters=counters,
    )


def _counts(state: NodeState) -> tuple[int, ...]:
    fields: tuple[Any, ...] = state
    return fields[COUNTERS]


def _has_other_resources(old: NodeState, new: NodeState) -> bool:
    return (
        old.resources != new.resources
        or old.devices != new.devices
        or old.allocations is not new.allocations
        or _declared(old) != _declared(new)
        or old.retirement is not new.retirement
        or old.incarnation != new.incarnation
    )


def _declared(state: NodeState) -> Mapping[str, DeclaredResource]:
    standing = state.standing_declared
    return {} if standing is None else standing.resources
