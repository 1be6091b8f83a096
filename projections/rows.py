"""Rows of the tables, one type for each (floor 2, pure).

The fields of a type are the columns of its table in the table's order: a row goes to the store as it is.
Times are aware and in UTC, amounts exact, None is unknown, ids and labels are always text. `cause_seq` is the
sequence in FLEET of the fact that made the row, `version` that of the last record about the node.
"""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import NamedTuple

from events.ids import NodeId


class NodeRow(NamedTuple):
    """A node as it is now. `packed` is its whole state, which `projections.state.unpack` reads."""

    node_id: NodeId
    version: int
    state: str
    liveness: str
    intent: str
    schedulable: bool
    reasons: list[str]
    region: str | None
    zone: str | None
    pool: str | None
    role: str | None
    hostname: str | None
    display_name: str | None
    architecture: str | None
    labels: dict[str, str]
    annotations: dict[str, str]
    addresses: list[str]
    conditions: list[str]
    boot_id: str | None
    machine_id: str | None
    incarnation: int
    dialect: str | None
    native_id: str | None
    first_registered_at: datetime | None
    registered_at: datetime | None
    retired_at: datetime | None
    liveness_since: datetime | None
    changed_at: datetime
    interval_s: float | None
    packed: bytes


class NodeHistoryRow(NamedTuple):
    """The beginning of a band with one `state` to `incarnation`; the node's next row ends it."""

    node_id: NodeId
    state: str
    liveness: str
    intent: str
    schedulable: bool
    region: str | None
    zone: str | None
    pool: str | None
    incarnation: int
    valid_from: datetime
    cause_seq: int
    cause_type: str
    actor: str
    reason: str


class CapacityRow(NamedTuple):
    """One resource of a node as it is now. `status` is `reported` or `unknown`."""

    node_id: NodeId
    resource: str
    status: str
    total: Decimal | None
    reserved: Decimal | None
    ratio: Decimal | None
    allocatable: Decimal | None
    allocated: Decimal | None
    free: Decimal | None
    since: datetime
    cause_seq: int


class CapacityHistoryRow(NamedTuple):
    """The beginning of a band of one resource; `status` is `absent`, with no numbers, once it is gone."""

    node_id: NodeId
    resource: str
    status: str
    total: Decimal | None
    reserved: Decimal | None
    ratio: Decimal | None
    allocatable: Decimal | None
    allocated: Decimal | None
    free: Decimal | None
    valid_from: datetime
    cause_seq: int


class LabelHistoryRow(NamedTuple):
    """The beginning of a band of one effective label; value and `owner` are None once it is gone."""

    node_id: NodeId
    key: str
    value: str | None
    owner: str | None
    valid_from: datetime
    cause_seq: int


class DeviceRow(NamedTuple):
    """One device that a node reports. `healthy` is None where the node does not say."""

    node_id: NodeId
    device_id: str
    kind: str | None
    model: str | None
    memory: Decimal | None
    healthy: bool | None
    reason: str | None
    since: datetime


class AllocationRow(NamedTuple):
    """What one workload holds of one resource; one that holds no amounts has a row with resource '' and 0."""

    node_id: NodeId
    workload: str
    resource: str
    amount: Decimal
    since: datetime


class FactRow(NamedTuple):
    """One record of FLEET that could be read; `data` is JSON text. `node_id` is None for a zone's fact."""

    seq: int
    stored_at: datetime
    sent_at: datetime | None
    subject: str
    node_id: NodeId | None
    type: str
    source: str
    event_id: str
    data: str


class QuarantineRow(NamedTuple):
    """One record that could not be read, whole: `body` is its payload as stored."""

    stream: str
    seq: int
    stored_at: datetime
    subject: str
    node_id: NodeId | None
    reason: str
    field: str
    detail: str
    body: bytes


class AnnouncementRow(NamedTuple):
    """The n-th announcement of the fact `cause_seq`, from 0; `before` and `after` are JSON text.

    One that is `damped` is part of the node's history and is told to nobody.
    """

    cause_seq: int
    n: int
    at: datetime
    node_id: NodeId
    kind: str
    detail: str
    before: str
    after: str
    actor: str
    reason: str
    damped: bool = False
