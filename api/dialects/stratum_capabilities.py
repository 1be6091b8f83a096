"""What kinds of labels Stratum's nodes have, and what becomes of each (floor 3, pure).

The kind of a key is declared here and never guessed from a value. `topology.*` and `capability.*` are the
platform's; any other key is the operator's and is left alone. A key that is absent was not reported: that is
neither `0` nor `false`.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import TYPE_CHECKING, Literal

from projections.state import NodeState

if TYPE_CHECKING:
    from collections.abc import Mapping

CAPABILITY, TOPOLOGY = "capability.", "topology."
ZONE_LABEL = "topology.az"
COUNTABLE = frozenset({"capability.net.sriov_vfs", "capability.mem.hugepages_1g"})
COUNTABLE_BELOW = ("capability.gpu.", "capability.accel.")
"""Whatever model stands behind it is counted; a new one is data."""
BOOLEAN = frozenset(
    {
        "capability.gpu.present",
        "capability.mem.ecc",
        "capability.sec.tpm",
        "capability.virt.nested",
        "capability.host.binaries_stale",
        "capability.host.dev_mode",
    }
)
FORMER = frozenset({"hasGpu", "cpuModel", "migrationTransport"})
"""What keys of the platform were called before they had a prefix; they are published no more."""

Kind = Literal["countable", "boolean", "descriptive"]
_WHOLE = re.compile(r"[0-9]{1,18}")


def kind(key: str) -> Kind:
    """Return how a key is matched; `descriptive` is compared for equality and consumed by nothing."""
    if key in BOOLEAN:
        return "boolean"
    is_model = any(key.startswith(prefix) and key != prefix for prefix in COUNTABLE_BELOW)
    return "countable" if key in COUNTABLE or is_model else "descriptive"


def read(said: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """Return what a node may say of itself, and what was wrong with the rest, in words.

    A value that its kind does not have counts as not reported. Where a machine stands is not its own to say.
    """
    kept: dict[str, str] = {}
    findings: list[str] = []
    for key, value in said.items():
        if key.startswith(TOPOLOGY) or key in FORMER:
            continue
        match kind(key):
            case "countable" if not _WHOLE.fullmatch(value):
                findings.append(f"{key[:200]}: {value[:80]!r} is no whole number")
            case "boolean" if value not in ("true", "false"):
                findings.append(f"{key[:200]}: {value[:80]!r} is neither true nor false")
            case _:
                kept[key] = value
    return kept, sorted(findings)


def counted(labels: Mapping[str, str]) -> dict[str, Decimal]:
    """Return the totals of what is countable, by resource: the key without its prefix."""
    return {
        key.removeprefix(CAPABILITY): Decimal(value)
        for key, value in labels.items()
        if kind(key) == "countable" and _WHOLE.fullmatch(value)
    }


def published(state: NodeState) -> dict[str, str]:
    """Return the labels of a node: declared ones lie over reported ones, its zone over everything."""
    labels = {key: value for key, value in state.effective_labels.items() if key != ZONE_LABEL}
    return {**labels, ZONE_LABEL: state.zone} if state.zone else labels


def committed(state: NodeState) -> dict[str, int]:
    """Return how many units of each countable key are handed out; a key without any is missing."""
    sums: dict[str, Decimal] = {}
    for given in state.standing_allocations:
        for resource, amount in given.amounts.items():
            key = CAPABILITY + resource
            if kind(key) == "countable":
                sums[key] = sums.get(key, Decimal(0)) + amount
    return {key: int(held) for key, held in sorted(sums.items()) if held > 0}
