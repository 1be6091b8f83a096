"""The shapes of answers about capacity (floor 3); `api.models` says how their members are written."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import Field

from api.models import Amount, GroupWord, Page, Shape


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
    flags: list[str] = Field(
        description="`over_reserved`, `negative_allocation`, `overcommitted`, `out_of_range`"
    )


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
