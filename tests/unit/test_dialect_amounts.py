"""Amounts in the words of a dialect, in our resources and units."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from api.dialect_amounts import UNITS, canonical
from api.dialects.rules import NAMES
from api.problems import ProblemError

MIB, GIB = 2**20, 2**30


@pytest.mark.parametrize(
    ("dialect", "amounts", "found"),
    [
        (None, {"cpu": 2.5, "gpu.a100": 1}, {"cpu": "2.5", "gpu.a100": 1}),
        (
            "smolfleet",
            {"cpus": 4, "memoryMb": 4096, "diskGb": 20},
            {"cpu": 4, "memory": 4 * GIB, "disk": 20 * GIB},
        ),
        (
            "caravanserai",
            {"cpu": "500m", "memory": "4Gi", "ephemeral-storage": "10G", "nvidia.com/gpu": 1},
            {"cpu": "0.5", "memory": 4 * GIB, "disk": 10**10, "nvidia.com/gpu": 1},
        ),
        (
            "fuse",
            {
                "cpus": 2,
                "ram_mb": 2048,
                "storage_gb": 20,
                "vm_count": 1,
                "gpus": 1,
                "mig_profiles": {"1g.5gb": 2},
            },
            {"cpu": 2, "memory": 2 * GIB, "disk": 20 * GIB, "vm": 1, "gpu": 1, "mig.1g.5gb": 2},
        ),
        ("aria-pin", {"slots": 3, "gpus": 1}, {"slot": 3, "gpu": 1}),
        (
            "stratum",
            {
                "vcpus": 8,
                "memoryBytes": GIB,
                "capability.net.sriov_vfs": 4,
                "capabilities": {"capability.gpu.x": "2"},
            },
            {"cpu": 8, "memory": GIB, "net.sriov_vfs": 4, "gpu.x": 2},
        ),
        ("fuse", {"ram_mb": 1, "memory": 5}, {"memory": MIB + 5}),
        ("fuse", {}, {}),
    ],
)
def test_a_dialects_members_become_resources(
    dialect: str | None, amounts: dict[str, Any], found: dict[str, Any]
) -> None:
    assert canonical(dialect, amounts) == {name: Decimal(held) for name, held in found.items()}


@pytest.mark.parametrize(
    ("dialect", "amounts", "says"),
    [
        ("podman", {}, "one of smolfleet, caravanserai"),
        ("fuse", {"ram": 1}, "amounts.ram: fuse allocates cpu, cpus"),
        ("stratum", {"capability.": 1}, "stratum allocates"),
        ("fuse", {"cpus": "2"}, "an amount is a JSON number"),
        ("fuse", {"cpus": True}, "an amount is a JSON number"),
        ("fuse", {"mig_profiles": 3}, "an object of amounts"),
        ("fuse", {"storage_gb": 10**27}, "between -1e28 and 1e28"),
        ("caravanserai", {"cpu": "half"}, "a number with a suffix"),
        ("caravanserai", {"cpu": "-1"}, "not negative"),
        (None, {"cpu": -1}, "not negative"),
        (None, {"cpu": None}, "an amount is a JSON number"),
        (None, {"cpu": float("nan")}, "between -1e28 and 1e28"),
    ],
)
def test_what_is_no_amount_of_a_dialect_is_refused(
    dialect: str | None, amounts: dict[str, Any], says: str
) -> None:
    with pytest.raises(ProblemError, match=says) as caught:
        canonical(dialect, amounts)

    assert caught.value.kind.code == "invalid_body"


def test_every_dialect_has_units() -> None:
    assert tuple(UNITS) == NAMES
