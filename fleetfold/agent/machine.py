"""What this machine is: identity, inventory and usage as the operating system tells them (floor 4).

Every reading is optional: what cannot be read is left out, which is "unknown" and not "zero". An inventory is
made of what changes rarely only, so that its digest changes when something happened.
"""

from __future__ import annotations

import hashlib
import hmac
import platform
import secrets
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from ipaddress import ip_address
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from fleetfold.agent.nvidia import Gpu, gpus

MACHINE_ID_FILES = ("etc/machine-id", "var/lib/dbus/machine-id")
DMI_FILE = "sys/class/dmi/id/product_uuid"
BOOT_ID_FILE = "proc/sys/kernel/random/boot_id"
# In the order asked. The DMI one needs root and is the same in many cheap machines, so it comes last.
BOGUS_IDS = frozenset({"", "uninitialized", "03000200-0400-0500-0006-000700080009"})
APPLICATION = b"fleetfold.machine"
# machine-id(5): the id itself is not for strangers; what leaves the machine is derived from it and this text.
INNER_INTERFACES = ("docker", "br-", "veth", "virbr", "cni", "flannel", "cali", "lxc", "podman")
# Networks inside the machine: the same addresses are in every machine that runs containers.
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "arm64": "arm64", "AMD64": "amd64"}
_THOUSANDTH = Decimal("0.001")


@dataclass(frozen=True, slots=True)
class Placement:
    """What a person says about this machine, because the machine cannot know it."""

    region: str | None = None
    zone: str | None = None
    pool: str | None = None
    role: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)


class Disk(NamedTuple):
    """How large one disk is, and how much of it is used."""

    total_bytes: int
    used_bytes: int


def machine_id(root: Path = Path("/")) -> str | None:
    """Return an id of this installation or hardware, or None; a reboot keeps it, a replacement does not."""
    for file in (*MACHINE_ID_FILES, DMI_FILE):
        text = _read(root / file)
        if text.lower() not in BOGUS_IDS and len(set(text.replace("-", ""))) > 1:
            return hmac.new(text.lower().encode(), APPLICATION, hashlib.sha256).hexdigest()[:32]
    return None


def boot_id(root: Path = Path("/")) -> str:
    """Return a new id of one start of one agent: the kernel's boot id, if any, and random digits."""
    kernel = _read(root / BOOT_ID_FILE)
    return f"{kernel}-{secrets.token_hex(4)}" if kernel else secrets.token_hex(16)


def inventory(placement: Placement, *, interval_s: float, version: str) -> dict[str, Any]:
    """Return what this machine registers, without `boot_id`, `seq` and `sent_at`."""
    cards = gpus()
    found: dict[str, Any] = {
        "machine_id": machine_id(),
        "hostname": socket.gethostname(),
        "addresses": _addresses(),
        "region": placement.region,
        "zone": placement.zone,
        "pool": placement.pool,
        "role": placement.role,
        "architecture": _ARCHITECTURES.get(platform.machine(), platform.machine()) or None,
        "agent": {"name": "fleetfold", "version": version},
        "interval_s": interval_s,
        "labels": {"os": platform.system().lower(), "kernel": platform.release(), **placement.labels},
        "resources": _resources(cards),
        "devices": [
            {
                "id": card.uuid,
                "kind": "gpu",
                "model": card.model,
                "memory": card.memory_bytes,
                "healthy": True,
            }
            for card in cards or ()
        ],
    }
    return {name: value for name, value in found.items() if value not in (None, [], {})}


def usage() -> dict[str, int | float]:
    """Return what is in use: `cpu` in cores since the call before, `memory` and `disk` in bytes, `gpu`."""
    cores = psutil.cpu_count() or 1
    used: dict[str, int | float] = {
        "cpu": float(Decimal(psutil.cpu_percent() * cores / 100).quantize(_THOUSANDTH)),
        "memory": psutil.virtual_memory().total - psutil.virtual_memory().available,
    }
    if disks := _disks():
        used["disk"] = sum(disk.used_bytes for disk in disks)
    if busy := [card.busy for card in gpus() or () if card.busy is not None]:
        used["gpu"] = float(Decimal(sum(busy)).quantize(_THOUSANDTH))
    return used


def _resources(cards: tuple[Gpu, ...] | None) -> dict[str, dict[str, Any]]:
    totals: dict[str, int] = {
        "cpu": psutil.cpu_count() or 0,
        "memory": psutil.virtual_memory().total,
        "disk": sum(disk.total_bytes for disk in _disks()),
    }
    for card in cards or ():
        totals["gpu"] = totals.get("gpu", 0) + 1
        name = f"gpu.{card.model}"
        totals[name] = totals.get(name, 0) + 1
    found: dict[str, dict[str, Any]] = {name: {"total": total} for name, total in totals.items() if total}
    if cards is None:
        found["gpu"] = {"source": "error"}  # unknown: neither zero nor gone
    return found


def _disks() -> list[Disk]:
    """Return each disk that can be read, once, however often it is mounted; the root where there is none."""
    by_device: dict[str, str] = {}
    for part in psutil.disk_partitions(all=False):
        by_device.setdefault(part.device, part.mountpoint)
    found = [disk for mount in by_device.values() if (disk := _disk(mount)) is not None]
    return found or [disk for disk in [_disk("/")] if disk is not None]


def _disk(mount: str) -> Disk | None:
    """Return a disk by a folder that it is mounted on; None for a file, or what this user may not see."""
    try:
        if not Path(mount).is_dir():
            return None
        found = psutil.disk_usage(mount)
    except OSError:
        return None
    return Disk(found.total, found.used)


def _addresses() -> list[str]:
    """Return the addresses at which others can reach this machine, in a stable order."""
    up = {
        name
        for name, state in psutil.net_if_stats().items()
        if state.isup and not name.startswith(INNER_INTERFACES)
    }
    found: set[str] = set()
    for name, addresses in psutil.net_if_addrs().items():
        for entry in addresses if name in up else ():
            if entry.family in {socket.AF_INET, socket.AF_INET6}:
                address = ip_address(entry.address.partition("%")[0])
                if not (address.is_loopback or address.is_link_local or address.is_unspecified):
                    found.add(str(address))
    return sorted(found, key=lambda text: (ip_address(text).version, ip_address(text).packed))


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return ""
