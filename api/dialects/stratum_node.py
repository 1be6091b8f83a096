"""Stratum's node: read from heartbeats, made a report, shown from the projection (floor 3, pure).

A heartbeat is the registration. What of it describes the machine goes into the registration, and says news
only where it differs; what its guests take and when it was sampled is measured, and goes into heartbeats.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from api.dialects import stratum_capabilities as capabilities
from api.dialects import stratum_power as power
from api.dialects import stratum_reservation as reservation
from api.dialects.reading import Members
from api.dialects.registration import Report, attributes
from api.dialects.stratum_schema import FLAGS, ROLES
from api.json_text import number
from events.facts import MAX_COUNT, Resource
from projections.derive import LOST, OPEN, derive

if TYPE_CHECKING:
    from api.dialects.rules import StratumRules
    from projections.heartbeats import Heartbeat
    from projections.state import NodeState

READY, MAINTENANCE, UNREACHABLE = "ready", "maintenance", "unreachable"
NODE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
SAMPLED = "capacity.sampled_at"
"""What heartbeats carry of a snapshot's time: seconds since 1970."""

COMMITTED = {"committedVCPUs": "cpu", "committedMemoryBytes": "memory"}
"""What guests take, by the resource of which it is measured."""
_TEXTS = ("architecture", "kvmVersion")
_COUNTS = ("totalVCPUs", "reservedVCPUs", "totalMemoryBytes", "reservedMemoryBytes", "totalDiskBytes")
_RATIOS = {"vcpuOvercommitRatio": "cpu", "memoryOvercommitRatio": "memory"}
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)", re.ASCII)
_NOBODYS_YEAR = 1
# A Go program's time that was not set.
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Said:
    """What a heartbeat says. `capacity` holds its members that describe the machine, `committed` the others.

    `claimed_at` is when it says that it was sampled, `sampled_at` what is believed of that: never the future.
    `labels` is None where detection did not run; `findings` is what of them was wrong.
    """

    hostname: str
    role: str
    region: str | None
    zone: str | None
    architecture: str
    capacity: dict[str, Any]
    ratios: dict[str, Decimal]
    committed: dict[str, int]
    claimed_at: datetime | None
    sampled_at: datetime
    labels: dict[str, str] | None
    findings: list[str]


def read_heartbeat(body: Members, *, now: datetime) -> Said:
    """Return what a heartbeat says; raise Refusal. What claims to be later than now is of now."""
    hostname = body.needed_text("hostname", at_least=1)
    role = body.needed_text("role", choices=ROLES)
    region, zone = body.text("region"), body.text("availabilityZone")
    architecture = body.needed_text("architecture")
    if type(body.values.get("capacity")) is dict:
        said = body.needed_inner("capacity")
    else:
        body.needed_inner("capacity")
        said = Members({"totalVCPUs": 0, "totalMemoryBytes": 0})  # one fault says it all
    counts = {
        name: said.needed_integer(name, minimum=0) if name.startswith("totalV") or name == "totalMemoryBytes"
        else said.integer(name, minimum=0)
        for name in _COUNTS
    }  # fmt: skip
    found: dict[str, Any] = {**counts}
    found |= {name: said.flag(name) for name in FLAGS}
    found |= {name: said.text(name) for name in _TEXTS}
    ratios = {resource: said.number(name, above=0) for name, resource in _RATIOS.items()}
    committed = {name: said.integer(name, minimum=0) for name in COMMITTED}
    claimed_at = _claimed_at(said)
    told = body.texts("capabilities")
    body.done()
    labels, findings = (None, []) if told is None else capabilities.read(told)
    return Said(
        hostname=hostname,
        role=role,
        region=region or None,
        zone=zone or None,
        architecture=architecture,
        capacity={name: value for name, value in found.items() if value is not None},
        ratios={resource: ratio for resource, ratio in ratios.items() if ratio is not None},
        committed={name: value for name, value in committed.items() if value is not None},
        claimed_at=claimed_at,
        sampled_at=now if claimed_at is None else min(claimed_at, now),
        labels=labels,
        findings=findings,
    )


def report(
    native_id: str,
    said: Said,
    *,
    known: NodeState | None,
    rules: StratumRules,
    proof: dict[str, Any] | None = None,
) -> Report:
    """Return what a node says of itself, in our words; `proof` is what of an action it proves done."""
    told: dict[str, Any] = {"capacity": said.capacity}
    labels, findings = said.labels, said.findings
    if labels is None:
        labels = {} if known is None else known.labels
        before = [] if known is None else attributes(known).get("findings", [])
        findings = before if isinstance(before, list) else []
    told |= {"findings": findings} if findings else {}
    if proof is not None:
        told[power.BOOTED] = proof
    elif known is not None:
        told |= power.kept(known)
    return Report(
        native_id=native_id,
        attributes=told,
        hostname=said.hostname,
        region=said.region or rules.default_region,
        zone=said.zone or rules.default_availability_zone,
        role=said.role,
        architecture=said.architecture,
        labels=labels,
        resources=_resources(said, labels, is_single_node=rules.is_single_node),
    )


