"""What the three streams carry, declared for the AsyncAPI document alone; nothing is published (floor 3)."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, create_model

from events.amounts import Amount
from events.registry import REGISTRY, FactType
from events.subjects import ROOT

if TYPE_CHECKING:
    from faststream.nats import NatsBroker

PARAMETERS = {
    "node": "the node id, each byte outside [A-Za-z0-9_-] percent-encoded: a.b is a%2Eb",
    "zone": "the zone after a ~, encoded like a node id",
    "kind": "what sort of change: state, capacity, identity, lifecycle, …",
    "detail": "which change: lost, changed, replaced, …",
}
NODE = "{node}"


class Event(BaseModel):
    """A CloudEvents 1.0 envelope in structured JSON mode. Unknown members are kept."""

    model_config = ConfigDict(extra="allow")

    specversion: Literal["1.0"] = "1.0"
    id: str = Field(description="the event's own id; also the header Nats-Msg-Id")
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
    """What changed about a node: the members that differ, before and after, and the fact that did it."""

    cause_seq: int = Field(description="the fact's position in FLEET")
    before: dict[str, Any] | None
    after: dict[str, Any]
    actor: str
    reason: str


class Announcement(Event):
    """An announcement; its id is made of FLEET's epoch, the cause's position and a number."""

    data: Announced


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
