"""A node's state: what the facts about it fold to (floor 2, pure).

Each field has one owner, and a fact writes its owner's fields only (`OWNERS`). Intent, retirement and
verdicts name the incarnation or the boot that they were about; whether one still stands is a question, never
a second write. So a report erases nothing that people, schedulers or the evaluator said.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple

from events.ids import NodeId
from projections.packed import pack_fields, unpack_fields
from projections.parts import (
    AgentInfo,
    Allocation,
    Claim,
    Declared,
    Device,
    Flips,
    Hold,
    Leaving,
    Reported,
    Retirement,
    Verdict,
)

LATEST_BOOTS = 8
# So many earlier boots of a node are all remembered: a report of theirs that is late is not a new one.
PREVIOUS_BOOTS = 2 * LATEST_BOOTS
# Of the ones before, as many more, whichever: so machines that share one id are found out however many they
# are and in whatever order they report.
MOST_CLAIMS = 8
# Of how many more machines that report under the id is kept how often they did.

_NO_LABELS: dict[str, str] = {}
_NO_RESOURCES: dict[str, Reported] = {}


class NodeState(NamedTuple):
    """Everything the log says about a node up to `version`, the last record about it, readable or not.

    `changed_at` is the time of the last fact that changed more than a counter: its `stored_at`, or the time
    before it where the broker's clock stepped back, so it never decreases. `registered_at` is None for a
    provisional node, about which something was said before it registered; else it is the first registration
    of this incarnation. `boot_at` is the first registration of this boot, `inventory_at` and `inventory_seq`
    are time and sequence of the last one that changed the inventory. `claims` are boots that would take the
    node over while another has it: see `projections.evolve_agent`.
    """

    # The folds of frequent facts splice by position: what every fact moves comes first, counters last.
    node_id: NodeId
    version: int
    changed_at: datetime
    # agent: identity
    agent_seq: int = 0
    incarnation: int = 1
    boot_id: str | None = None
    machine_id: str | None = None
    previous_boots: tuple[str, ...] = ()
    previous_seqs: tuple[int, ...] = ()
    conflict: tuple[str, ...] = ()
    claims: tuple[Claim, ...] = ()
    leaving: Leaving | None = None
    first_registered_at: datetime | None = None
    registered_at: datetime | None = None
    boot_at: datetime | None = None
    inventory_at: datetime | None = None
    inventory_seq: int = 0
    # agent: inventory
    hostname: str | None = None
    display_name: str | None = None
    addresses: tuple[str, ...] = ()
    region: str | None = None
    zone: str | None = None
    pool: str | None = None
    role: str | None = None
    architecture: str | None = None
    agent: AgentInfo | None = None
    interval_s: float | None = None
    labels: dict[str, str] = _NO_LABELS
    resources: dict[str, Reported] = _NO_RESOURCES
    devices: tuple[Device, ...] = ()
    gates: tuple[str, ...] = ()
    dialect: dict[str, Any] | None = None
    warnings: tuple[str, ...] = ()
    # operator
    holds: tuple[Hold, ...] = ()
    retirement: Retirement | None = None
    declared: Declared | None = None
    # platform
    allocations: tuple[Allocation, ...] = ()
    # liveness
    verdict: Verdict | None = None
    # what the fold itself counts of verdicts
    flips: Flips | None = None
    # counters of what changed nothing
    duplicates: int = 0
    reordered: int = 0
    identical: int = 0
    zombies: int = 0

    @property
    def lifecycle(self) -> str:
        """`active`, or `retired` while the tombstone is of this incarnation."""
        return "active" if self.retired_at is None else "retired"

    @property
    def retired_at(self) -> datetime | None:
        """When this incarnation was retired, None while it is active."""
        tomb = self.retirement
        if tomb is None or tomb.restored_at is not None or tomb.incarnation != self.incarnation:
            return None
        return tomb.at

    @property
    def liveness(self) -> str:
        """`alive`, `lost`, `pending` (no verdict on this boot) or `unmonitored` (it sends no beats)."""
        verdict = self.standing_verdict
        if verdict is not None:
            return verdict.word
        if self.dialect is not None and self.dialect.get("monitored") is False:
            return "unmonitored"
        return "pending"

    @property
    def liveness_since(self) -> datetime | None:
        """Since when `liveness` is what it is; None for a node that was never heard of."""
        verdict = self.standing_verdict
        if verdict is not None:
            return verdict.at
        tomb = self.retirement
        if tomb is None or tomb.restored_at is None or tomb.incarnation != self.incarnation:
            return self.boot_at
        return tomb.restored_at if self.boot_at is None else max(self.boot_at, tomb.restored_at)

    @property
    def standing_verdict(self) -> Verdict | None:
        """The verdict, where it is about this boot and younger than the last restore."""
        verdict = self.verdict
        if verdict is None:
            return None
        if self.boot_id not in (None, verdict.boot_id) and (verdict.boot_id or self.previous_boots):
            return None
        if self.retirement is not None and verdict.seq < self.retirement.restored_seq:
            return None
        return verdict

    @property
    def flapping_since(self) -> datetime | None:
        """Since when the node has been flapping, None while it does not."""
        return None if self.flips is None else self.flips.since

    @property
    def standing_holds(self) -> tuple[Hold, ...]:
        """The holds on this incarnation: those placed on it, and sticky ones."""
        return tuple(hold for hold in self.holds if hold.sticky or hold.incarnation == self.incarnation)

    @property
    def standing_declared(self) -> Declared | None:
        """What is declared of this incarnation."""
        declared = self.declared
        return declared if declared is not None and declared.incarnation == self.incarnation else None

    @property
    def standing_allocations(self) -> tuple[Allocation, ...]:
        """The allocations that take capacity: none on a retired node, none from before one that stood."""
        tomb = self.retirement
        if tomb is None or not self.allocations:
            return self.allocations
        closed = tomb.closed if tomb.restored_at is not None else tomb.incarnation
        return tuple(given for given in self.allocations if given.incarnation > closed)

    @property
    def effective_labels(self) -> dict[str, str]:
        """The reported labels with the declared ones over them."""
        declared = self.standing_declared
        return self.labels if declared is None or not declared.labels else {**self.labels, **declared.labels}

    @property
    def effective_annotations(self) -> dict[str, str]:
        """The declared annotations."""
        declared = self.standing_declared
        return {} if declared is None else declared.annotations

    @property
    def effective_display_name(self) -> str | None:
        """The declared display name, else the reported one."""
        declared = self.standing_declared
        if declared is None or declared.display_name is None:
            return self.display_name
        return declared.display_name


def pack(state: NodeState) -> bytes:
    """Return the state as bytes, below 700 for a node with a few labels and resources."""
    return pack_fields(state)


def unpack(packed: bytes) -> NodeState:
    """Return the state that was packed, equal to what it was."""
    return NodeState._make(unpack_fields(packed))


_FIELDS = NodeState._fields
INVENTORY = slice(_FIELDS.index("hostname"), _FIELDS.index("holds"))
"""The fields that a registration replaces whole."""

CONTENT = slice(_FIELDS.index("incarnation"), _FIELDS.index("duplicates"))
"""The fields that say something: where they stay, a fact changed a counter at most."""

COUNTERS = slice(CONTENT.stop, None)
"""How often a fact changed nothing, by why."""

OWNERS: dict[str, tuple[str, ...]] = {
    "agent": _FIELDS[_FIELDS.index("agent_seq") : _FIELDS.index("holds")],
    "operator": ("holds", "retirement", "declared"),
    "platform": ("allocations",),
    "liveness": ("verdict",),
    "log": ("node_id", "version", "changed_at", "flips", "duplicates", "reordered", "identical", "zombies"),
}
"""Who writes which field. `log` is what folding itself writes, whoever wrote the fact."""
