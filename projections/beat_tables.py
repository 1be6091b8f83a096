"""The tables that heartbeats fill: written from folded columns, read back into memory (floor 2)."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import numpy as np

from events.ids import NodeId
from events.streams import BEATS_NAME
from projections.arrow_rows import arrow_rows, times
from projections.heartbeats import (
    COLUMNS,
    NO_SKEW,
    FoldedBeats,
    Rows,
)
from projections.node_index import NewNodes
from projections.tables import HEARTBEAT, HEARTBEAT_BOOT, NODE_NUMBER, RESOURCE_NUMBER, USAGE_SAMPLE
from projections.usage import LastUse, Resources, Samples

if TYPE_CHECKING:
    import duckdb

    from projections.transaction import Transaction

USED_WITHIN = timedelta(minutes=5)
# How old, before the newest sample, a last value may be to be known again after a restart. At full rate this
# reads twelve million samples; what a node used longer ago says nothing about now.

FORGET_BEATS = """
    DELETE FROM main.heartbeat
    WHERE number IN (SELECT number FROM beats)
"""
FORGET_BOOTS = """
    DELETE FROM main.heartbeat_boot
    WHERE number IN (SELECT number FROM boots)
"""
FORGET_SAMPLES = """
    DELETE FROM main.usage_sample
    WHERE "at" < $before
"""
FORGET_QUARANTINE = """
    DELETE FROM main.quarantine
    WHERE stream = $stream AND stored_at < $before
"""
LOAD_NODE_NUMBERS = """
    SELECT node_id
    FROM main.node_number
    ORDER BY number
"""
LOAD_RESOURCE_NUMBERS = """
    SELECT resource
    FROM main.resource_number
    ORDER BY number
"""
LOAD_BEATS = """
    SELECT
        number, last_seq, epoch_us(last_heartbeat_at) AS last_heartbeat_us, beat_seq, missed, duplicates,
        reordered, other_boot, coalesce(skew_ms, $no_skew) AS skew_ms,
        coalesce(epoch_us(skewed_since), 0) AS skewed_since_us
    FROM main.heartbeat
"""
LOAD_BOOTS = """
    SELECT number, boot_id, inventory, previous_boots
    FROM main.heartbeat_boot
"""
LOAD_LAST_USE = """
    SELECT u.number, u.resource, u.used
    FROM (
        SELECT number, resource, arg_max_null(used, rowid) AS used, max("at") AS "at"
        FROM main.usage_sample
        WHERE "at" >= (SELECT max(last_heartbeat_at) - to_minutes($minutes) FROM main.heartbeat)
        GROUP BY number, resource
    ) AS u
    JOIN main.heartbeat AS h ON h.number = u.number AND h.last_heartbeat_at = u."at"