def measured(said: Said) -> dict[str, Decimal | None]:
    """Return what a heartbeat measures, by resource."""
    used: dict[str, Decimal | None] = {
        resource: Decimal(said.committed[name])
        for name, resource in COMMITTED.items()
        if name in said.committed
    }
    return {**used, SAMPLED: _seconds(said.sampled_at)}


def measured_last(beat: Heartbeat) -> dict[str, Decimal | None]:
    """Return what a heartbeat measured, to be said again."""
    return {name: None if value is None else Decimal(repr(value)) for name, value in beat.used.items()}


def is_late(said: Said, beat: Heartbeat | None) -> bool:
    """Say whether a heartbeat was sampled before the newest one that is known."""
    newest = None if beat is None else beat.used.get(SAMPLED)
    if newest is None or said.claimed_at is None:
        return False
    return _seconds(said.claimed_at) < Decimal(repr(newest))


def record(state: NodeState, beat: Heartbeat | None, *, interval_s: float) -> dict[str, Any]:
    """Return a node as the dialect shows it; `beat` is its last heartbeat."""
    numbers = reservation.numbers(state)
    shown: dict[str, Any] = {
        "id": (state.dialect or {}).get("native_id"),
        "hostname": state.hostname,
        "displayName": state.effective_display_name,
        "role": state.role,
        "region": state.region,
        "availabilityZone": state.zone,
        "architecture": state.architecture,
        "state": _state(state),
    }
    for resource, name in (("cpu", "VCPUs"), ("memory", "MemoryBytes")):
        if resource in numbers:
            shown[f"reserved{name}"] = number(numbers[resource].reserved)
            shown[f"committable{name}"] = number(reservation.committable(numbers[resource]))
    shown |= {
        "reservationSource": reservation.source(state),
        "capacity": _capacity(state, beat),
        "capabilities": capabilities.published(state),
        "committedCapabilities": capabilities.committed(state) or None,
        "powerAction": power.shown(state, beat, interval_s=interval_s),
        "lastSeenAt": None if beat is None else beat.last_heartbeat_at,
        "createdAt": state.registered_at,
    }
    return {name: value for name, value in shown.items() if value is not None}


def _state(state: NodeState) -> str:
    derived = derive(state)
    if derived.liveness == LOST:
        return UNREACHABLE
    return READY if derived.intent == OPEN else MAINTENANCE


def _resources(said: Said, labels: dict[str, str], *, is_single_node: bool) -> dict[str, Resource]:
    told = said.capacity
    vcpus, memory_bytes = told["totalVCPUs"], told["totalMemoryBytes"]
    kept: dict[str, Decimal | None] = {
        name: None if (value := told.get(member)) is None else Decimal(value)
        for name, member in (("cpu", "reservedVCPUs"), ("memory", "reservedMemoryBytes"))
    }
    source = None
    if is_single_node:
        source = reservation.COMPUTED
        kept = dict(reservation.computed(vcpus=vcpus, memory_bytes=memory_bytes))
    found = {
        name: Resource(total=Decimal(total), reserved=kept[name], ratio=said.ratios.get(name), source=source)
        for name, total in (("cpu", vcpus), ("memory", memory_bytes))
    }
    if "totalDiskBytes" in told:
        found["disk"] = Resource(total=Decimal(told["totalDiskBytes"]))
    for name, total in capabilities.counted(labels).items():
        found.setdefault(name, Resource(total=total))
    return found


def _capacity(state: NodeState, beat: Heartbeat | None) -> dict[str, Any]:
    """Return the last snapshot: what it said of the machine, and what was measured with it."""
    kept = attributes(state).get("capacity")
    shown: dict[str, Any] = dict(kept) if isinstance(kept, dict) else {}
    for name, resource in _RATIOS.items():
        reported = state.resources.get(resource)
        if reported is not None and reported.ratio is not None:
            shown[name] = number(reported.ratio)
    used = {} if beat is None else beat.used
    for name, resource in COMMITTED.items():
        if (value := used.get(resource)) is not None:
            # Beyond 2^53 what is measured is rounded, which may be past the largest number there is.
            shown[name] = number(min(Decimal(repr(value)), Decimal(MAX_COUNT)))
    if (sampled := used.get(SAMPLED)) is not None:
        micros = int((Decimal(repr(sampled)) * 1_000_000).to_integral_value())
        shown["sampledAt"] = datetime.fromtimestamp(micros // 1_000_000, UTC).replace(
            microsecond=micros % 1_000_000
        )
    return shown


def _seconds(moment: datetime) -> Decimal:
    since = moment - _EPOCH
    return Decimal(since.days * 86_400 + since.seconds) + Decimal(since.microseconds).scaleb(-6)


def _claimed_at(capacity: Members) -> datetime | None:
    text = capacity.text("sampledAt")
    if text is None:
        return None
    try:
        if not _TIME.fullmatch(text):
            raise ValueError(text)
        read = datetime.fromisoformat(text)
        return None if read.year == _NOBODYS_YEAR else read.astimezone(UTC)
    except (ValueError, OverflowError):
        capacity.fault("sampledAt", "is a time as RFC 3339 has it")
        return None
