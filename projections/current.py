"""A node's state as the rows that show it now (floor 2, pure)."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal

from events.ids import NodeId
from projections.capacity import ABSENT
from projections.derive import Derived
from projections.parts import made
from projections.rows import AllocationRow, CapacityHistoryRow, CapacityRow, DeviceRow, NodeRow
from projections.state import NodeState, pack


def node_row(state: NodeState, derived: Derived) -> NodeRow:
    """Return the node's row, with its whole state packed into it."""
    dialect, has_declared = state.dialect, state.declared is not None
    columns = (
        state.node_id,
        state.version,
        derived.state,
        derived.liveness,
        derived.intent,
        derived.schedulable,
        list(derived.reasons),
        state.region,
        state.zone,
        state.pool,
        state.role,
        state.hostname,
        state.effective_display_name if has_declared else state.display_name,
        state.architecture,
        state.effective_labels if has_declared else state.labels,
        state.effective_annotations if has_declared else {},
        list(state.addresses),
        list(derived.conditions),
        state.boot_id,
        state.machine_id,
        state.incarnation,
        None if dialect is None else _text(dialect.get("name")),
        None if dialect is None else _text(dialect.get("native_id")),
        state.first_registered_at,
        state.registered_at,
        None if state.retirement is None else state.retired_at,
        state.liveness_since,
        state.changed_at,
        state.interval_s,
        pack(state),
    )
    return made(NodeRow, columns)


def device_rows(state: NodeState) -> list[DeviceRow]:
    """Return a row for each device, as reported; none for a retired node."""
    if state.retired_at is not None:
        return []
    return [DeviceRow(state.node_id, *device) for device in state.devices]


def allocation_rows(state: NodeState) -> list[AllocationRow]:
    """Return a row for each amount that a workload holds, in order; none for a retired node."""
    return [
        AllocationRow(state.node_id, given.workload, resource, amount, given.since)
        for given in sorted(state.standing_allocations)
        for resource, amount in (sorted(given.amounts.items()) or [("", Decimal(0))])
    ]


def latest_capacity(bands: Iterable[CapacityHistoryRow]) -> dict[tuple[NodeId, str], CapacityRow | None]:
    """Return what the last band of each node and resource leaves: its row, or None where it is gone.

    A row is replaced only with its numbers, so `since` is when they became what they are.
    """
    latest = {(band.node_id, band.resource): band for band in bands}
    return {key: None if band.status == ABSENT else CapacityRow._make(band) for key, band in latest.items()}


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
