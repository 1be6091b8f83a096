"""The tables that facts fill: written from a folded batch, read back into memory (floor 2)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from events.ids import NodeId
from events.log import Int64s
from projections.arrow_rows import arrow_rows
from projections.capacity import ABSENT
from projections.directory import TEXTS, Listed
from projections.handles import DUPLICATE_ADDRESS, MACHINE_ID_SHARED, NAME_SHARED, own_address
from projections.rows import QuarantineRow
from projections.sharing import HandleColumn
from projections.tables import (
    ALLOCATION,
    ANNOUNCEMENT,
    CAPACITY,
    CAPACITY_HISTORY,
    DEVICE,
    FACT,
    LABEL_HISTORY,
    NODE,
    NODE_HISTORY,
    QUARANTINE,
    SHARED,
)

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

    from projections.fold import FactsFolded
    from projections.rows import CapacityHistoryRow
    from projections.sharing import Conditions
    from projections.tables import Table
    from projections.transaction import Transaction

FORGET = {
    table.name: f"""
        DELETE FROM main.{table.name}
        WHERE number IN (SELECT number FROM touched)
    """
    for table in (NODE, DEVICE, ALLOCATION)
}
FORGET_CAPACITY = """
    DELETE FROM main.capacity AS c
    USING touched_capacity AS t
    WHERE c.number = t.number AND c.resource = t.resource
"""
FORGET_SHARED = """
    DELETE FROM main.shared
    WHERE number IN (SELECT number FROM touched)
"""
LOAD_SHARED = """
    SELECT number, conditions
    FROM main.shared
"""
LAST_ANNOUNCEMENT = """
    SELECT coalesce(max(seq), 0)
    FROM main.announcement
"""
LOADED_AT_ONCE = 10_000
# Nodes read from the file before they are in memory: all at once would need half a gigabyte for a moment.
LOAD_NODES = """
    SELECT
        number, packed, state, liveness, intent, zone, pool, region, dialect, native_id, hostname,
        display_name, map_keys(labels) AS label_keys, map_values(labels) AS label_values,
        cardinality(labels) AS labels_count, addresses, machine_id, retired_at IS NULL AS is_active
    FROM main.node
