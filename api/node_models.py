"""The shapes of answers about nodes (floor 3); `api.models` says how their members are written."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import Field

from api.capacity_models import Resource
from api.models import Amount, Answer, IntentWord, LivenessWord, Page, Shape, StateWord


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
    skewed_since: datetime | None = Field(
        description="since when its clock is far off: 5 s, and again in step below 2 s; null: it is not"
    )


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
    conditions: list[str] = Field(
        description="what is remarkable: leaving, flapping, overcommitted, clock_skew, name_shared, …"
    )
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
    last_heartbeat_at: datetime | None = Field(
        description="when the broker received the last heartbeat; None before the first"
    )
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


class NodesAnswer(Page):
    """Nodes by id, as they are now, or as they were where `at` was asked."""

    items: list[Node] | list[NodeAt]


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
    damped: bool = Field(description="nobody was told, since the node was flapping")


class TimelineAnswer(Page):
    """What became of one node, newest first."""

    items: list[Change]
