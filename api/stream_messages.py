"""What the three streams carry, declared for the AsyncAPI document alone; nothing is published (floor 3)."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, create_model

from events.amounts import Amount
from events.registry import REGISTRY, FactType
from events.subjects import ROOT, log_subject

if TYPE_CHECKING:
    from faststream.nats import NatsBroker

PARAMETERS = {
    "node": "the node id, each byte outside [A-Za-z0-9_-] percent-encoded: a.b is a%2Eb",
    "zone": "the zone after a ~, encoded like a node id",
    "kind": "what sort of change: state, capacity, identity, lifecycle, …",
    "detail": "which change: lost, changed, replaced, …",
    "log_detail": "epoch, or rewound",
}
NODE = "{node}"


class Event(BaseModel):
    """A CloudEvents 1.0 envelope in structured JSON mode. Unknown members are kept."""

    model_config = ConfigDict(extra="allow")

    specversion: Literal["1.0"] = "1.0"
    id: str = Field(description="the event's own id; of a fact also the header Nats-Msg-Id")
    source: str
    subject: str = Field(description="the node id (or the zone) as it is, not encoded")
    time: datetime
    datacontenttype: Literal["application/json"] = "application/json"


class Heartbeat(BaseModel):
    """A beat: compact JSON without an envelope and without headers."""

    model_config = ConfigDict(extra="allow")

    boot_id: str
    seq: int = Field(ge=0, description="counts up within a boot")
    sent_at: datetime | None = Field(None, description="by the node's own clock: only measures its skew")
    inventory: str | None = Field(None, description="digest of the last registration")
    used: dict[str, Amount | None] = Field(
        default_factory=dict, description="measured: cpu in cores, memory in bytes, …"
    )


class Announced(BaseModel):
    """What became different about a node, before and after, and the fact that did it."""

    node_id: str
    kind: str
    detail: str
    before: dict[str, Any] | None = Field(description="null: there was nothing, or it is `omitted`")
    after: dict[str, Any] | None
    omitted: list[Literal["before", "after"]] = Field(
        default_factory=list, description="what would be too long for a message: ask the API"
    )
    cause_seq: int = Field(description="the fact's position in FLEET")
    n: int = Field(description="counts the announcements of that fact, from 0")
    cause_type: str
    cause_at: datetime = Field(description="when the broker stored the fact")
    actor: str
    reason: str
    cursor: str = Field(description="the position after it: also the event's id, and `after` of the API")


class Announcement(Event):
    """What changed about a node. Its id is FLEET's epoch, the position of its cause and a number."""

    id: str = Field(description="<epoch>/<cause_seq>/<n>: the same announcement never has two")
    type: str = Field(description="fleetfold.node.<kind>.<detail>.v1")
    data: Announced


class Whereabouts(BaseModel):
    """A life of FLEET and a position in it."""

    epoch: str
    cursor: str


class LogTold(BaseModel):
    """Which log it was and is. Whoever follows takes a snapshot and goes on after `cursor`."""

    node_id: None
    kind: Literal["log"]
    detail: Literal["epoch", "rewound"]
    before: Whereabouts = Field(description="up to where was announced")
    after: Whereabouts = Field(description="after where announcing goes on")
    cause_at: datetime | None
    actor: str
    reason: str
    cursor: str


class LogAnnouncement(Event):
    """FLEET was made again (`log.epoch`) or went back (`log.rewound`); follow anew, from a snapshot."""

    type: Literal["fleetfold.log.epoch.v1", "fleetfold.log.rewound.v1"]
    subject: str = Field("", description="left out: it is about no node")
    data: LogTold


def declare(broker: NatsBroker) -> None:
    """Declare every message of FLEET, BEATS and CHANGES as something that is published."""
    for kind in REGISTRY.types:
        broker.publisher(
            f"{ROOT}.{kind.owner}.{_about(kind)}.{kind.verb}",
            title=f"{kind.owner}.{kind.verb}",
            description=_first_line(kind.model),
            schema=_enveloped(kind),
        )
    broker.publisher(
        f"{ROOT}.beat.{NODE}", title="beat", description=_first_line(Heartbeat), schema=Heartbeat
    )
    broker.publisher(
        f"{ROOT}.node.{NODE}.{{kind}}.{{detail}}",
        title="change",
        description=_first_line(Announced),
        schema=Announcement,
    )
    broker.publisher(
        log_subject("{log_detail}"),
        title="log",
        description=_first_line(LogAnnouncement),
        schema=LogAnnouncement,
    )


def _about(kind: FactType) -> str:
    return "{zone}" if kind.owner == "zone" else NODE


def _enveloped(kind: FactType) -> type[Event]:
    return create_model(
        f"{kind.model.__name__}Event",
        __base__=Event,
        __doc__=_first_line(kind.model),
        type=(str, Field(json_schema_extra={"const": kind.text})),
        data=(kind.model, ...),
    )


def _first_line(model: type[BaseModel]) -> str:
    return (model.__doc__ or "").strip().split("\n", 1)[0]
