"""smolfleet's `NodeInfo`: read from a body, made a report, shown from the projection (floor 3, pure).

The registration keeps the members as the node spelled them, and answers are made of those. What the node may
only report but not decide (`status`, `registeredAt`, `lastHeartbeatAt`, `available*` once work is allocated)
is shown as the projection has it.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

from api.dialects.reading import Members
from api.dialects.registration import Report, attributes
from api.json_text import number
from events.facts import MAX_COUNT, Resource
from projections.capacity import capacity
from projections.derive import OPEN, derive

if TYPE_CHECKING:
    from collections.abc import Mapping

    from projections.heartbeats import Heartbeat
    from projections.state import NodeState

MIB, GIB = 2**20, 2**30
# A "Mb" and a "Gb" of the dialect: its runtime sizes memory in binary units.

COUNTED = {"Cpus": ("cpu", 1), "MemoryMb": ("memory", MIB), "DiskGb": ("disk", GIB)}
"""What the dialect counts: the end of a member's name, our resource, and how many of our units it is."""

USED = {f"used{name}": unit for name, unit in COUNTED.items()}
TEXTS = ("address", "smolvmAddress", "status")
NUMBERS = tuple(f"{which}{name}" for which in ("total", "available") for name in COUNTED)
RUNTIME = "smolvm"
READY, DRAINING, UNREACHABLE = "ready", "draining", "unreachable"

CREDENTIAL, REVOKED = "smolfleet/credential", "revoked"
"""The annotation that says that a node's credential is revoked."""

MEASURED_BEFORE = "measuredBefore"
"""The member of a registration that says which heartbeats its own `used*` are newer than: up to this one."""

Info = dict[str, Any]
"""Members of a `NodeInfo` as a node reported them."""

_COUNT = {"type": "integer", "minimum": 0, "maximum": MAX_COUNT}
PROPERTIES: dict[str, Any] = {
    "id": {"type": "string", "minLength": 1},
    **{name: {"type": "string"} for name in TEXTS},
    **dict.fromkeys(NUMBERS, _COUNT),
    "labels": {"type": "object", "additionalProperties": {"type": "string"}},
    "registeredAt": {"type": "string"},
    "lastHeartbeatAt": {"type": ["string", "null"]},
    "runtime": {"type": "string", "default": RUNTIME},
    "usedCpus": {"type": "number"},
    "usedMemoryMb": _COUNT,
    "usedDiskGb": _COUNT,
}
NODE_INFO: dict[str, Any] = {
    "type": "object",
    "required": ["id", *TEXTS, *NUMBERS, "labels", "registeredAt"],
    "properties": PROPERTIES,
}
BEAT: dict[str, Any] = {
    "type": "object",
    "properties": {
        name: schema
        for name, schema in PROPERTIES.items()
        if name not in ("id", "registeredAt", "lastHeartbeatAt")
    },
}


def read_registration(body: Members) -> tuple[str, Info]:
    """Return the id and the other members of a `NodeInfo`; raise Refusal."""
    native_id = body.needed_text("id", at_least=1)
    for name in ("labels", *TEXTS, *NUMBERS):
        if name not in body:
            body.fault(name, "is required")
    info = _reported(body)
    info["registeredAt"] = body.needed_text("registeredAt")
    if body.values.get("lastHeartbeatAt") is not None:
        body.text("lastHeartbeatAt")
    info.setdefault("runtime", RUNTIME)
    body.done()
    return native_id, info


def read_beat(body: Members) -> Info:
    """Return the members that a heartbeat reports, all optional; raise Refusal."""
    info = _reported(body)
    body.done()
    return info


def report(native_id: str, info: Info) -> Report:
    """Return what a node says of itself, in our words."""
    findings = [
        f"available{name} is {info[f'available{name}']}, above total{name}, {info[f'total{name}']}"
        for name in COUNTED
        if info[f"available{name}"] > info[f"total{name}"]
    ]
    told = {name: value for name, value in info.items() if name != "labels"}
    if findings:
        told["findings"] = findings
    return Report(
        native_id=native_id,
        attributes=told,
        addresses=[info["address"]] if info["address"] else [],
        labels=info["labels"],
        resources={
            resource: Resource(total=Decimal(info[f"total{name}"] * times))
            for name, (resource, times) in COUNTED.items()
        },
    )


