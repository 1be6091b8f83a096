"""Which machines a simulation brings up: invented ones, or those of a file (floor 4, pure)."""

from __future__ import annotations

import csv
import random
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from events.digest import inventory_digest
from events.errors import RefusedError
from events.ids import NodeId, node_id

GIB = 1024**3
MIB = 1024**2
COLUMNS = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
ZONES = (("eu-1", "eu-1a"), ("eu-1", "eu-1b"), ("eu-1", "eu-1c"), ("us-2", "us-2a"), ("us-2", "us-2b"))


@dataclass(frozen=True, slots=True)
class Shape:
    """One kind of machine: cores, memory, disk and cards."""

    pool: str
    role: str
    cores: int
    memory_gib: int
    disk_gib: int
    cards: int = 0
    model: str = ""
    weight: int = 1


SHAPES = (
    Shape("general", "vm-host", cores=64, memory_gib=256, disk_gib=1_800, weight=45),
    Shape("general", "vm-host", cores=96, memory_gib=512, disk_gib=3_600, weight=25),
    Shape("memory", "vm-host", cores=48, memory_gib=1_024, disk_gib=1_800, weight=8),
    Shape("edge", "edge-box", cores=4, memory_gib=8, disk_gib=120, weight=12),
    Shape("gpu", "gpu-node", cores=96, memory_gib=768, disk_gib=7_200, cards=8, model="A100", weight=6),
    Shape("gpu", "gpu-node", cores=192, memory_gib=2_048, disk_gib=15_000, cards=8, model="H100"),
)


@dataclass(frozen=True, slots=True)
class SimulatedNode:
    """One machine: its id, what it registers but for `boot_id`, `seq`, `sent_at`, and the digest of that."""

    node_id: NodeId
    inventory: dict[str, Any]
    digest: str


def invented(count: int, *, prefix: str, seed: int, interval_s: float) -> Iterator[SimulatedNode]:
    """Make `count` machines of several kinds; the same seed makes the same fleet."""
    chosen = random.Random(seed)
    weights = [shape.weight for shape in SHAPES]
    digits = len(str(max(count - 1, 0)))
    for number in range(count):
        shape = chosen.choices(SHAPES, weights)[0]
        region, zone = chosen.choice(ZONES)
        name = f"{prefix}{number:0{digits}d}"
        totals = {"cpu": shape.cores, "memory": shape.memory_gib * GIB, "disk": shape.disk_gib * GIB}
        yield _node(
            name,
            totals | _cards(shape.cards, shape.model),
            interval_s=interval_s,
            region=region,
            zone=zone,
            pool=shape.pool,
            role=shape.role,
            addresses=[f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"],
        )


def from_csv(lines: Iterable[str], *, interval_s: float) -> Iterator[SimulatedNode]:
    """Make the machines of a file with the columns `sn,cpu_milli,memory_mib,gpu,model`, exactly as it says.

    Raises RefusedError, with the line, for another file.
    """
    rows = csv.DictReader(lines)
    if not set(COLUMNS) <= set(rows.fieldnames or ()):
        raise RefusedError(
            "not_a_node_list",
            "the file is not a list of nodes",
            instead=f"its first line names {', '.join(COLUMNS)}",
        )
    for row in rows:
        try:
            cpu_milli, memory_mib, cards = int(row["cpu_milli"]), int(row["memory_mib"]), int(row["gpu"])
        except (TypeError, ValueError) as err:
            raise RefusedError("not_a_node_list", f"line {rows.line_num} of the file has no numbers") from err
        # A thousandth is exact: the nearest float of n/1000 is spelled with these three places again.
        cores = cpu_milli // 1000 if cpu_milli % 1000 == 0 else cpu_milli / 1000
        totals: dict[str, float] = {"cpu": cores, "memory": memory_mib * MIB}
        yield _node(
            row["sn"], totals | _cards(cards, row["model"] or ""), interval_s=interval_s, pool="openb"
        )


def _cards(count: int, model: str) -> dict[str, int]:
    if not count:
        return {}
    return {"gpu": count} | ({f"gpu.{model}": count} if model else {})


def _node(
    name: str, totals: Mapping[str, float], *, interval_s: float, **attributes: object
) -> SimulatedNode:
    inventory: dict[str, Any] = {
        "machine_id": f"simulated-{name}",
        "hostname": name,
        "architecture": "amd64",
        "agent": {"name": "fleetfold-simulator"},
        "interval_s": interval_s,
        "labels": {"simulated": "true"},
        "resources": {resource: {"total": total} for resource, total in totals.items()},
        **attributes,
    }
    return SimulatedNode(node_id(name), inventory, inventory_digest(inventory))
