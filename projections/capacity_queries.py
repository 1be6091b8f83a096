"""Fixed questions about the capacity of the fleet, each on a reader's own cursor (floor 2).

Sums are exact. A node that does not say how much of a resource it has is counted apart (`unknown`), and a
group of nodes none of which says it has the sum None.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import duckdb

from projections.tables import AMOUNT

if TYPE_CHECKING:
    from collections.abc import Sequence

Group = Literal["resource", "zone", "pool", "region"]
"""What sums are made over: a resource of the whole fleet, or of the nodes of each place."""

_SUMS = """
    count(*) AS nodes,
    count(*) FILTER (c.status = 'unknown') AS unknown,
    sum(c.total::{amount}) AS total,
    sum(c.reserved::{amount}) AS reserved,
    sum(c.allocatable::{amount}) AS allocatable,
    sum(c.allocated::{amount}) AS allocated,
    sum(c.free::{amount}) AS free
"""
_NOW = (
    "SELECT c.resource, {place} AS place,"
    + _SUMS
    + """
    FROM main.capacity AS c
    {nodes}
    GROUP BY c.resource, place
    ORDER BY c.resource, place NULLS FIRST
"""
)
_THEN = (
    "SELECT c.resource, {place} AS place,"
    + _SUMS
    + """
    FROM fleet.capacity_at($at) AS c
    {nodes}
    GROUP BY c.resource, place
    ORDER BY c.resource, place NULLS FIRST
"""
)
_STEPS = """
    WITH
        band AS (
            SELECT
                c.resource, c.status, c.valid_from, {place} AS place,
                coalesce(c.total, 0)::{amount} AS total, coalesce(c.reserved, 0)::{amount} AS reserved,
                coalesce(c.allocatable, 0)::{amount} AS allocatable,
                coalesce(c.allocated, 0)::{amount} AS allocated, coalesce(c.free, 0)::{amount} AS free,
                lead(c.valid_from) OVER (PARTITION BY c.node_id, c.resource ORDER BY c.cause_seq) AS valid_to
            FROM main.capacity_history AS c
            {nodes}
            WHERE c.valid_from <= $until
        ),
        edge AS (
            SELECT *, 1 AS sign, valid_from AS moment
            FROM band
            WHERE status <> 'absent' AND valid_from IS DISTINCT FROM valid_to
            UNION ALL
            SELECT *, -1 AS sign, valid_to AS moment
            FROM band
            WHERE status <> 'absent' AND valid_to IS NOT NULL AND valid_from <> valid_to
        ),
        stepped AS (
            SELECT *, greatest(0, ceil((epoch_us(moment) - epoch_us($begin)) / $step_us)::BIGINT) AS step
            FROM edge
        )
    SELECT
        step, resource, place,
        sum(sign)::BIGINT AS nodes,
        coalesce(sum(sign) FILTER (status = 'unknown'), 0)::BIGINT AS unknown,
        sum(CASE sign WHEN 1 THEN total ELSE -total END) AS total,
        sum(CASE sign WHEN 1 THEN reserved ELSE -reserved END) AS reserved,
        sum(CASE sign WHEN 1 THEN allocatable ELSE -allocatable END) AS allocatable,
        sum(CASE sign WHEN 1 THEN allocated ELSE -allocated END) AS allocated,
        sum(CASE sign WHEN 1 THEN free ELSE -free END) AS free
    FROM stepped
    WHERE step <= $last_step
    GROUP BY step, resource, place
    ORDER BY step, resource, place NULLS FIRST
"""
_PLACES: dict[Group, str] = {
    "resource": "NULL::VARCHAR",
    "zone": "n.zone",
    "pool": "n.pool",
    "region": "n.region",
}
_BY_NUMBER = "JOIN main.node AS n ON n.number = c.number"
_BY_ID = "JOIN main.node AS n ON n.node_id = c.node_id"
_BY_ID_THEN = "JOIN fleet.nodes_at($at) AS n ON n.node_id = c.node_id"


class CapacitySum(NamedTuple):
    """The sum of one resource over the nodes of a place; None is the whole fleet, or those that name none."""

    resource: str
    place: str | None
    nodes: int
    unknown: int
    total: Decimal | None
    reserved: Decimal | None
    allocatable: Decimal | None
    allocated: Decimal | None
    free: Decimal | None


class CapacityStep(NamedTuple):
    """The sums that held at a moment."""

    at: datetime
    sums: list[CapacitySum]


def capacity_now(cursor: duckdb.DuckDBPyConnection, group: Group = "resource") -> list[CapacitySum]:
    """Return the sums over all nodes that are not retired, by resource and place, no place first."""
    asked = _NOW, _PLACES[group], "" if group == "resource" else _BY_NUMBER
    return [CapacitySum._make(row) for row in _exactly(cursor, *asked, {})]


def capacity_at(
    cursor: duckdb.DuckDBPyConnection, at: datetime, group: Group = "resource"
) -> list[CapacitySum]:
    """Return the sums as of a moment, by the places that the nodes had then."""
    asked = _THEN, _PLACES[group], "" if group == "resource" else _BY_ID_THEN
    return [CapacitySum._make(row) for row in _exactly(cursor, *asked, {"at": at})]


def capacity_history(
    cursor: duckdb.DuckDBPyConnection,
    *,
    begin: datetime,
    end: datetime,
    step: timedelta,
    group: Group = "resource",
) -> list[CapacityStep]:
    """Return the sums as of `begin` and each step up to `end`, by the places that the nodes have now."""
    last_step = (end - begin) // step
    parameters = {
        "begin": begin,
        "until": begin + last_step * step,
        "step_us": step // timedelta(microseconds=1),
        "last_step": last_step,
    }
    asked = _STEPS, _PLACES[group], "" if group == "resource" else _BY_ID
    edges = _exactly(cursor, *asked, parameters)
    return list(_stepped(edges, begin, step, last_step))


def _stepped(
    edges: Sequence[tuple[Any, ...]], begin: datetime, step: timedelta, last_step: int
) -> Iterator[CapacityStep]:
    held: dict[tuple[str, str], list[Any]] = {}
    waiting = list(reversed(edges))
    for nth in range(last_step + 1):
        while waiting and waiting[-1][0] <= nth:
            _, resource, place, *change = waiting.pop()
            # No place sorts before every name of one.
            sums = held.setdefault((resource, "" if place is None else f"={place}"), [0] * len(change))
            for at, difference in enumerate(change):
                sums[at] += difference
        yield CapacityStep(begin + nth * step, [_sum(key, held[key]) for key in sorted(held) if held[key][0]])


def _sum(key: tuple[str, str], numbers: list[Any]) -> CapacitySum:
    resource, place = key
    nodes, unknown, *amounts = numbers
    said = amounts if nodes > unknown else [None, amounts[1], None, amounts[3], None]
    return CapacitySum(resource, place[1:] if place else None, nodes, unknown, *said)


def _exactly(
    cursor: duckdb.DuckDBPyConnection, query: str, place: str, nodes: str, parameters: dict[str, Any]
) -> list[tuple[Any, ...]]:
    """Return the rows of a query with exact sums; with rounded ones where an exact sum has no room."""
    try:
        return cursor.execute(query.format(place=place, nodes=nodes, amount=AMOUNT), parameters).fetchall()
    except duckdb.OutOfRangeException:
        # A node that claims 10^28 bytes of memory must not take the answer from everybody.
        rows = cursor.execute(query.format(place=place, nodes=nodes, amount="DOUBLE"), parameters).fetchall()
        return [tuple(Decimal(str(one)) if isinstance(one, float) else one for one in row) for row in rows]
