"""Caravanserai's `Node`: read from bodies, made facts, shown from the projection (floor 3, pure).

`spec`, labels and annotations are what people declare, so they become operators' facts; the hostname and what
beats tell of the network and the capacity are the node's own report. `status.state` is nobody's to send.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from api.dialects.caravanserai_schema import (
    API_VERSION,
    DRAINS,
    KIND,
    NETWORK_TEXTS,
    NOT_READY,
    READY,
    STATES,
)
from api.dialects.quantities import quantity
from api.dialects.reading import Members
from api.dialects.registration import Report, attributes
from api.dialects.rules import CARAVANSERAI
from events.facts import AnnotationsSet, Cordoned, FactData, LabelsSet, Resource, Uncordoned
from events.treatments import MAX_LABEL_BYTES
from projections.derive import derive
from projections.evolve_operator import CORDONED, DRAINING, MAINTENANCE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from projections.heartbeats import Heartbeat
    from projections.state import NodeState

RESOURCES = {"cpu": "cpu", "memory": "memory", "disk": "disk", "storage": "disk", "ephemeral-storage": "disk"}
"""What the dialect calls a resource, and what we do; other names stay as they are."""

NEVER = ("0001-01-01T00:00:00Z", "")
"""How a Go program spells a time that was not set."""
_REVISION, _REPORTED = "updatedAt", "state"


@dataclass(frozen=True, slots=True)
class Declared:
    """What a body declares of a node, as a whole."""

    hostname: str
    is_unschedulable: bool
    labels: dict[str, str]
    annotations: dict[str, str]


@dataclass(frozen=True, slots=True)
class Beat:
    """What a heartbeat tells; what it does not tell is empty."""

    state: str
    network: dict[str, Any]
    capacity: dict[str, str]
    allocatable: dict[str, str]


def read_node(body: Members, *, name_pattern: re.Pattern[str] | None) -> tuple[str, Declared]:
    """Return the name and what the body declares; raise Refusal. Without a pattern the name may be absent."""
    body.needed_text("apiVersion", choices=[API_VERSION])
    body.needed_text("kind", choices=[KIND])
    if name_pattern is None:
        metadata = body.inner("metadata") or Members({}, faults=body.faults)
        name = metadata.text("name") or ""
    else:
        metadata = body.needed_inner("metadata")
        name = metadata.needed_text("name", pattern=name_pattern)
    labels, annotations = _declared(metadata, "labels"), _declared(metadata, "annotations")
    spec = body.inner("spec") or Members({}, faults=body.faults)
    hostname, is_unschedulable = spec.text("hostname"), spec.flag("unschedulable")
    body.done()
    return name, Declared(hostname or "", bool(is_unschedulable), labels or {}, annotations or {})


def read_beat(body: Members) -> Beat:
    """Return what a heartbeat tells; raise Refusal."""
    state = body.text("state") or ""
    if state and state not in STATES:
        body.fault("state", f"{state[:80]!r} is none of {', '.join(STATES)}")
    network: dict[str, Any] = {}
    if (said := body.inner("network")) is not None:
        network = {name: said.text(name) for name in NETWORK_TEXTS} | {"agentPort": said.integer("agentPort")}
        network["throughput"] = _throughput(said)
    capacity, allocatable = body.texts("capacity"), body.texts("allocatable")
    body.done()
    return Beat(
        state,
        {name: value for name, value in network.items() if value},
        capacity or {},
        allocatable or {},
    )


def report(name: str, hostname: str, told: Mapping[str, Any]) -> Report:
    """Return what a node says of itself, in our words; `told` are its attributes."""
    network = told.get("network", {})
    capacity, allocatable = told.get("capacity", {}), told.get("allocatable", {})
    resources: dict[str, Resource] = {}
    for native in {**capacity, **allocatable}:
        total, left = quantity(capacity.get(native, "")), quantity(allocatable.get(native, ""))
        total = left if total is None else total
        kept = total - left if total is not None and left is not None else None
        resources[RESOURCES.get(native, native)] = Resource(total=total, reserved=kept)
    return Report(
        native_id=name,
        attributes=told,
        hostname=hostname or None,
        addresses=[address for address in (network.get("ip"), network.get("dnsName")) if address],
        resources=resources,
    )


def merged(state: NodeState, beat: Beat) -> dict[str, Any]:
    """Return the attributes of a node after a beat: the network member by member, amounts as a whole.

    The state is the agent's own word, kept while it is another one than that all is well.
    """
    told = dict(attributes(state))
    if beat.state == READY:
        told.pop(_REPORTED, None)
    elif beat.state:
        told[_REPORTED] = beat.state
    if beat.network:
        told["network"] = {**told.get("network", {}), **beat.network}
    for member, amounts in (("capacity", beat.capacity), ("allocatable", beat.allocatable)):
        if amounts:
            told[member] = amounts
    return told


def declarations(state: NodeState | None, wanted: Declared, *, request_id: str) -> list[FactData]:
    """Return the operators' facts that make a node what is declared; None of it where it is so already."""
    labels = {} if state is None else state.effective_labels
    annotations = {} if state is None else state.effective_annotations
    is_cordoned = False if state is None else is_held(state, CORDONED)
    by: dict[str, Any] = {"actor": CARAVANSERAI, "request_id": request_id}
    facts: list[FactData] = []
    if changes := _changes(labels, wanted.labels):
        facts.append(LabelsSet(labels=changes, **by))
    if changes := _changes(annotations, wanted.annotations):
        facts.append(AnnotationsSet(annotations=changes, **by))
    if wanted.is_unschedulable and not is_cordoned:
        facts.append(Cordoned(owner=CARAVANSERAI, reason="spec.unschedulable", **by))
    elif is_cordoned and not wanted.is_unschedulable:
        facts.append(Uncordoned(owner=CARAVANSERAI, **by))
    return facts


