"""What capacity the fleet had, each question on a reader's own cursor (floor 2).

What it has now, memory answers (`Projection.capacity`). The sums are exact and mean the same here and there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from projections.capacity_sums import (
    SUMMED_BELOW,
    CapacitySum,
    CapacitySums,
    Group,
    capacity_sum,
    in_order,
)

if TYPE_CHECKING:
    import duckdb

_BELOW = f"{SUMMED_BELOW}.0"
# With a point it is a DECIMAL, and compared exactly.
_IS_KNOWN = f"""
    c.status = 'reported'
    AND coalesce(abs(c.total) < {_BELOW}, true)
    AND coalesce(abs(c.reserved) < {_BELOW}, true)
    AND coalesce(abs(c.allocatable) < {_BELOW}, false)
    AND coalesce(abs(c.allocated) < {_BELOW}, true)
    AND coalesce(abs(c.free) < {_BELOW}, false)
"""
_NUMBERS = f"""
    count(*) AS nodes,
    count(*) FILTER (NOT ({_IS_KNOWN})) AS unknown,
    coalesce(sum(c.total) FILTER ({_IS_KNOWN}), 0) AS total,
    coalesce(sum(c.reserved) FILTER ({_IS_KNOWN}), 0) AS reserved,
    coalesce(sum(c.allocatable) FILTER ({_IS_KNOWN}), 0) AS allocatable,
    coalesce(sum(c.allocated) FILTER ({_IS_KNOWN}), 0) AS allocated,
    coalesce(sum(c.free) FILTER ({_IS_KNOWN}), 0) AS free
"""
_NOW = f"""
    SELECT c.resource, n.region, n.zone, n.pool, {_NUMBERS}
    FROM main.capacity AS c
    JOIN main.node AS n ON n.number = c.number
    GROUP BY c.resource, n.region, n.zone, n.pool
"""
_THEN = f"""
    SELECT c.resource, {{place}} AS place, {_NUMBERS}
    FROM fleet.capacity_at($at) AS c
    {{nodes}}
    GROUP BY c.resource, place
"""
_STEPS = f"""
    WITH
        band AS (
            SELECT
                c.resource, c.status, c.valid_from, {{place}} AS place, {_IS_KNOWN} AS is_known,
                c.total, c.reserved, c.allocatable, c.allocated, c.free,
                lead(c.valid_from) OVER (PARTITION BY c.node_id, c.resource ORDER BY c.cause_seq) AS valid_to
            FROM main.capacity_history AS c
            {{nodes}}
            WHERE c.valid_from <= $until
        ),
        edge AS (
            SELECT
                resource, status, place, is_known, total, reserved, allocatable, allocated, free,
                1 AS sign, valid_from AS moment
            FROM band
            UNION ALL
            SELECT
                resource, status, place, is_known, total, reserved, allocatable, allocated, free,
                -1 AS sign, valid_to AS moment
            FROM band
            WHERE valid_to IS NOT NULL
        ),
        stepped AS (
            SELECT
                resource, place, sign, is_known, total, reserved, allocatable, allocated, free,
                greatest(0, ceil((epoch_us(moment) - epoch_us($begin)) / $step_us)::BIGINT) AS step
            FROM edge
            WHERE status <> 'absent'
        ),
        changed AS (
            SELECT
                step, resource, place, sign, count(*) AS nodes, count(*) FILTER (NOT is_known) AS unknown,
                coalesce(sum(total) FILTER (is_known), 0) AS total,
                coalesce(sum(reserved) FILTER (is_known), 0) AS reserved,
                coalesce(sum(allocatable) FILTER (is_known), 0) AS allocatable,
                coalesce(sum(allocated) FILTER (is_known), 0) AS allocated,
                coalesce(sum(free) FILTER (is_known), 0) AS free
            FROM stepped
            GROUP BY step, resource, place, sign
        )
    SELECT step, resource, place, sign, nodes, unknown, total, reserved, allocatable, allocated, free
    FROM changed
    ORDER BY step
"""
_PLACES: dict[Group, str] = {
    "resource": "NULL::VARCHAR",
    "zone": "n.zone",
    "pool": "n.pool",
    "region": "n.region",
}


class CapacityStep(NamedTuple):
    """The sums that held at a moment."""

    at: datetime
    sums: list[CapacitySum]


def load_sums(connection: duckdb.DuckDBPyConnection) -> CapacitySums:
    """Return the sums of what the tables hold now."""
    sums = CapacitySums()
    sums.add(connection.execute(_NOW).fetchall())
    return sums


def capacity_at(
    cursor: duckdb.DuckDBPyConnection, at: datetime, group: Group = "resource"
) -> list[CapacitySum]:
    """Return the sums as of a moment, by the places that the nodes had then, in order, no place first."""
    nodes = "" if group == "resource" else "JOIN fleet.nodes_at($at) AS n ON n.node_id = c.node_id"
    rows = cursor.execute(_THEN.format(place=_PLACES[group], nodes=nodes), {"at": at}).fetchall()
    sums = [capacity_sum(row[0], row[1], list(row[2:])) for row in rows]
    return sorted(sums, key=lambda one: in_order(one.resource, one.place))


def capacity_history(
    cursor: duckdb.DuckDBPyConnection,
    *,
    begin: datetime,
    end: datetime,
    step: timedelta,
    group: Group = "resource",
) -> list[CapacityStep]:
    """Return the sums as of `begin` and each step up to `end`, by the places that the nodes have now."""
    steps = (end - begin) // step + 1
    nodes = "" if group == "resource" else "JOIN main.node AS n ON n.node_id = c.node_id"
    rows = cursor.execute(
        _STEPS.format(place=_PLACES[group], nodes=nodes),
        {"begin": begin, "until": begin + (steps - 1) * step, "step_us": step // timedelta(microseconds=1)},
    ).fetchall()
    return [CapacityStep(begin + nth * step, sums) for nth, sums in enumerate(_stepped(rows, steps))]


def _stepped(rows: Sequence[tuple[Any, ...]], steps: int) -> Iterator[list[CapacitySum]]:
    """Add up what changed at each step, in order, and yield the sums that hold after it."""
    held: dict[tuple[str, str | None], list[Any]] = {}
    at = 0
    for nth in range(steps):
        while at < len(rows) and rows[at][0] <= nth:
            _, resource, place, sign, *numbers = rows[at]
            sums = held.setdefault((resource, place), [0] * len(numbers))
            for column, number in enumerate(numbers):
                sums[column] += sign * number
            at += 1
        there = [key for key, numbers in held.items() if numbers[0]]
        yield [capacity_sum(*key, list(held[key])) for key in sorted(there, key=lambda one: in_order(*one))]