"""


class Touched(NamedTuple):
    """The nodes of a batch: the number of each, and those among them that have rows already."""

    numbers: Mapping[NodeId, int]
    known: Set[NodeId]


def write_facts(transaction: Transaction, folded: FactsFolded, touched: Touched, *, announced: int) -> None:
    """Write all that a batch of facts comes to; `announced` is how many announcements there were before."""
    _replace(transaction, NODE, folded.nodes, [row.node_id for row in folded.nodes], touched)
    devices = [row for rows in folded.devices.values() for row in rows]
    _replace(transaction, DEVICE, devices, folded.devices, touched)
    allocations = [row for rows in folded.allocations.values() for row in rows]
    _replace(transaction, ALLOCATION, allocations, folded.allocations, touched)
    if folded.capacity_history:
        _write_capacity(transaction, folded.capacity_history, touched)
    _append(transaction, NODE_HISTORY, folded.node_history)
    _append(transaction, LABEL_HISTORY, folded.label_history)
    _append(transaction, FACT, folded.facts)
    write_quarantine(transaction, folded.quarantined)
    if folded.announcements:
        seqs = np.arange(announced + 1, announced + 1 + len(folded.announcements))
        transaction.insert(ANNOUNCEMENT, arrow_rows(ANNOUNCEMENT, folded.announcements, first={"seq": seqs}))


def write_shared(transaction: Transaction, conditions: Mapping[int, Conditions]) -> None:
    """Put in place what nodes have by sharing a handle, by number; nothing where they share none any more."""
    if conditions:
        transaction.run(FORGET_SHARED, name="touched", rows=_touched(conditions))
        rows = [(number, list(has)) for number, has in conditions.items() if has]
        if rows:
            transaction.insert(SHARED, arrow_rows(SHARED, rows))


def write_quarantine(transaction: Transaction, rows: Sequence[QuarantineRow]) -> None:
    """Append what could not be read."""
    _append(transaction, QUARANTINE, rows)


def _append(transaction: Transaction, table: Table, rows: Sequence[tuple[Any, ...]]) -> None:
    if rows:
        transaction.insert(table, arrow_rows(table, rows))


def _replace(
    transaction: Transaction, table: Table, rows: Sequence[Any], nodes: Iterable[NodeId], touched: Touched
) -> None:
    """Put the rows in place of all that the table had of the nodes."""
    old = [touched.numbers[node_id] for node_id in nodes if node_id in touched.known]
    if old:
        transaction.run(FORGET[table.name], name="touched", rows=_touched(old))
    if rows:
        transaction.insert(table, arrow_rows(table, rows, first={"number": _numbers(rows, touched)}))


def _write_capacity(transaction: Transaction, bands: Sequence[CapacityHistoryRow], touched: Touched) -> None:
    """Append the bands, and replace what is now by the last band of each node and resource.

    The same rows as `projections.current.latest_capacity` makes, without converting each number twice.
    """
    import pyarrow as pa  # noqa: PLC0415

    history = arrow_rows(CAPACITY_HISTORY, bands)
    transaction.insert(CAPACITY_HISTORY, history)
    latest = {(band.node_id, band.resource): at for at, band in enumerate(bands)}
    numbers = pa.array(_numbers(bands, touched), pa.int32())
    old = [at for (node_id, _), at in latest.items() if node_id in touched.known]
    if old:
        gone = pa.table({"number": numbers.take(old), "resource": history["resource"].take(old)})
        transaction.run(FORGET_CAPACITY, name="touched_capacity", rows=gone)
    now = [at for at in latest.values() if bands[at].status != ABSENT]
    if now:
        current = history.take(now).rename_columns(list(CAPACITY.columns)[1:])
        transaction.insert(CAPACITY, current.add_column(0, "number", numbers.take(now)))


def _touched(numbers: Iterable[int]) -> pa.Table:
    import pyarrow as pa  # noqa: PLC0415 (takes 50 ms, and starting must be quick)

    return pa.table({"number": pa.array(numbers, pa.int32())})


def _numbers(rows: Sequence[Any], touched: Touched) -> Int64s:
    return np.array([touched.numbers[row.node_id] for row in rows], dtype=np.int64)


def load_shared(connection: duckdb.DuckDBPyConnection) -> dict[int, Conditions]:
    """Return what nodes have by sharing a handle, by number."""
    return {number: tuple(has) for number, has in connection.execute(LOAD_SHARED).fetchall()}


class LoadedNodes(NamedTuple):
    """Some nodes: numbers, packed states, what they are selected by but ids, and their handles."""

    numbers: Int64s
    packed: list[bytes]
    listed: Listed
    handles: list[HandleColumn]


def load_nodes(connection: duckdb.DuckDBPyConnection) -> Iterator[LoadedNodes]:
    """Yield every node, some at a time."""
    found: Any
    for found in connection.sql(LOAD_NODES).to_arrow_reader(LOADED_AT_ONCE):
        listed = Listed(
            node_ids=[],
            texts=[found[name].to_pylist() for name in TEXTS],
            label_counts=found["labels_count"].to_numpy().astype(np.int64),
            labels=zip(
                found["label_keys"].flatten().to_pylist(),
                found["label_values"].flatten().to_pylist(),
                strict=True,
            ),
        )
        numbers = found["number"].to_numpy().astype(np.int64)
        yield LoadedNodes(numbers, found["packed"].to_pylist(), listed, _handle_columns(found))


def _handle_columns(found: Any) -> list[HandleColumn]:  # noqa: ANN401 (a batch of Arrow rows)
    active = found.filter(found["is_active"])
    numbers = active["number"].to_numpy().astype(np.int64)
    addresses = [own_address(one) for one in active["addresses"].flatten().to_pylist()]
    counts = active["addresses"].value_lengths().to_numpy()
    return [
        HandleColumn(DUPLICATE_ADDRESS, np.repeat(numbers, counts), addresses),
        HandleColumn(MACHINE_ID_SHARED, numbers, active["machine_id"].to_pylist()),
        HandleColumn(NAME_SHARED, numbers, active["hostname"].to_pylist()),
        HandleColumn(NAME_SHARED, numbers, active["display_name"].to_pylist()),
    ]


def last_announcement(connection: duckdb.DuckDBPyConnection) -> int:
    """Return how many announcements there were so far."""
    return int(connection.execute(LAST_ANNOUNCEMENT).fetchall()[0][0])
