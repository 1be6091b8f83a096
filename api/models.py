"""The shapes of answers, for the OpenAPI document and for readers (floor 3).

Answers are written by hand as JSON and never pass through these models on their way out; tests parse them
strictly against them. Times are RFC 3339 in UTC; sizes (`memory`, `disk`) are bytes, `cpu` is in cores,
`gpu` in devices, `vm` in slots, other resources in the unit that their agent uses. An amount is a number
with all of its digits; null means unknown, which is not 0; a resource that is not listed does not exist on
the node.
"""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema

Amount = Annotated[
    Decimal,
    WithJsonSchema(
        {"type": "number", "description": "exact: integers without a point, decimals with all digits"}
    ),
]
StateWord = Literal["pending", "ready", "lost", "cordoned", "draining", "maintenance", "retired"]
LivenessWord = Literal["pending", "alive", "lost", "unmonitored"]
IntentWord = Literal["open", "cordoned", "draining", "maintenance"]
GroupWord = Literal["resource", "zone", "pool", "region"]


class Shape(BaseModel):
    """An object with these members and no others."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="null")


class AsOf(Shape):
    """The state that the answer speaks of: everything stored before `time` is in it."""

    epoch: str = Field(
        description="when the stream FLEET was created: positions of another epoch mean another log"
    )
    seq: int = Field(description="the position in FLEET that is folded at least")
    time: datetime | None = Field(description="null only before the first fact")
    lag_ms: int | None = Field(
        description="for how long the oldest record not folded yet has been waiting; null: not known yet"
    )


class Answer(Shape):
    """An answer says which state it speaks of."""

    as_of: AsOf


class Resource(Shape):
    """One resource of a node: five numbers and what is measured."""

    resource: str
    status: Literal["reported", "unknown"] = Field(
        description="`unknown`: the node has it and does not say how much"
    )
    total: Amount | None = Field(description="what the machine has")
    reserved: Amount | None = Field(description="what is kept back for the machine itself")
    ratio: Amount | None = Field(description="how often one unit may be handed out")
    allocatable: Amount | None = Field(description="(total − reserved) × ratio, rounded down, never below 0")
    allocated: Amount | None = Field(description="the sum of what schedulers handed out")
    free: Amount | None = Field(description="allocatable − allocated; negative where overcommitted")
    used: Amount | None = Field(description="the latest measurement, none of the five")
    flags: list[str] = Field(description="`over_reserved`, `overcommitted`")


class Device(Shape):
    """One device of a node."""

    id: str
    kind: str | None
    model: str | None
    memory: Amount | None = Field(description="bytes")
    healthy: bool | None = Field(description="null: the node does not say")
    reason: str | None


class Hold(Shape):
    """One owner's wish that a node takes no new work."""

    kind: Literal["cordoned", "draining", "maintenance"]
    owner: str
    actor: str
    reason: str
    since: datetime
    until: datetime | None = Field(
        description="what the owner intends; the hold ends by a fact, not by a clock"
    )
    sticky: bool = Field(description="survives a replacement of the machine")


class Allocation(Shape):
    """What one workload holds."""

    workload: str
    amounts: dict[str, Amount]
    since: datetime


class NodeAt(Shape):
    """A node as it was at a moment: what its history keeps."""

    id: str
    state: StateWord
    liveness: LivenessWord
    intent: IntentWord
    schedulable: bool
    region: str | None
    zone: str | None
    pool: str | None
    incarnation: int
    valid_from: datetime = Field(description="since when all of this held")
    valid_to: datetime | None = Field(description="until when; null: it still does")
    cause_seq: int = Field(description="the fact in FLEET that made it so")
    cause_type: str
    actor: str
    reason: str


class Node(Shape):
    """A node as it is now."""

    id: str = Field(description="stable; percent-encode it in paths, `/` as %2F")
    state: StateWord
    liveness: LivenessWord
    liveness_since: datetime | None
    intent: IntentWord
    schedulable: bool
    reasons: list[str] = Field(description="why it is not schedulable; empty where it is")
    region: str | None
    zone: str | None
    pool: str | None
    role: str | None
    hostname: str | None
    display_name: str | None
    architecture: str | None
    agent: dict[str, Any] | None
    labels: dict[str, str] = Field(description="reported and declared; a declared one wins")
    annotations: dict[str, str]
    addresses: list[str]
    conditions: list[str]
    holds: list[Hold]
    allocations: list[Allocation]
    boot_id: str | None
    machine_id: str | None
    incarnation: int
    dialect: str | None
    native_id: str | None
    interval_s: float | None = Field(description="seconds between heartbeats, as the agent says")
    first_registered_at: datetime | None
    registered_at: datetime | None
    last_heartbeat_at: datetime | None
    last_change_at: datetime = Field(description="when the broker stored the last fact that changed the node")
    retired_at: datetime | None
    version: int = Field(description="the position in FLEET of the last fact about the node; also the ETag")
    resources: list[Resource]
    devices: list[Device]
    warnings: list[str] = Field(description="what in the last report was read otherwise than it was written")


class NodeAnswer(Node, Answer):
    """One node."""


class NodeAtAnswer(NodeAt, Answer):
    """One node as it was."""


Item = TypeVar("Item")


class Page(Answer, Generic[Item]):
    """One page of a list; the next begins at `next_cursor`, null on the last."""

    items: list[Item]
    next_cursor: str | None


class CapacitySum(Shape):
    """The sum of one resource over the nodes of a group; a node that does not say how much is counted apart."""

    resource: str
    group: str | None = Field(
        description="the zone, pool or region; null: of nodes that name none, or with no group"
    )
    nodes: int = Field(description="how many nodes have the resource")
    unknown: int = Field(description="how many of them do not say how much")
    total: Amount | None
    reserved: Amount | None
    allocatable: Amount | None
    allocated: Amount | None
    free: Amount | None
    used: Amount | None


class Problem(BaseModel):
    """RFC 9457. Some problems have members of their own: `parameter`, `nearest`, `node`, `error_id`, …"""

    model_config = ConfigDict(frozen=True, extra="allow")

    type: str
    title: str
    status: int
    detail: str
    instance: str
    code: str = Field(description="stable: what programs compare")
