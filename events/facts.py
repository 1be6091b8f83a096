"""The data of each fact (floor 1, pure): what happened, in the past tense, as the log keeps it.

Each class is the `data` of one event type; `events/registry.py` says which. Unknown members are kept and
survive decoding and encoding. A new optional member with a default stays in the same version; anything else
is a new version with an upcaster. Times are aware and UTC, amounts exact, texts never numbers.
"""

from __future__ import annotations

import unicodedata
from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PlainValidator, Strict, WithJsonSchema

from events.amounts import Amount

MAX_COUNT = 2**63 - 1
# What a BIGINT column holds.


def _utc(value: object) -> datetime:
    if not isinstance(value, datetime) or value.tzinfo is None:
        raise ValueError("a time is an aware datetime")
    return value if value.tzinfo is UTC else value.astimezone(UTC)


def _normal_form(text: str) -> str | None:
    return (text if text.isascii() else unicodedata.normalize("NFC", text)) or None


Time = Annotated[datetime, PlainValidator(_utc), WithJsonSchema({"type": "string", "format": "date-time"})]
Count = Annotated[int, Strict(), Field(ge=0, le=MAX_COUNT)]
Flag = Annotated[bool, Strict()]
Seconds = Annotated[float, Strict(), Field(allow_inf_nan=False)]
Name = Annotated[str, Field(min_length=1)]
Place = Annotated[str, AfterValidator(_normal_form)]
"""A region, zone or pool: any text in NFC; an empty one counts as not reported."""


class Part(BaseModel):
    """A frozen value inside a fact; unknown members are kept."""

    model_config = ConfigDict(frozen=True, extra="allow")


class FactData(Part):
    """The data of a fact."""


# What the machine reports: owner `agent`.


class AgentInfo(Part):
    """Which program speaks for the node."""

    name: str | None = None
    version: str | None = None


class Resource(Part):
    """One resource as reported. A missing number is unknown, not zero; `source` says where it came from."""

    total: Amount | None = None
    reserved: Amount | None = None
    ratio: Amount | None = None
    source: str | None = None


class Device(Part):
    """One device with a stable id of its own. `memory` is in bytes."""

    id: Name
    kind: str | None = None
    model: str | None = None
    memory: Amount | None = None
    healthy: Flag | None = None
    reason: str | None = None


class Registered(FactData):
    """A machine reported itself: everything it says, replacing everything it said before."""

    boot_id: Name
    seq: Count
    sent_at: Time | None = None
    machine_id: str | None = None
    hostname: str | None = None
    display_name: str | None = None
    addresses: tuple[str, ...] = ()
    region: Place | None = None
    zone: Place | None = None
    pool: Place | None = None
    role: str | None = None
    architecture: str | None = None
    agent: AgentInfo | None = None
    interval_s: Seconds | None = None
    labels: dict[str, str] = Field(default_factory=dict)
    resources: dict[str, Resource] = Field(default_factory=dict)
    devices: tuple[Device, ...] = ()
    gates: tuple[str, ...] = ()
    dialect: dict[str, Any] | None = None


class Leaving(FactData):
    """An agent said goodbye. `cause` is `shutdown`, `reboot`, `preempted` or another word."""

    boot_id: Name
    seq: Count
    sent_at: Time | None = None
    cause: str | None = None
    expect_back_at: Time | None = None


# What people decide: owner `operator`.


class Decision(FactData):
    """A fact that somebody decided: who, why, and the id of the request that it answers."""

    actor: str = ""
    reason: str = ""
    request_id: str = ""


class Hold(Decision):
    """One owner's wish that a node takes no new work. `sticky` holds survive a replacement of the machine."""

    owner: Name
    until: Time | None = None
    sticky: Flag = False


class Release(Decision):
    """The end of one owner's hold, or of every owner's where `owner` is None."""

    owner: Name | None = None


class Cordoned(Hold):
    """A node takes no new work."""


class Uncordoned(Release):
    """A cordon ended."""


class Drained(Hold):
    """A node takes no new work and its work moves away."""


class Undrained(Release):
    """A drain ended."""


class MaintenanceEntered(Hold):
    """A node is being worked on; silence is expected."""


class MaintenanceLeft(Release):
    """Maintenance ended."""


class Retired(Decision):
    """A node left the fleet for good and is kept as a tombstone. `force` retired it although it held work."""

    force: Flag = False


class Restored(Decision):
    """A retirement was taken back."""


class LabelsSet(Decision):
    """Labels were declared. None takes a declared label away; labels not named stay."""

    labels: dict[str, str | None]


class AnnotationsSet(Decision):
    """Annotations were declared, by the same rule as labels."""

    annotations: dict[str, str | None]


class DisplayNameSet(Decision):
    """A display name was declared; None takes it away."""

    display_name: str | None = None


class DeclaredResource(Part):
    """What an operator declares of one resource; None leaves the reported number in force."""

    total: Amount | None = None
    reserved: Amount | None = None
    ratio: Amount | None = None


class CapacityDeclared(Decision):
    """Capacity was declared, replacing what was declared of each named resource; None takes it away."""

    resources: dict[str, DeclaredResource | None]


# What schedulers hand out: owner `platform`.


class Allocated(Decision):
    """A workload holds these amounts of a node, replacing what it held there before; may be empty."""

    workload: Name
    amounts: dict[str, Amount] = Field(default_factory=dict)


class Released(Decision):
    """A workload holds nothing of a node any more."""

    workload: Name


# Verdicts on silence: owners `liveness` and `zone`.


class Alive(FactData):
    """A node was judged alive. `rule` says by which rule, the rest is the evidence."""

    boot_id: str = ""
    last_heartbeat_at: Time | None = None
    beat_seq: Count | None = None
    rule: str = ""


class Lost(FactData):
    """A node was judged lost: silent for `silent_s`, allowed are `grace_s`, so `deadline_at` had passed."""

    boot_id: str = ""
    last_heartbeat_at: Time | None = None
    beat_seq: Count | None = None
    rule: str = ""
    silent_s: Seconds
    grace_s: Seconds
    deadline_at: Time | None = None


class Settled(FactData):
    """A flapping node was judged steady again: alive or lost for `quiet_s` after `last_flip_seq`.

    It settles nothing where the node flipped again since.
    """

    boot_id: str = ""
    last_flip_seq: Count
    quiet_s: Seconds
    rule: str = ""


class ZoneSilent(FactData):
    """`count` of a zone's `members` went silent together; the single verdicts are held until `held_until`."""

    count: Count
    members: Count
    rule: str = ""
    held_until: Time | None = None


class ZoneRecovered(FactData):
    """A silent zone speaks again: `count` of its `members` are heard."""

    count: Count | None = None
    members: Count | None = None
    rule: str = ""
