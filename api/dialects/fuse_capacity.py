"""What a host has (floor 3, pure): what is declared, what its agent answers, and what comes of the two.

The table: an agent that rejects the token fails the registration; one that cannot be asked fails it too,
unless everything that only it could tell is declared; one that answers fills what is not declared.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, assert_never

from api.dialects.reading import Members, read_members
from api.dialects.refusal import Refusal
from events.facts import MAX_COUNT

MIB, GIB = 2**20, 2**30
# An "MB" and a "GB" of the dialect: its agents measure in binary units.

FIRECRACKER, QEMU = "firecracker", "qemu"
BACKENDS = (FIRECRACKER, QEMU)
ARCHITECTURES = {"amd64": "amd64", "x86_64": "amd64", "arm64": "arm64", "aarch64": "arm64"}
MIG_PROFILE = re.compile(r"[1-7]g\.[0-9]+gb(\+me)?")
MOST = {"cpus": MAX_COUNT, "ram_mb": MAX_COUNT // MIB, "storage_gb": MAX_COUNT // GIB, "vm_count": MAX_COUNT}
"""How much of each there can be: in our units it has to fit 64 bits."""

PROBED = ("cpus", "ram_mb", "storage_gb")
MAX_TEXT = 256
DEVICE_TEXTS = (
    "uuid", "model", "pci_bus_id", "driver_version", "cuda_version", "compute_cap", "mig_mode", "iommu_group",
)  # fmt: skip
INSTANCE_TEXTS = ("uuid", "profile", "kind", "parent_gpu_uuid")


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """What is declared, or what is resolved. 0 and "" are not declared; then they are what the host has."""

    cpus: int = 0
    ram_mb: int = 0
    storage_gb: int = 0
    vm_count: int = 0
    gpus: int = 0
    gpu_kind: str = ""
    arch: str = ""
    mig_profiles: Mapping[str, int] = field(default_factory=dict)

    def members(self) -> dict[str, Any]:
        """Return the members of a `HostCapacity`: the four numbers always, others that say something."""
        shown: dict[str, Any] = {name: getattr(self, name) for name in (*PROBED, "vm_count")}
        for name in ("gpus", "gpu_kind", "arch"):
            if value := getattr(self, name):
                shown[name] = value
        if self.mig_profiles:
            shown["mig_profiles"] = dict(self.mig_profiles)
        return shown


@dataclass(frozen=True, slots=True)
class Answered:
    """The agent answered; `members` are those of its answer that are known, as JSON."""

    members: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Rejected:
    """The agent rejects the token."""


@dataclass(frozen=True, slots=True)
class Failed:
    """The agent could not be asked. `why` are a few words, the same ones for the same cause."""

    why: str


Outcome = Answered | Rejected | Failed


@dataclass(frozen=True, slots=True)
class Resolved:
    """What a host has, and what is worth saying about it."""

    capacity: Capacity
    warnings: list[str]


def read_answer(body: bytes, *, token: str) -> Outcome:
    """Return what an agent's answer says; Failed for one that is no capacity, or that holds the token."""
    try:
        read = read_members(body, is_null_missing=True)
        told = _told(read)
        read.done()
    except Refusal:
        return Failed("the answer is no capacity")
    if token and token in json.dumps(told, ensure_ascii=False):
        return Failed("the answer repeats the token")
    return Answered(told)


def resolve(declared: Capacity, outcome: Outcome, *, backend: str, url: str) -> Resolved:
    """Return what a host has by what is declared and what its agent says; raise Refusal."""
    match outcome:
        case Rejected():
            raise Refusal(
                "upstream",
                f"host agent at {url} rejected the token: it has to be the agent's own, not this API's",
                word="unauthorized",
            )
        case Failed(why=why):
            if any(getattr(declared, name) <= 0 for name in PROBED):
                raise Refusal(
                    "upstream",
                    f"could not probe {url} ({why}), and cpus, ram_mb and storage_gb are not all declared",
                    word="internal",
                )
            warning = f"could not verify host agent at {url} ({why}); registering with declared capacity"
            resolved = Resolved(declared, [warning])
        case Answered(members=told):
            resolved = _filled(declared, told, backend)
        case unreachable:
            assert_never(unreachable)
    if any(getattr(resolved.capacity, name) <= 0 for name in PROBED):
        raise Refusal(
            "invalid",
            "cpus, ram_mb, storage_gb and vm_count must be positive: "
            "declare what the host agent does not report",
        )
    return resolved