"""


def write_node_numbers(transaction: Transaction, new: NewNodes) -> None:
    """Append the numbers of nodes that the log names for the first time."""
    if len(new):
        rows = [(new.first + at, node_id) for at, node_id in enumerate(new.node_ids)]
        transaction.insert(NODE_NUMBER, arrow_rows(NODE_NUMBER, rows))


def write_beats(transaction: Transaction, folded: FoldedBeats) -> None:
    """Replace the rows of the nodes that beat."""
    import pyarrow as pa  # noqa: PLC0415 (takes 50 ms, and starting must be quick)

    if not len(folded.numbers):
        return
    columns = dict(zip(COLUMNS, folded.table.T, strict=True))
    skew_ms, skewed_us = columns["skew_ms"], np.ascontiguousarray(columns["skewed_since_us"])
    made = {
        "number": pa.array(folded.numbers.astype(np.int32)),
        **{name: pa.array(column) for name, column in columns.items()},
        "last_heartbeat_at": times(np.ascontiguousarray(columns["last_heartbeat_us"])),
        "skew_ms": pa.array(skew_ms, mask=skew_ms == NO_SKEW),
        "skewed_since": times(skewed_us, mask=skewed_us == 0),
    }
    beats = pa.table({name: made[name] for name in HEARTBEAT.columns})
    transaction.run(FORGET_BEATS, name="beats", rows=beats)
    transaction.insert(HEARTBEAT, beats)
    if folded.has_new_text.any():
        _write_boots(transaction, folded)


def _write_boots(transaction: Transaction, folded: FoldedBeats) -> None:
    changed = np.flatnonzero(folded.has_new_text).tolist()
    rows = [
        (number, folded.boots[at], folded.inventories[at], list(folded.previous.get(number, ())))
        for at, number in zip(changed, folded.numbers[changed].tolist(), strict=True)
    ]
    boots = arrow_rows(HEARTBEAT_BOOT, rows)
    transaction.run(FORGET_BOOTS, name="boots", rows=boots)
    transaction.insert(HEARTBEAT_BOOT, boots)


def write_samples(transaction: Transaction, samples: Samples, *, first_new: int) -> None:
    """Append samples, and the names of resources that get the numbers from `first_new` on."""
    import pyarrow as pa  # noqa: PLC0415

    if samples.new_resources:
        rows = [(first_new + at, name) for at, name in enumerate(samples.new_resources)]
        transaction.insert(RESOURCE_NUMBER, arrow_rows(RESOURCE_NUMBER, rows))
    if len(samples.numbers):
        transaction.insert(
            USAGE_SAMPLE,
            pa.table(
                {
                    "number": pa.array(samples.numbers.astype(np.int32)),
                    "resource": pa.array(samples.resources.astype(np.int32)),
                    "at": times(samples.at_us),
                    "used": pa.array(samples.used, mask=np.isnan(samples.used)),
                }
            ),
        )


def forget_beats(transaction: Transaction, *, before: datetime) -> None:
    """Delete the samples that are older, and the heartbeats in quarantine that are."""
    transaction.execute(FORGET_SAMPLES, {"before": before})
    transaction.execute(FORGET_QUARANTINE, {"stream": BEATS_NAME, "before": before})


def load_node_ids(connection: duckdb.DuckDBPyConnection) -> list[NodeId]:
    """Return every node that has a number, by number."""
    return [NodeId(node_id) for (node_id,) in connection.execute(LOAD_NODE_NUMBERS).fetchall()]


def load_resources(connection: duckdb.DuckDBPyConnection) -> Resources:
    """Return the numbers of the names of resources."""
    return Resources(name for (name,) in connection.execute(LOAD_RESOURCE_NUMBERS).fetchall())


def load_beats(connection: duckdb.DuckDBPyConnection, rows: Rows) -> None:
    """Fill the rows, which must have room for every number."""
    found = connection.execute(LOAD_BEATS, {"no_skew": int(NO_SKEW)}).fetchnumpy()
    numbers = found["number"]
    for at, name in enumerate(COLUMNS):
        rows.table[numbers, at] = found[name]
    for number, boot_id, inventory, previous in connection.execute(LOAD_BOOTS).fetchall():
        rows.boots[number] = boot_id
        rows.inventories[number] = inventory
        if previous:
            rows.previous[number] = tuple(previous)


def load_last_use(connection: duckdb.DuckDBPyConnection, last_use: LastUse) -> None:
    """Fill the last values, which must have room for every number."""
    minutes = int(USED_WITHIN.total_seconds() // 60)
    found = connection.execute(LOAD_LAST_USE, {"minutes": minutes}).fetchnumpy()
    numbers = np.asarray(found["number"], dtype=np.int64)
    samples = Samples(
        numbers=numbers,
        resources=np.asarray(found["resource"], dtype=np.int64),
        at_us=np.zeros(len(numbers), dtype=np.int64),
        used=np.ma.filled(np.ma.asarray(found["used"], dtype=np.float64), np.nan),
        is_last=np.ones(len(numbers), dtype=bool),
        new_resources=[],
    )
    last_use.put(np.unique(numbers), samples)
