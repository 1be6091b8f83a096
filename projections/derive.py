"""What follows from a state and is stored in none of its fields: word, intent, conditions (floor 2, pure)."""

from __future__ import annotations

from typing import NamedTuple

from projections.capacity import ResourceCapacity, capacity
from projections.evolve_operator import CORDONED, DRAINING, MAINTENANCE
from projections.parts import Hold
from projections.state import NodeState

RETIRED = "retired"
LOST = "lost"
PENDING = "pending"
READY = "ready"
OPEN = "open"

STATES = (RETIRED, LOST, MAINTENANCE, DRAINING, CORDONED, PENDING, READY)
"""The words for a node: the first that applies. An `unmonitored` node is ready like an alive one."""

UNREGISTERED = "unregistered"
IDENTITY_CONFLICT = "identity_conflict"
LEAVING = "leaving"
WARMING = "warming"
FLAPPING = "flapping"
DEVICE_UNHEALTHY = "device_unhealthy"
FOREIGN_ALLOCATIONS = "allocations_of_previous_incarnation"
REPORT_WARNINGS = "report_warnings"


class Derived(NamedTuple):
    """The answers. `reasons` say why a node is not schedulable, `<code>` or `<code>:<detail>`; else empty.

    `conditions` are those that the node's own facts raise; clocks, addresses and names are judged elsewhere.
    """

    state: str
    intent: str
    schedulable: bool
    reasons: tuple[str, ...]
    conditions: tuple[str, ...]
    liveness: str


_PLAIN = {
    (word, liveness): Derived(word, OPEN, not reasons, reasons, (), liveness)
    for word, liveness, reasons in (
        (READY, "alive", ()),
        (READY, "unmonitored", ()),
        (PENDING, PENDING, (PENDING,)),
        (LOST, LOST, (LOST,)),
    )
}
"""What nearly every node is, made once: so most states that follow from one another share it."""


def derive(state: NodeState, resources: tuple[ResourceCapacity, ...] | None = None) -> Derived:
    """Return what follows from the state; `resources` is its capacity, where the caller has it already."""
    liveness = state.liveness
    holds = state.standing_holds if state.holds else ()
    intent = _intent(holds) if holds else OPEN
    if state.retirement is not None and state.retired_at is not None:
        word = RETIRED
    elif liveness == LOST:
        word = LOST
    elif holds:
        word = intent
    elif liveness == PENDING or state.gates or state.registered_at is None:
        word = PENDING
    else:
        word = READY
    conditions = _conditions(state, resources)
    if not holds and not conditions and (plain := _PLAIN.get((word, liveness))) is not None:
        return plain
    reasons = _reasons(state, word, liveness, holds)
    return Derived(word, intent, not reasons, reasons, conditions, liveness)


def _intent(holds: tuple[Hold, ...]) -> str:
    kinds = {hold.kind for hold in holds}
    return MAINTENANCE if MAINTENANCE in kinds else DRAINING if DRAINING in kinds else CORDONED


def _reasons(state: NodeState, word: str, liveness: str, holds: tuple[Hold, ...]) -> tuple[str, ...]:
    reasons = []
    if word == RETIRED:
        reasons.append(RETIRED)
    if liveness in (LOST, PENDING):
        reasons.append(liveness)
    if state.registered_at is None:
        reasons.append(UNREGISTERED)
    reasons.extend([f"{hold.kind}:{hold.owner}" for hold in holds])
    reasons.extend([f"gate:{gate}" for gate in state.gates])
    if state.leaving is not None:
        reasons.append(f"{LEAVING}:{state.leaving.cause}" if state.leaving.cause else LEAVING)
    return tuple(reasons)


def _conditions(state: NodeState, resources: tuple[ResourceCapacity, ...] | None) -> tuple[str, ...]:
    conditions = []
    if state.registered_at is None:
        conditions.append(UNREGISTERED)
    if state.conflict:
        conditions.append(IDENTITY_CONFLICT)
    if state.leaving is not None:
        conditions.append(LEAVING)
    if state.gates:
        conditions.append(WARMING)
    if state.flips is not None and state.flips.since is not None:
        conditions.append(FLAPPING)
    if state.devices and any(device.healthy is False for device in state.devices):
        conditions.append(DEVICE_UNHEALTHY)
    if state.warnings:
        conditions.append(REPORT_WARNINGS)
    if state.allocations:
        given = state.standing_allocations
        if given and any(one.incarnation != state.incarnation for one in given):
            conditions.append(FOREIGN_ALLOCATIONS)
    flagged = [one.flags for one in (capacity(state) if resources is None else resources) if one.flags]
    if flagged:
        conditions.extend(sorted({flag for flags in flagged for flag in flags}))
    return tuple(conditions)