def reported(state: NodeState) -> Info:
    """Return the members as the node reported them last, `labels` included."""
    told = {name: value for name, value in attributes(state).items() if name != "findings"}
    return {**told, "labels": state.labels}


def node_info(state: NodeState, beat: Heartbeat | None) -> Info:
    """Return a node as the dialect shows it. `beat` is its last heartbeat, of whichever boot."""
    told = attributes(state)
    if beat is not None and state.registered_at is not None and beat.last_heartbeat_at < state.registered_at:
        beat = None  # of an earlier incarnation
    return {
        "id": (state.dialect or {}).get("native_id"),
        "address": told.get("address"),
        "smolvmAddress": told.get("smolvmAddress"),
        "status": _status(state, beat, told),
        **{f"total{name}": told.get(f"total{name}") for name in COUNTED},
        **_available(state, told),
        "labels": state.effective_labels,
        "registeredAt": told.get("registeredAt"),
        "lastHeartbeatAt": beat.last_heartbeat_at if beat else None,
        "runtime": told.get("runtime", RUNTIME),
        **used_members(state, beat),
    }


def used_members(state: NodeState, beat: Heartbeat | None) -> dict[str, object]:
    """Return the `used*` members that are known: those of the newest report that said any."""
    if beat is not None and beat.used and beat.boot_id == state.boot_id and not _is_older(beat, state):
        return {
            name: number(used) if times == 1 else min(round(used / times), MAX_COUNT)
            for name, (resource, times) in USED.items()
            if (used := beat.used.get(resource)) is not None
        }
    told = attributes(state)
    return {name: told[name] for name in USED if name in told}


def newer_than(state: NodeState, beat: Heartbeat | None, info: Info) -> Info:
    """Return what a registration says with what it is newer than, where heartbeats measured something else.

    Without that, a registration that says nothing else anew would leave the older measurement standing.
    """
    shown = {name: Decimal(str(value)) for name, value in used_members(state, beat).items()}
    said = {name: Decimal(str(info[name])) for name in USED if name in info}
    before = attributes(state).get(MEASURED_BEFORE) if shown == said or beat is None else beat.last_seq
    return info if before is None else {**info, MEASURED_BEFORE: before}


def used_amounts(members: Mapping[str, Any]) -> dict[str, Decimal]:
    """Return measured amounts by resource, in our units."""
    return {
        resource: Decimal(str(members[name])) * times
        for name, (resource, times) in USED.items()
        if name in members
    }


def _is_older(beat: Heartbeat, state: NodeState) -> bool:
    return state.inventory_at is not None and beat.last_heartbeat_at < state.inventory_at


def _status(state: NodeState, beat: Heartbeat | None, told: Info) -> object:
    derived = derive(state)
    if derived.liveness == "lost":
        return UNREACHABLE
    if derived.intent != OPEN:
        return DRAINING
    is_heard = beat is not None and beat.boot_id == state.boot_id
    return READY if is_heard or derived.liveness == "alive" else told.get("status", READY)


def _available(state: NodeState, told: Info) -> dict[str, object]:
    """Return the `available*` members: computed where work was allocated of it, else as reported."""
    given = {name for one in state.standing_allocations for name in one.amounts}
    free = {one.resource: one.free for one in capacity(state) if one.resource in given} if given else {}
    shown: dict[str, object] = {}
    for name, (resource, times) in COUNTED.items():
        left = free.get(resource)
        # Disk is the whole host's file system, which allocations say nothing about.
        is_computed = left is not None and resource != "disk"
        shown[f"available{name}"] = (
            max(0, int(left // times)) if is_computed and left is not None else told.get(f"available{name}")
        )
    return shown


def _reported(body: Members) -> Info:
    read: Info = {name: body.text(name) for name in (*TEXTS, "runtime")}
    read |= {name: body.integer(name, minimum=0) for name in NUMBERS}
    read |= {
        "usedCpus": body.number("usedCpus"),
        "usedMemoryMb": body.integer("usedMemoryMb", minimum=0),
        "usedDiskGb": body.integer("usedDiskGb", minimum=0),
        "labels": body.texts("labels"),
    }
    return {name: value for name, value in read.items() if value is not None}
