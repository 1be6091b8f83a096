"""All conditions of a node, whatever raises them, and what each is about in words (floor 2, pure).

Its own facts raise most (`projections.derive`); other nodes those of sharing, its heartbeats that of its
clock. `docs/adr/0016-what-nodes-share-is-nobodys-fact.md` says why these are kept apart.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from projections.capacity import NEGATIVE_ALLOCATION, OVER_RESERVED, OVERCOMMITTED, ResourceCapacity, capacity
from projections.derive import (
    DEVICE_UNHEALTHY,
    FLAPPING,
    FOREIGN_ALLOCATIONS,
    IDENTITY_CONFLICT,
    LEAVING,
    REPORT_WARNINGS,
    UNREGISTERED,
    WARMING,
)
from projections.handles import DUPLICATE_ADDRESS, MACHINE_ID_SHARED, NAME_SHARED, Handle
from projections.phrases import listed, span

if TYPE_CHECKING:
    from events.ids import NodeId
    from projections.derive import Derived
    from projections.heartbeats import Heartbeat
    from projections.state import NodeState

CLOCK_SKEW = "clock_skew"


class Condition(NamedTuple):
    """One condition of a node, and what it is about."""

    name: str
    about: str


def conditions(
    state: NodeState, derived: Derived, *, shared: tuple[str, ...], beat: Heartbeat | None
) -> tuple[str, ...]:
    """Return every condition of a node: its own, those it shares with others, that of its clock."""
    if beat is None or beat.skewed_since is None or state.retired_at is not None:
        return (*derived.conditions, *shared) if shared else derived.conditions
    return (*derived.conditions, *shared, CLOCK_SKEW)


def explained(
    names: Sequence[str],
    state: NodeState,
    *,
    sharers: Mapping[Handle, Sequence[NodeId]],
    beat: Heartbeat | None,
) -> tuple[Condition, ...]:
    """Return the conditions with what each is about; one of which nothing can be said has an empty text."""
    made = []
    for name in names:
        if name in _SHARED:
            about = _shared(name, sharers)
        elif name == CLOCK_SKEW:
            about = _skew(beat)
        else:
            about = _OF_STATE[name](state) if name in _OF_STATE else ""
        made.append(Condition(name, about))
    return tuple(made)


_SHARED = {
    DUPLICATE_ADDRESS: "the address",
    MACHINE_ID_SHARED: "the machine id",
    NAME_SHARED: "the name",
}


def _shared(name: str, sharers: Mapping[Handle, Sequence[NodeId]]) -> str:
    given = [(text, others) for (condition, text), others in sharers.items() if condition == name]
    return "; ".join(f"{_SHARED[name]} {text} is also that of {listed(others)}" for text, others in given)


def _skew(beat: Heartbeat | None) -> str:
    if beat is None or beat.skew_ms is None:
        return "its clock was far off when it last said what time it was"
    side = "ahead of" if beat.skew_ms > 0 else "behind"
    return f"its clock was {span(abs(beat.skew_ms) / 1000)} {side} the broker's at its last heartbeat"


def _goodbye(state: NodeState) -> str:
    said = "it said goodbye"
    return f"{said}: {state.leaving.cause}" if state.leaving and state.leaving.cause else said


def _sick(state: NodeState) -> str:
    sick = [device for device in state.devices if device.healthy is False]
    return listed([f"{one.device_id} ({one.reason})" if one.reason else one.device_id for one in sick])


def _flagged(flag: str, say: Callable[[ResourceCapacity], str]) -> Callable[[NodeState], str]:
    return lambda state: listed([say(one) for one in capacity(state) if flag in one.flags])


_OF_STATE: dict[str, Callable[[NodeState], str]] = {
    UNREGISTERED: lambda _: "it was spoken of, and never registered",
    IDENTITY_CONFLICT: lambda state: f"{listed(state.conflict)} report under this id in turn",
    LEAVING: _goodbye,
    WARMING: lambda state: f"it waits for {listed(state.gates)}",
    FLAPPING: lambda _: (
        "it was lost and back so often that changes of its state are not announced one by one"
    ),
    DEVICE_UNHEALTHY: _sick,
    FOREIGN_ALLOCATIONS: lambda _: "work that was given to the machine before this one still counts",
    REPORT_WARNINGS: lambda state: f"read otherwise than it was written: {listed(state.warnings)}",
    OVERCOMMITTED: _flagged(
        OVERCOMMITTED, lambda one: f"{one.allocated:f} of {one.resource} are allocated of {one.allocatable:f}"
    ),
    OVER_RESERVED: _flagged(
        OVER_RESERVED, lambda one: f"{one.reserved:f} of {one.resource} are reserved of {one.total:f}"
    ),
    NEGATIVE_ALLOCATION: _flagged(
        NEGATIVE_ALLOCATION,
        lambda one: f"workloads hold {one.allocated:f} of {one.resource}, less than nothing",
    ),
}
