"""Fuse's hosts: a registration made a report, `HostInfo` shown from the projection (floor 3, pure).

The registration keeps the resolved capacity, what was declared of it and what the host's agent answered, so
that a replay asks nobody. Of the agent's token it keeps the fingerprint alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from decimal import ROUND_CEILING, Decimal
from typing import TYPE_CHECKING, Any

from api.dialects.calls import fingerprint
from api.dialects.fuse_capacity import (
    FIRECRACKER,
    GIB,
    MIB,
    QEMU,
    Answered,
    Failed,
    Outcome,
    Resolved,
)
from api.dialects.fuse_registration import Declared
from api.dialects.fuse_url import HostUrl
from api.dialects.registration import Report, attributes
from api.dialects.rules import FUSE
from events.facts import Device, FactData, MaintenanceLeft, Resource, Uncordoned, Undrained
from projections.evolve_operator import CORDONED, DRAINING, MAINTENANCE

if TYPE_CHECKING:
    from datetime import datetime

    from projections.heartbeats import Heartbeat
    from projections.state import NodeState

COUNTED = {"cpus": ("cpu", 1), "ram_mb": ("memory", MIB), "storage_gb": ("disk", GIB), "vm_count": ("vm", 1)}
"""What every host counts: the member, our resource, and how many of our units one is."""

GPUS, MIG = "gpu", "mig."
ACTIVE, IS_CORDONED, DRAINS = "active", "cordoned", "draining"
RELEASES = {CORDONED: Uncordoned, DRAINING: Undrained, MAINTENANCE: MaintenanceLeft}


def report(declared: Declared, outcome: Outcome, resolved: Resolved) -> Report:
    """Return what the log keeps of a registration."""
    capacity, own = resolved.capacity, declared.capacity
    told: dict[str, Any] = {
        "url": declared.url.text,
        "backend": declared.backend,
        "capacity": capacity.members(),
        "declared": {name: value for name, value in own.members().items() if value},
        "probe": _probe(outcome),
    }
    if declared.token:
        told["token"] = fingerprint(declared.token)
    if resolved.warnings:
        told["findings"] = resolved.warnings
    return Report(
        native_id=declared.native_id,
        attributes=told,
        addresses=_addresses(declared.url),
        region=declared.region or None,
        architecture=capacity.arch or None,
        labels=declared.labels,
        resources=_resources(declared, resolved, is_answered=isinstance(outcome, Answered)),
        devices=list(_devices(told)),
    )


def token_fingerprint(state: NodeState) -> str | None:
    """Return the fingerprint of the token with which a host was registered, None without one."""
    found = attributes(state).get("token")
    return found if isinstance(found, str) else None


def is_held(state: NodeState, kind: str) -> bool:
    """Say whether this dialect holds a node."""
    return any(hold.kind == kind and hold.owner == FUSE for hold in state.standing_holds)


def releases_of_sticky(state: NodeState, *, request_id: str) -> list[FactData]:
    """Return the facts that end the holds which another incarnation would keep."""
    return [
        RELEASES[hold.kind](owner=hold.owner, actor=FUSE, reason="registered again", request_id=request_id)
        for hold in state.standing_holds
        if hold.sticky
    ]


def after_registering(state: NodeState, declared: Declared) -> list[str]:
    """Return what a registration did not do, or cannot know, in sentences."""
    said = []
    word = _state(state)
    if word != ACTIVE:
        said.append(f"host stays {word}: a registration does not change who holds it")
    if declared.capacity.storage_gb <= 0 and _allocated(state)["storage_gb"]:
        said.append("storage_gb is what was free while VMs held some of it: declare it")
    return said


def host_info(state: NodeState, beat: Heartbeat | None, *, warnings: Sequence[str] = ()) -> dict[str, Any]:
    """Return a host as the dialect shows it. `beat` is the last contact that said nothing new."""
    told = attributes(state)
    shown: dict[str, Any] = {"id": (state.dialect or {}).get("native_id"), "url": told.get("url")}
    if state.region:
        shown["region"] = state.region
    shown |= {"state": _state(state), "backend": told.get("backend", FIRECRACKER)}
    if state.effective_labels:
        shown["labels"] = state.effective_labels
    capacity = {**dict.fromkeys(COUNTED, 0), **told.get("capacity", {})}
    for member in ("gpu_devices", "mig_instances"):
        if listed := _listed(told, member):
            capacity[member] = listed
    shown |= {
        "capacity": capacity,
        "allocated": _allocated(state),
        "last_seen": _last_seen(state, beat),
        "created_at": state.registered_at,
        "updated_at": state.changed_at,
    }
    if warnings:
        shown["warnings"] = list(warnings)
    return shown


def _probe(outcome: Outcome) -> dict[str, Any]:
    if isinstance(outcome, Answered):
        return {"outcome": "answered", "answer": dict(outcome.members)}
    assert isinstance(outcome, Failed), "a host whose agent rejects the token is not registered"
    return {"outcome": "failed", "why": outcome.why}


def _addresses(url: HostUrl) -> list[str]:
    """Return the address that only this host should have: none for one on this machine, or behind a path."""
    is_local = url.address is not None and url.address.is_loopback
    return (
        []
        if is_local or url.path
        else [f"[{url.name}]:{url.port}" if ":" in url.name else f"{url.name}:{url.port}"]
    )


def _resources(declared: Declared, resolved: Resolved, *, is_answered: bool) -> dict[str, Resource]:
    capacity, own = resolved.capacity, declared.capacity
    found = {
        resource: Resource(
            total=Decimal(getattr(capacity, name) * times),
            source="declared" if name == "vm_count" or getattr(own, name) > 0 else "probed",
        )
        for name, (resource, times) in COUNTED.items()
    }
    if declared.backend == QEMU and (capacity.gpus or is_answered):
        found[GPUS] = Resource(total=Decimal(capacity.gpus), source="declared" if own.gpus else "probed")
    for profile, count in capacity.mig_profiles.items():
        source = "declared" if own.mig_profiles else "probed"
        found[f"{MIG}{profile}"] = Resource(total=Decimal(count), source=source)
    return found


def _devices(told: Mapping[str, Any]) -> Iterator[Device]:
    seen = set()
    for one in _listed(told, "gpu_devices"):
        name = one.get("uuid") or one.get("pci_bus_id")
        if name and name not in seen:
            seen.add(name)
            memory = one.get("memory_mb")
            yield Device(
                id=name,
                kind=GPUS,
                model=one.get("model"),
                memory=None if memory is None else Decimal(memory * MIB),
            )


def _listed(told: Mapping[str, Any], member: str) -> list[dict[str, Any]]:
    """Return what the agent listed, which only hosts of the backend qemu show."""
    if told.get("backend") != QEMU:
        return []
    listed: list[dict[str, Any]] = told.get("probe", {}).get("answer", {}).get(member, [])
    return listed


def _allocated(state: NodeState) -> dict[str, Any]:
    """Return what VMs hold. Whoever says no number of VMs is one; parts of a unit count as a whole."""
    given = state.standing_allocations
    sums: dict[str, Decimal] = {}
    for one in given:
        for resource, amount in {"vm": Decimal(1), **one.amounts}.items():
            sums[resource] = sums.get(resource, Decimal(0)) + amount
    shown: dict[str, Any] = {
        name: _whole(sums.get(resource, Decimal(0)) / times) for name, (resource, times) in COUNTED.items()
    }
    if gpus := _whole(sums.get(GPUS, Decimal(0))):
        shown["gpus"] = gpus
    profiles = {
        name.removeprefix(MIG): _whole(amount) for name, amount in sums.items() if name.startswith(MIG)
    }
    if any(profiles.values()):
        shown["mig_profiles"] = {name: count for name, count in profiles.items() if count}
    return shown


def _whole(amount: Decimal) -> int:
    return int(amount.to_integral_value(ROUND_CEILING))


def _state(state: NodeState) -> str:
    kinds = {hold.kind for hold in state.standing_holds}
    return DRAINS if DRAINING in kinds else IS_CORDONED if kinds else ACTIVE


def _last_seen(state: NodeState, beat: Heartbeat | None) -> datetime | None:
    """Return the later of the last registration that said something new and the last contact since."""
    told_at = state.inventory_at
    if beat is None or beat.boot_id != state.boot_id or told_at is None:
        return told_at
    return max(told_at, beat.last_heartbeat_at)
