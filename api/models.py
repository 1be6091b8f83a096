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
from typing import Annotated, Any, Literal

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
    last_known: Amount | None = Field(description="the total before it became unknown, while it is")
    source: str | None = Field(description="where the node says the number came from")
    flags: list[str] = Field(description="`over_reserved`, `overcommitted`, `out_of_range`")


class Device(Shape):
    """One device of a node."""

    id: str
    kind: str | None
    model: str | None
    memory: Amount | None = Field(description="bytes")
    healthy: bool | None = Field(description="null: the node does not say")
    reason: str | None
    since: datetime = Field(description="when it was first reported like this")


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


class Agent(Shape):
    """Which program reports for a node."""

    name: str | None
    version: str | None


class Leaving(Shape):
    """A node's own goodbye, which ends with its next registration."""

    cause: str | None
    expect_back_at: datetime | None
    at: datetime


class Heartbeats(Shape):
    """What a node's heartbeats say."""

    boot_id: str = Field(description="the run of the agent that beats")
    last_seq: int = Field(description="the last one's number within the run")
    missed: int = Field(description="numbers that never came")
    duplicates: int
    reordered: int = Field(description="those that came late")
    other_boot: int = Field(description="those of an earlier run")
    skew_ms: int | None = Field(description="the node's clock minus the broker's; null: it does not say")


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
    suspect: bool = Field(description="it missed a heartbeat while somebody watched")
    expected_lost_at: datetime | None = Field(
        description="when a suspect node will be called lost if it stays silent; null: it is not suspect"
    )
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
    agent: Agent | None
    labels: dict[str, str] = Field(description="reported and declared; a declared one wins")
    annotations: dict[str, str]
    addresses: list[str]
    conditions: list[str]
    holds: list[Hold]
    allocations: list[Allocation]
    leaving: Leaving | None
    boot_id: str | None
    machine_id: str | None
    incarnation: int = Field(description="how many machines had this id before, plus 1")
    conflict: list[str] = Field(description="the boots that report under this id in turn")
    dialect: str | None
    native_id: str | None
    interval_s: float | None = Field(description="seconds between heartbeats, as the agent says")
    first_registered_at: datetime | None
    registered_at: datetime | None
    last_heartbeat_at: datetime | None
    inventory_at: datetime | None = Field(description="when the reported inventory last changed")
    changed_at: datetime = Field(description="when the broker stored the last fact that changed the node")
    retired_at: datetime | None
    version: int = Field(description="the position in FLEET of the last fact about the node; also the ETag")
    resources: list[Resource]
    devices: list[Device]
    heartbeats: Heartbeats | None
    warnings: list[str] = Field(description="what in the last report was read otherwise than it was written")


class NodeAnswer(Node, Answer):
    """One node."""


class NodeAtAnswer(NodeAt, Answer):
    """One node as it was."""

    valid_to: datetime | None = Field(description="until when all of this held; null: it still does")


class Change(Shape):
    """What changed about a node, and the fact that did it."""

    at: datetime
    kind: str = Field(description="identity, lifecycle, state, intent, capacity, labels, …")
    detail: str = Field(description="which change: lost, changed, replaced, …")
    before: dict[str, Any] | None = Field(
        description="the members that are others now; null where there was nothing"
    )
    after: dict[str, Any] | None
    cause_seq: int = Field(description="the fact's position in FLEET")
    actor: str
    reason: str


class Page(Answer):
    """One page of a list; the next begins at `next_cursor`, null on the last."""

    next_cursor: str | None


class NodesAnswer(Page):
    """Nodes by id, as they are now, or as they were where `at` was asked."""

    items: list[Node] | list[NodeAt]


class TimelineAnswer(Page):
    """What became of one node, newest first."""

    items: list[Change]


class CapacitySum(Shape):
    """The sum of one resource over the nodes of a place that are not retired."""

    resource: str
    place: str | None = Field(
        description="the zone, pool or region; null: the whole fleet, or nodes without one"
    )
    nodes: int = Field(description="how many nodes have the resource")
    unknown: int = Field(description="how many of them do not say how much, and add nothing to the sums")
    total: Amount | None = Field(description="null where no node says how much")
    reserved: Amount | None
    allocatable: Amount | None
    allocated: Amount | None
    free: Amount | None
    used: Amount | None = Field(
        description="what nodes that are not lost measured last; null: nothing, or asked of the past"
    )


class CapacityAnswer(Page):
    """Sums by resource and place; all on one page."""

    group_by: GroupWord
    items: list[CapacitySum]


class CapacityStep(Shape):
    """The sums that held at a moment."""

    at: datetime
    sums: list[CapacitySum]


class CapacityHistoryAnswer(Page):
    """Sums at each step of time."""

    group_by: GroupWord
    items: list[CapacityStep]


class ResourceAt(Shape):
    """One resource of a node as it was."""

    resource: str
    status: Literal["reported", "unknown"]
    total: Amount | None
    reserved: Amount | None
    ratio: Amount | None
    allocatable: Amount | None
    allocated: Amount | None
    free: Amount | None


class NodeCapacityAnswer(Page):
    """The resources of one node, as they are now, or as they were where `at` was asked; all on one page."""

    id: str
    items: list[Resource] | list[ResourceAt]


class Problem(BaseModel):
    """RFC 9457. Some problems have members of their own: `parameter`, `nearest`, `node`, `error_id`, …"""

    model_config = ConfigDict(frozen=True, extra="allow")

    type: str
    title: str
    status: int
    detail: str
    instance: str
    code: str = Field(description="stable: what programs compare")


class StreamStatus(Shape):
    """How one stream is read and folded."""

    epoch: str | None
    seq: int | None = Field(description="the last record folded; null: this process does not fold it")
    head: int | None = Field(description="the last record that the broker said it holds")
    pending: int | None = Field(description="records up to `head` that are not folded yet")
    lag_ms: int | None
    generations: int = Field(description="consumers made so far: 1 unless something broke")
    holes: int = Field(description="records that are missing and proven deleted")
    state: Literal["starting", "reading", "waiting", "stopped"]
    last_error: str


class ReplicaStatus(Shape):
    """The process that answers SQL."""

    state: Literal["off", "starting", "ready", "away"]
    reason: str
    lag_ms: int | None
    restarts: int


class StatusAnswer(Answer):
    """How the service is."""

    epoch: str
    fleet_seq: int = Field(description="position in FLEET that is folded")
    beats_seq: int = Field(description="position in BEATS that is folded")
    changes_seq: int | None = Field(description="last announcement in CHANGES; null: not known yet")
    lag_ms: int | None
    nodes: int = Field(description="without retired ones")
    nodes_by_state: dict[StateWord, int] = Field(description="also `retired`")
    version: str
    liveness_mode: str
    nats_url: str
    streams: dict[str, StreamStatus]
    replica: ReplicaStatus


class Progress(Shape):
    """How far one stream is folded, and what was its head when the process began."""

    seq: int
    target: int | None


class ReadyAnswer(Answer):
    """The service may be asked."""

    ready: Literal[True]
    streams: dict[str, Progress]


class AliveAnswer(Shape):
    """The process answers."""

    live: Literal[True]
