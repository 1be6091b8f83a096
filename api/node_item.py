"""A node as answers show it: its state, what follows from it, and its last heartbeat (floor 3, pure)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from api.json_text import number
from projections.capacity import ResourceCapacity, capacity
from projections.conditions import conditions
from projections.derive import derive

if TYPE_CHECKING:
    from projections.heartbeats import Heartbeat
    from projections.judging import Outlook
    from projections.parts import Allocation, Device, Hold
    from projections.state import NodeState


def node_item(
    state: NodeState,
    beat: Heartbeat | None,
    outlook: Outlook | None = None,
    *,
    shared: tuple[str, ...] = (),
) -> dict[str, object]:
    """Return a node's members as `api.node_models.Node` documents them.

    `shared` are the conditions that it has by claiming what another node does.
    A resource that only a heartbeat names has no capacity, and is not listed.
    """
    used = beat.used if beat else {}
    resources = capacity(state)
    derived = derive(state, resources)
    dialect = state.dialect or {}
    # The evaluator learns a moment later than the projection that a verdict was stored.
    is_suspect = outlook is not None and outlook.is_suspect and state.liveness in ("alive", "pending")
    return {
        "id": state.node_id,
        "state": derived.state,
        "liveness": state.liveness,
        "liveness_since": state.liveness_since,
        "suspect": is_suspect,
        "expected_lost_at": outlook.expected_lost_at if is_suspect and outlook else None,
        "intent": derived.intent,
        "schedulable": derived.schedulable,
        "reasons": derived.reasons,
        "region": state.region,
        "zone": state.zone,
        "pool": state.pool,
        "role": state.role,
        "hostname": state.hostname,
        "display_name": state.effective_display_name,
        "architecture": state.architecture,
        "agent": state.agent._asdict() if state.agent else None,
        "labels": state.effective_labels,
        "annotations": state.effective_annotations,
        "addresses": state.addresses,
        "conditions": conditions(state, derived, shared=shared, beat=beat),
        "holds": [hold_item(hold) for hold in state.standing_holds],
        "allocations": [_allocation(given) for given in state.standing_allocations],
        "leaving": state.leaving._asdict() if state.leaving else None,
        "boot_id": state.boot_id,
        "machine_id": state.machine_id,
        "incarnation": state.incarnation,
        "conflict": state.conflict,
        "dialect": dialect.get("name"),
        "native_id": dialect.get("native_id"),
        "interval_s": state.interval_s,
        "first_registered_at": state.first_registered_at,
        "registered_at": state.registered_at,
        "last_heartbeat_at": beat.last_heartbeat_at if beat else None,
        "inventory_at": state.inventory_at,
        "changed_at": state.changed_at,
        "retired_at": state.retired_at,
        "version": state.version,
        "resources": [resource_item(one, used.get(one.resource)) for one in resources],
        "devices": [_device(device) for device in state.devices],
        "heartbeats": heartbeats_item(beat) if beat else None,
        "warnings": state.warnings,
    }


def resource_item(one: ResourceCapacity, used: float | None) -> dict[str, object]:
    """Return a resource's members as `api.capacity_models.Resource` documents them."""
    return {
        "resource": one.resource,
        "status": one.status,
        "total": number(one.total),
        "reserved": number(one.reserved),
        "ratio": number(one.ratio),
        "allocatable": number(one.allocatable),
        "allocated": number(one.allocated),
        "free": number(one.free),
        "used": number(used),
        "last_known": number(one.last_known),
        "source": one.source,
        "flags": one.flags,
    }


def hold_item(hold: Hold) -> dict[str, object]:
    """Return a hold's members as `api.node_models.Hold` documents them."""
    return {
        "kind": hold.kind,
        "owner": hold.owner,
        "actor": hold.actor,
        "reason": hold.reason,
        "since": hold.at,
        "until": hold.until,
        "sticky": hold.sticky,
    }


def heartbeats_item(beat: Heartbeat) -> dict[str, object]:
    """Return what a node's heartbeats say as `api.node_models.Heartbeats` documents it."""
    return {
        "boot_id": beat.boot_id,
        "last_seq": beat.last_seq,
        "missed": beat.missed,
        "duplicates": beat.duplicates,
        "reordered": beat.reordered,
        "other_boot": beat.other_boot,
        "skew_ms": beat.skew_ms,
        "skewed_since": beat.skewed_since,
    }


def _allocation(given: Allocation) -> dict[str, object]:
    amounts = {resource: number(amount) for resource, amount in given.amounts.items()}
    return {"workload": given.workload, "amounts": amounts, "since": given.since}


def _device(device: Device) -> dict[str, object]:
    return {
        "id": device.device_id,
        "kind": device.kind,
        "model": device.model,
        "memory": number(device.memory),
        "healthy": device.healthy,
        "reason": device.reason,
        "since": device.since,
    }
