"""Amounts that a workload holds, from the members and units of a dialect (floor 3, pure).

A scheduler that speaks a dialect says what it hands out in that dialect's own words; kept are canonical
resources. Names of ours are understood in every dialect, and mean what they mean without one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

from api.dialects.quantities import quantity
from api.dialects.rules import ARIA_PIN, CARAVANSERAI, FUSE, NAMES, SMOLFLEET, STRATUM
from api.said import refused_member
from events.amounts import amount

MIB, GIB = 2**20, 2**30
Unit = tuple[str, int]
"""The resource that a member counts, and how much of it one is."""

CANONICAL: dict[str, Unit] = {name: (name, 1) for name in ("cpu", "memory", "disk", "gpu", "vm")}

UNITS: dict[str, dict[str, Unit]] = {
    SMOLFLEET: {"cpus": ("cpu", 1), "memoryMb": ("memory", MIB), "diskGb": ("disk", GIB)},
    CARAVANSERAI: {"storage": ("disk", 1), "ephemeral-storage": ("disk", 1)},
    FUSE: {
        "cpus": ("cpu", 1),
        "ram_mb": ("memory", MIB),
        "storage_gb": ("disk", GIB),
        "vm_count": ("vm", 1),
        "gpus": ("gpu", 1),
    },
    ARIA_PIN: {"slots": ("slot", 1), "gpus": ("gpu", 1), "mem_gb": ("gpu.memory", GIB)},
    STRATUM: {
        "vcpus": ("cpu", 1),
        "memoryBytes": ("memory", 1),
        "memory_bytes": ("memory", 1),
        "diskBytes": ("disk", 1),
    },
}
"""The members of each dialect. Its "MB" and "GB" are binary, as in what its nodes report."""

NESTED = {FUSE: ("mig_profiles", "mig."), STRATUM: ("capabilities", "")}
"""The member of a dialect that holds others, and what goes before their names."""

CAPABILITY = "capability."
"""What begins the names of all that Stratum counts besides: kept are the names without."""


def canonical(dialect: str | None, amounts: Mapping[str, Any]) -> dict[str, Decimal]:
    """Return amounts by canonical resource; raise the problem of a dialect, member or amount that is none.

    Two members that count the same resource are added up.
    """
    if dialect is None:
        return {name: _amount(name, value, amount) for name, value in amounts.items()}
    if dialect not in NAMES:
        raise refused_member("dialect", f"one of {', '.join(NAMES)}")
    read: Callable[[Any], Decimal] = _quantity if dialect in (CARAVANSERAI, STRATUM) else amount
    found: dict[str, Decimal] = {}
    for member, value in _flat(dialect, amounts).items():
        resource, factor = _unit(dialect, member)
        held = _amount(member, value, read) * factor + found.get(resource, Decimal(0))
        found[resource] = _amount(member, held, amount)
    return found


def _flat(dialect: str, amounts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the members of a dialect with those that one of them holds beside the others."""
    holder, prefix = NESTED.get(dialect, ("", ""))
    inner = amounts.get(holder, {})
    if not isinstance(inner, dict):
        raise refused_member(f"amounts.{holder}", "it is an object of amounts")
    told = {member: value for member, value in amounts.items() if member != holder}
    return told | {f"{prefix}{name}": value for name, value in inner.items()}


def _unit(dialect: str, member: str) -> Unit:
    unit = UNITS[dialect].get(member) or CANONICAL.get(member)
    if unit is not None:
        return unit
    if dialect == STRATUM and member.removeprefix(CAPABILITY) not in ("", member):
        return member.removeprefix(CAPABILITY), 1
    if dialect == CARAVANSERAI or (dialect == FUSE and member.startswith("mig.")):
        return member, 1
    names = sorted({*UNITS[dialect], *CANONICAL})
    raise refused_member(f"amounts.{member[:80]}", f"{dialect} allocates {', '.join(names)}")


def _amount(member: str, value: Any, read: Callable[[Any], Decimal]) -> Decimal:  # noqa: ANN401 (JSON)
    try:
        found = read(value)
    except ValueError as err:
        raise refused_member(f"amounts.{member[:80]}", str(err)) from err
    if found < 0:
        raise refused_member(f"amounts.{member[:80]}", "an amount is not negative")
    return found


def _quantity(value: Any) -> Decimal:  # noqa: ANN401 (JSON)
    if not isinstance(value, str):
        return amount(value)
    found = quantity(value)
    if found is None:
        raise ValueError("a quantity is a number with a suffix, such as 500m or 4Gi")
    return found