def revised(told: Mapping[str, Any], *, now: datetime) -> dict[str, Any]:
    """Return the attributes of a node whose declaration changes now."""
    return {**told, _REVISION: now.isoformat()}


def is_held(state: NodeState, kind: str) -> bool:
    """Say whether this dialect holds a node."""
    return any(hold.kind == kind and hold.owner == CARAVANSERAI for hold in state.standing_holds)


def node(state: NodeState, beat: Heartbeat | None, *, believes_beats: bool) -> dict[str, Any]:
    """Return a node as the dialect shows it. `beat` is its last heartbeat, of whichever boot.

    With `believes_beats`, a node that says of itself that it is not ready is shown so.
    """
    told, created = attributes(state), state.registered_at
    if beat is not None and created is not None and beat.last_heartbeat_at < created:
        beat = None  # of an earlier incarnation
    metadata: dict[str, Any] = {"name": (state.dialect or {}).get("native_id")}
    metadata |= {"labels": state.effective_labels} if state.effective_labels else {}
    metadata |= {"annotations": state.effective_annotations} if state.effective_annotations else {}
    changed = _time(told.get(_REVISION))
    is_later = changed is not None and created is not None and changed > created
    metadata |= {"createdAt": created, "updatedAt": changed if is_later else created}
    spec: dict[str, Any] = {"hostname": state.hostname} if state.hostname else {}
    spec["unschedulable"] = any(hold.kind in (CORDONED, MAINTENANCE) for hold in state.standing_holds)
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": metadata,
        "spec": spec,
        "status": _status(state, beat, told, believes_beats=believes_beats),
    }


def _status(
    state: NodeState, beat: Heartbeat | None, told: Mapping[str, Any], *, believes_beats: bool
) -> dict[str, Any]:
    liveness = derive(state).liveness
    is_heard = liveness == "alive" or (
        liveness == "pending" and beat is not None and beat.boot_id == state.boot_id
    )
    drains = any(hold.kind == DRAINING for hold in state.standing_holds)
    is_ready = is_heard and not (believes_beats and told.get(_REPORTED) == NOT_READY)
    shown: dict[str, Any] = {"state": DRAINS if drains else READY if is_ready else NOT_READY}
    for member in ("network", "capacity", "allocatable"):
        if told.get(member):
            shown[member] = told[member]
    if beat is not None:
        shown["lastHeartbeat"] = beat.last_heartbeat_at
    if is_heard or liveness == "lost":
        condition = {
            "type": "Ready",
            "status": "True" if is_heard else "False",
            "reason": "AgentReady" if is_heard else "HeartbeatTimeout",
        }
        since = state.liveness_since
        shown["conditions"] = [condition if since is None else {**condition, "lastTransitionTime": since}]
    return shown


def _changes(known: Mapping[str, str], wanted: Mapping[str, str]) -> dict[str, str | None]:
    changes: dict[str, str | None] = {key: None for key in known if key not in wanted}
    changes |= {key: value for key, value in wanted.items() if known.get(key) != value}
    return changes


def _declared(metadata: Members, name: str) -> dict[str, str] | None:
    """Return texts that operators' facts hold whole; longer ones would be cut short there."""
    found = metadata.texts(name)
    for key, value in (found or {}).items():
        if max(len(key.encode(errors="replace")), len(value.encode(errors="replace"))) > MAX_LABEL_BYTES:
            metadata.fault(f"{name}.{key}", f"keys and values have at most {MAX_LABEL_BYTES} bytes")
    return found


def _throughput(network: Members) -> dict[str, Any] | None:
    said = network.inner("throughput")
    if said is None or said.values.get("lastTestTime", "") in (*NEVER, None):
        return None
    return said.values


def _time(text: object) -> datetime | None:
    return datetime.fromisoformat(text) if isinstance(text, str) else None
