"""Sums of capacity over the fleet, kept while facts are folded (floor 2).

Adding up 400,000 exact numbers for each question would take longer than a question may. So each batch of
facts takes the nodes it touches out of the sums and puts them back as they are after it, in the same
transaction.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:
    import duckdb

Group = Literal["resource", "zone", "pool", "region"]
"""What sums are made over: a resource in the whole fleet, or on the nodes of each place."""

SUMMED_BELOW = "1e22"
# An amount beyond (10 zettabytes of one node's memory) is no amount: it counts as unknown. A million nodes
# below it add up to what a DECIMAL(38, 9) holds, so no node can break the sums of everybody.

IS_KNOWN = f"""
    c.status = 'reported'
    AND coalesce(abs(c.total) < {SUMMED_BELOW}, true)
    AND coalesce(abs(c.reserved) < {SUMMED_BELOW}, true)
    AND coalesce(abs(c.allocatable) < {SUMMED_BELOW}, false)
    AND coalesce(abs(c.allocated) < {SUMMED_BELOW}, true)
    AND coalesce(abs(c.free) < {SUMMED_BELOW}, false)
"""
NUMBERS = f"""
    count(*) AS nodes,
    count(*) FILTER (NOT ({IS_KNOWN})) AS unknown,
    coalesce(sum(c.total) FILTER ({IS_KNOWN}), 0) AS total,
    coalesce(sum(c.reserved) FILTER ({IS_KNOWN}), 0) AS reserved,
    coalesce(sum(c.allocatable) FILTER ({IS_KNOWN}), 0) AS allocatable,
    coalesce(sum(c.allocated) FILTER ({IS_KNOWN}), 0) AS allocated,
    coalesce(sum(c.free) FILTER ({IS_KNOWN}), 0) AS free
"""
ALL = f"""
    SELECT c.resource, n.region, n.zone, n.pool, {NUMBERS}
    FROM main.capacity AS c
    JOIN main.node AS n ON n.number = c.number
    GROUP BY c.resource, n.region, n.zone, n.pool
"""
OF_TOUCHED = f"""
    SELECT c.resource, n.region, n.zone, n.pool, {NUMBERS}
    FROM main.capacity AS c
    JOIN main.node AS n ON n.number = c.number
    WHERE c.number IN (SELECT number FROM touched) AND n.number IN (SELECT number FROM touched)
    GROUP BY c.resource, n.region, n.zone, n.pool
"""

Row = tuple[Any, ...]
"""Resource, region, zone, pool, then the numbers of `NUMBERS`."""
_PLACES = {"resource": None, "region": 1, "zone": 2, "pool": 3}


class CapacitySum(NamedTuple):
    """The sum of one resource over the nodes of a place; None is the whole fleet, or those that name none.

    `unknown` of the nodes do not say how much they have; their numbers are in no sum. Where that is all of
    them, the sums are None.
    """

    resource: str
    place: str | None
    nodes: int
    unknown: int
    total: Decimal | None
    reserved: Decimal | None
    allocatable: Decimal | None
    allocated: Decimal | None
    free: Decimal | None


class CapacitySums:
    """The sums by resource, region, zone and pool. Only the writer changes it, holding its lock."""

    def __init__(self) -> None:
        self._sums: dict[Row, list[Any]] = {}

    @classmethod
    def load(cls, connection: duckdb.DuckDBPyConnection) -> CapacitySums:
        """Return the sums of what the tables hold."""
        sums = cls()
        sums.add(connection.execute(ALL).fetchall())
        return sums

    def add(self, rows: Iterable[Row]) -> None:
        """Put nodes in."""
        for row in rows:
            held = self._sums.get(row[:4])
            self._sums[row[:4]] = (
                list(row[4:]) if held is None else [a + b for a, b in zip(held, row[4:], strict=True)]
            )

    def take_out(self, rows: Iterable[Row]) -> None:
        """Take nodes out as they were put in."""
        for row in rows:
            left = [a - b for a, b in zip(self._sums[row[:4]], row[4:], strict=True)]
            if left[0]:
                self._sums[row[:4]] = left
            else:
                del self._sums[row[:4]]

    def by(self, group: Group) -> list[CapacitySum]:
        """Return the sums by resource and place, in order, no place first."""
        place = _PLACES[group]
        made: dict[tuple[str, str | None], list[Any]] = {}
        for key, numbers in self._sums.items():
            into = (key[0], None if place is None else key[place])
            held = made.get(into)
            made[into] = numbers if held is None else [a + b for a, b in zip(held, numbers, strict=True)]
        return [
            capacity_sum(resource, named, numbers)
            for (resource, named), numbers in sorted(made.items(), key=lambda one: in_order(*one[0]))
        ]


def capacity_sum(resource: str, place: str | None, numbers: list[Any]) -> CapacitySum:
    """Return a sum of the numbers of `NUMBERS`."""
    nodes, unknown, *amounts = numbers
    return CapacitySum(
        resource, place, nodes, unknown, *(amounts if nodes > unknown else [None] * len(amounts))
    )


def in_order(resource: str, place: str | None) -> tuple[str, bool, str]:
    """Return what sums are sorted by."""
    return resource, place is not None, place or ""
