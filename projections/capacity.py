"""Capacity: five numbers for each resource of a node (floor 2, pure).

    allocatable = (total - reserved) x ratio, rounded down to the resource's granule, never below zero
    free        = allocatable - allocated, which may be negative

`used` is telemetry and none of these. All arithmetic is exact: 100 x 1.15 is 115.
"""

from __future__ import annotations

from decimal import MAX_EMAX, MIN_EMIN, ROUND_FLOOR, Context, Decimal
from functools import lru_cache
from typing import NamedTuple

from events.amounts import LIMIT
from projections.parts import Allocation, DeclaredResource, Reported
from projections.state import NodeState

UNKNOWN = "unknown"
REPORTED = "reported"
ABSENT = "absent"
OVER_RESERVED = "over_reserved"
OVERCOMMITTED = "overcommitted"
OUT_OF_RANGE = "out_of_range"
NEGATIVE_ALLOCATION = "negative_allocation"

GRANULES = {"cpu": Decimal("0.001")}
"""The smallest share of a resource that can be given; 1 for every resource not named here."""

MEMO = 4096
# Machines come in types: so many different resources are computed once and shared.

MOST = Decimal(LIMIT - 1)
# A product or a sum of amounts may leave their range, but must fit into the column that amounts fit into.

_ONE = Decimal(1)
_ZERO = Decimal(0)
_EXACT = Context(prec=200, rounding=ROUND_FLOOR, Emin=MIN_EMIN, Emax=MAX_EMAX, traps=[])
# An amount has at most 37 digits, so a product has 74, and a sum over all of a node's workloads a few more.


class ResourceCapacity(NamedTuple):
    """One resource of a node. `total` is None where it is unknown, `reserved` and `ratio` where nobody said.

    `last_known` is the total before it became unknown, `source` where the node says its number came from.
    """

    resource: str
    status: str
    total: Decimal | None
    reserved: Decimal | None
    ratio: Decimal | None
    allocatable: Decimal | None
    allocated: Decimal
    free: Decimal | None
    flags: tuple[str, ...] = ()
    source: str | None = None
    last_known: Decimal | None = None


def capacity(state: NodeState) -> tuple[ResourceCapacity, ...]:
    """Return the capacity of each resource that is reported, declared or allocated, by name.

    A retired node has none. A resource that is only allocated is unknown. Declared numbers win, one by one.
    Devices of kind `gpu` are counted where the node reports no number of them, with unhealthy ones reserved.
    """
    if state.retirement is not None and state.retired_at is not None:
        return ()
    reported = state.resources
    if state.devices and "gpu" not in reported:
        gpus = [device for device in state.devices if device.kind == "gpu"]
        if gpus:
            broken = sum(device.healthy is False for device in gpus)
            reported = {**reported, "gpu": Reported(Decimal(len(gpus)), Decimal(broken))}
    if state.declared is None and not state.allocations:
        return tuple([_as_reported(name, reported[name]) for name in sorted(reported)])
    declared = state.standing_declared
    resources = {} if declared is None else declared.resources
    allocated = _allocated(state.standing_allocations)
    return tuple(
        [
            _numbers(name, reported.get(name), resources.get(name), allocated.get(name, _ZERO))
            for name in sorted({*reported, *resources, *allocated})
        ]
    )


@lru_cache(MEMO)
def _as_reported(name: str, reported: Reported) -> ResourceCapacity:
    return _numbers(name, reported, None, _ZERO)


def _numbers(
    name: str, reported: Reported | None, declared: DeclaredResource | None, allocated: Decimal
) -> ResourceCapacity:
    total, reserved, ratio, source, last_known = reported or Reported(None)
    if declared is not None:
        total = total if declared.total is None else declared.total
        reserved = reserved if declared.reserved is None else declared.reserved
        ratio = ratio if declared.ratio is None else declared.ratio
    # What a scheduler says is kept as it says it, also that work holds less than nothing.
    given = (NEGATIVE_ALLOCATION,) if allocated < _ZERO else ()
    if total is None:
        allocated = max(-MOST, min(allocated, MOST))
        return ResourceCapacity(
            name, UNKNOWN, None, reserved, ratio, None, allocated, None, given, source, last_known
        )
    allocatable, flags = _allocatable(name, total, reserved, ratio)
    flags = (*flags, *given)
    if allocatable > MOST or not -MOST <= allocated <= MOST:
        allocatable, allocated = min(allocatable, MOST), max(-MOST, min(allocated, MOST))
        flags = (*flags, OUT_OF_RANGE)
    free = _EXACT.subtract(allocatable, allocated)
    if free < _ZERO:
        flags = (*flags, OVERCOMMITTED)
    return ResourceCapacity(
        name, REPORTED, total, reserved, ratio, allocatable, allocated, free, flags, source, last_known
    )


def _allocatable(
    name: str, total: Decimal, reserved: Decimal | None, ratio: Decimal | None
) -> tuple[Decimal, tuple[str, ...]]:
    left = total if reserved is None else _EXACT.subtract(total, reserved)
    if left < _ZERO:
        return _ZERO, (OVER_RESERVED,)
    if ratio is not None:
        if ratio < _ZERO:
            return _ZERO, ()
        left = _EXACT.multiply(left, ratio)
    return _floor(name, left), ()


def _floor(name: str, amount: Decimal) -> Decimal:
    floored = _EXACT.quantize(amount, GRANULES.get(name, _ONE))
    return amount if floored == amount else floored


def _allocated(allocations: tuple[Allocation, ...]) -> dict[str, Decimal]:
    sums: dict[str, Decimal] = {}
    for given in allocations:
        for name, amount in given.amounts.items():
            sums[name] = _EXACT.add(sums.get(name, _ZERO), amount)
    return sums
