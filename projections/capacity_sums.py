"""Sums of capacity over the fleet, kept while facts are folded (floor 2, pure).

Adding up 400,000 exact numbers for each question would take longer than a question may. So each batch of
facts says what its nodes were worth before it and are worth after it, and the difference goes into the sums.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from decimal import Context, Decimal
from typing import Any, Literal, NamedTuple

from projections.capacity import REPORTED, ResourceCapacity
from projections.decide import Seen
from projections.state import NodeState

Group = Literal["resource", "zone", "pool", "region"]
"""What sums are made over: a resource in the whole fleet, or on the nodes of each place."""

SUMMED_BELOW = Decimal(10**22)
"""An amount beyond (10 zettabytes of one node's memory) is no amount: it counts as unknown. A million nodes
below it add up to what a DECIMAL(38, 9) holds, so no node can break the sums of everybody."""

Row = tuple[Any, ...]
"""Resource, region, zone, pool; then how many nodes have it and how many of them do not say how much, and the
sums of total, reserved, allocatable, allocated and free over the others."""
_PLACES = {"resource": None, "region": 1, "zone": 2, "pool": 3}
_ZERO = Decimal(0)
_NOTHING = (_ZERO,) * 5
_EXACT = Context(prec=60)
# A sum of amounts has up to 38 digits, more than the caller's own context may keep.


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

    def add(self, rows: Iterable[Row]) -> None:
        """Put in what nodes add; what is counted below zero was put in before, and is taken out."""
        for row in rows:
            key, numbers = row[:4], row[4:]
            held = self._sums.get(key)
            kept = list(numbers) if held is None else _added(held, numbers)
            assert kept[0] >= 0, f"{row[:4]}: more nodes taken out than were put in"
            if kept[0]:
                self._sums[key] = kept
            else:
                del self._sums[key]

    def by(self, group: Group) -> list[CapacitySum]:
        """Return the sums by resource and place, in order, no place first."""
        place = _PLACES[group]
        made: dict[tuple[str, str | None], list[Any]] = {}
        for key, numbers in self._sums.items():
            into = (key[0], None if place is None else key[place])
            held = made.get(into)
            made[into] = numbers if held is None else _added(held, numbers)
        return [
            capacity_sum(resource, named, numbers)
            for (resource, named), numbers in sorted(made.items(), key=lambda one: in_order(*one[0]))
        ]


def capacity_sum(resource: str, place: str | None, numbers: list[Any]) -> CapacitySum:
    """Return a sum of the numbers of a `Row`."""
    nodes, unknown, *amounts = numbers
    return CapacitySum(
        resource, place, nodes, unknown, *(amounts if nodes > unknown else [None] * len(amounts))
    )


def in_order(resource: str, place: str | None) -> tuple[str, bool, str]:
    """Return what sums are sorted by."""
    return resource, place is not None, place or ""


def sums_changed(nodes: Iterable[tuple[Seen | None, Seen]]) -> list[Row]:
    """Return what nodes add to the sums by what they were (None: unknown) and what they are now."""
    counts: Counter[tuple[Any, ...]] = Counter()
    # Machines come in types, whose numbers are one object: they are told apart by it, since a number's hash
    # costs as much as adding it up.
    worth: dict[int, ResourceCapacity] = {}

    def count(node: Seen, by: int) -> None:
        place = _place(node.state)
        for resource in node.resources:
            worth[id(resource)] = resource
            counts[(id(resource), *place)] += by

    for before, after in nodes:
        if before is not None:
            if before.resources == after.resources and _place(before.state) == _place(after.state):
                continue
            count(before, -1)
        count(after, 1)
    return [
        (worth[key[0]].resource, *key[1:], *_numbers(worth[key[0]], times))
        for key, times in counts.items()
        if times
    ]


def _place(state: NodeState) -> tuple[str | None, str | None, str | None]:
    return state.region, state.zone, state.pool


def _numbers(resource: ResourceCapacity, times: int) -> tuple[Any, ...]:
    """Return what so many nodes with such a resource add, as the numbers of a `Row`."""
    amounts = resource.total, resource.reserved, resource.allocatable, resource.allocated, resource.free
    if (
        resource.status != REPORTED
        or resource.allocatable is None
        or resource.free is None
        or not all(amount is None or -SUMMED_BELOW < amount < SUMMED_BELOW for amount in amounts)
    ):
        return times, times, *_NOTHING
    return times, 0, *[_EXACT.multiply(amount or _ZERO, times) for amount in amounts]


def _added(held: list[Any], numbers: Iterable[Any]) -> list[Any]:
    nodes, unknown, *amounts = numbers
    sums = [_EXACT.add(a, b) for a, b in zip(held[2:], amounts, strict=True)]
    return [held[0] + nodes, held[1] + unknown, *sums]