def _filled(declared: Capacity, told: Mapping[str, Any], backend: str) -> Resolved:
    warnings: list[str] = []
    numbers: dict[str, int] = {}
    for name in (*PROBED, "gpus"):
        own, probed = getattr(declared, name), told.get(name, 0)
        numbers[name] = own if own > 0 else probed
        if own > probed > 0:
            warnings.append(f"declared {name} ({own}) exceeds probed host capacity ({probed})")
    kind, probed_kind = declared.gpu_kind, told.get("gpu_kind", "")
    if kind and probed_kind and kind != probed_kind:
        warnings.append(
            f"declared gpu_kind ({json.dumps(kind)}) differs from "
            f"probed host gpu_kind ({json.dumps(probed_kind)})"
        )
    kind, profiles = kind or probed_kind, declared.mig_profiles or told.get("mig_profiles", {})
    if backend == FIRECRACKER:
        if numbers["gpus"]:
            warnings.append(f"probed gpus ({numbers['gpus']}) are not used: backend {FIRECRACKER} has none")
        numbers["gpus"], kind, profiles = 0, declared.gpu_kind, {}
    arch = told.get("arch", "")
    if declared.arch and arch and declared.arch != arch:
        raise Refusal("invalid", f"declared arch ({declared.arch}) contradicts probed host arch ({arch})")
    return Resolved(
        Capacity(
            cpus=numbers["cpus"],
            ram_mb=numbers["ram_mb"],
            storage_gb=numbers["storage_gb"],
            vm_count=declared.vm_count,
            gpus=numbers["gpus"],
            gpu_kind=kind,
            arch=declared.arch or arch,
            mig_profiles=profiles,
        ),
        warnings,
    )


def _told(read: Members) -> dict[str, Any]:
    """Return the known members of an agent's answer that say something."""
    told: dict[str, Any] = {name: read.integer(name, minimum=0, maximum=MOST[name]) for name in PROBED}
    told["gpus"] = read.integer("gpus", minimum=0)
    told["gpu_kind"] = _short(read, "gpu_kind")
    arch = read.text("arch") or ""
    if arch and arch not in ARCHITECTURES:
        read.fault("arch", "is one of amd64, arm64")
    told["arch"] = ARCHITECTURES.get(arch)
    told["gpu_devices"] = [_device(one) for one in read.objects("gpu_devices") or []]
    told["mig_instances"] = [
        _saying({name: _short(one, name) for name in INSTANCE_TEXTS})
        for one in read.objects("mig_instances") or []
    ]
    profiles = read.inner("mig_profiles")
    if profiles is not None:
        counts = {name: profiles.integer(name, minimum=0) for name in profiles.names()}
        told["mig_profiles"] = {
            name.lower(): count
            for name, count in counts.items()
            if count and MIG_PROFILE.fullmatch(name.lower())
        }
    return {name: value for name, value in told.items() if value is not None and value not in ("", [], {})}


def _device(one: Members) -> dict[str, Any]:
    read: dict[str, Any] = {name: _short(one, name) for name in DEVICE_TEXTS}
    read["memory_mb"] = one.integer("memory_mb", minimum=0, maximum=MOST["ram_mb"])
    read["mig_capable"] = one.flag("mig_capable")
    return _saying(read)


def _short(read: Members, name: str) -> str | None:
    text = read.text(name)
    if text is not None and len(text) > MAX_TEXT:
        read.fault(name, f"has at most {MAX_TEXT} characters")
    return text


def _saying(read: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in read.items() if value not in (None, "")}
