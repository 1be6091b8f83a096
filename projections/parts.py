"""The parts of a node's state (floor 2, pure).

Named tuples, since a replay makes some for every fact. Times are aware and in UTC, amounts exact. An amount
that is None is unknown, which is neither zero nor absent. The dicts are never changed: states share them.
"""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import NamedTuple

made = tuple.__new__
"""Makes a named tuple of its fields in order, much faster than its class: for what each fact makes."""


class AgentInfo(NamedTuple):
    """Which program reports for the node."""

    name: str | None
    version: str | None


class Reported(NamedTuple):
    """A resource as the node reports it; `last_known` is the total before it became unknown, while it is."""

    total: Decimal | None
    reserved: Decimal | None = None
    ratio: Decimal | None = None
    source: str | None = None
    last_known: Decimal | None = None


class Device(NamedTuple):
    """A device as the node reports it; `since` is when it was first reported like this."""

    device_id: str
    kind: str | None
    model: str | None
    memory: Decimal | None
    healthy: bool | None
    reason: str | None
    since: datetime


class Claim(NamedTuple):
    """A boot that reported `times` since the one that has the node last did; `seq` is its last."""

    boot_id: str
    seq: int
    times: int


class Leaving(NamedTuple):
    """A node's own goodbye, which ends with its next registration."""

    cause: str | None
    expect_back_at: datetime | None
    at: datetime


class Hold(NamedTuple):
    """One owner's reason to keep work away. `kind` is `cordoned`, `draining` or `maintenance`.

    `until` is what the owner intends; a hold ends by a fact, never by a clock. A sticky one outlives the
    machine.
    """

    kind: str
    owner: str
    actor: str
    reason: str
    at: datetime
    until: datetime | None
    sticky: bool
    incarnation: int


class Retirement(NamedTuple):
    """The last tombstone. It stays after a restore, and after another incarnation took the name.

    `closed` is the newest incarnation before this one that ended by a retirement which stood.
    """

    incarnation: int
    at: datetime
    actor: str
    reason: str
    closed: int = 0
    restored_at: datetime | None = None
    restored_seq: int = 0


class DeclaredResource(NamedTuple):
    """What an operator declares of a resource; it wins over the report, number by number."""

    total: Decimal | None = None
    reserved: Decimal | None = None
    ratio: Decimal | None = None


class Declared(NamedTuple):
    """What an operator declares of one incarnation of a node."""

    incarnation: int
    labels: dict[str, str]
    annotations: dict[str, str]
    display_name: str | None
    resources: dict[str, DeclaredResource]


class Allocation(NamedTuple):
    """What a workload was given on the node; `amounts` may be empty."""

    workload: str
    amounts: dict[str, Decimal]
    since: datetime
    incarnation: int


class Flips(NamedTuple):
    """How often the node became lost or came back of late: what `projections.flapping` counts.

    `times` are those of the last flips, oldest first; once it flaps, of the last one alone. `last_seq` is the
    fact that made the last one, `since` when it began to flap, None while it does not.
    """

    times: tuple[datetime, ...]
    last_seq: int
    since: datetime | None = None


class Verdict(NamedTuple):
    """The evaluator's last word, `alive` or `lost`, about one boot; None where it named none."""

    word: str
    boot_id: str | None
    at: datetime
    seq: int
