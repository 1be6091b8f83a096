"""What an operator wishes of a node, and in which situation the node is then (floor 2, pure)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Literal, NamedTuple, get_args

from events.facts import (
    Cordoned,
    Drained,
    MaintenanceEntered,
    MaintenanceLeft,
    Release,
    Uncordoned,
    Undrained,
)
from events.facts import Hold as Held
from projections.evolve_operator import CORDONED, DRAINING, MAINTENANCE
from projections.parts import Hold
from projections.state import NodeState

Action = Literal[
    "cordon", "uncordon", "drain", "undrain", "enter_maintenance", "leave_maintenance", "retire", "restore"
]
ACTIONS: tuple[Action, ...] = get_args(Action)
Situation = Literal[
    "unknown",
    "retired",
    "held_the_same",
    "held_otherwise",
    "below_another_hold",
    "above_another_hold",
    "forced",
    "held",
    "held_by_others",
    "held_in_another_way",
    "forced_with_workloads",
    "has_workloads",
    "beating",
    "any_other",
]


class Wish(NamedTuple):
    """What somebody wants of a node. `owner`, `until` and `sticky` are about holds alone."""

    action: Action
    owner: str
    actor: str = ""
    reason: str = ""
    request_id: str = ""
    until: datetime | None = None
    sticky: bool = False
    force: bool = False


class HoldKind(NamedTuple):
    """A way to hold a node: its word, how it is placed and how it ends."""

    word: str
    place: Action
    end: Action
    placed: type[Held]
    ended: type[Release]


KINDS = (
    HoldKind(CORDONED, "cordon", "uncordon", Cordoned, Uncordoned),
    HoldKind(DRAINING, "drain", "undrain", Drained, Undrained),
    HoldKind(MAINTENANCE, "enter_maintenance", "leave_maintenance", MaintenanceEntered, MaintenanceLeft),
)
"""The ways to hold a node, the lightest first."""

KIND_OF: dict[Action, HoldKind] = {action: kind for kind in KINDS for action in (kind.place, kind.end)}
PLACES = frozenset(kind.place for kind in KINDS)
ENDS = frozenset(kind.end for kind in KINDS)
BY_WORD = {kind.word: kind for kind in KINDS}
_GRAVITY = {kind.word: gravity for gravity, kind in enumerate(KINDS)}

Test = Callable[[NodeState, Wish], bool]


def applies(situation: Situation, state: NodeState | None, wish: Wish) -> bool:
    """Say whether a situation is that of the node and the wish."""
    if state is None or situation == "unknown":
        return state is None and situation == "unknown"
    return SITUATIONS[situation][1](state, wish)


def of_kind(state: NodeState, wish: Wish) -> tuple[Hold, ...]:
    """Return every owner's hold of the kind that the wish is about."""
    word = KIND_OF[wish.action].word
    return tuple([hold for hold in state.standing_holds if hold.kind == word])


def own(state: NodeState, wish: Wish) -> Hold | None:
    """Return the owner's hold of the kind that the wish is about."""
    return next((hold for hold in of_kind(state, wish) if hold.owner == wish.owner), None)


def _is_the_same(state: NodeState, wish: Wish) -> bool:
    hold = own(state, wish)
    said = (wish.reason, wish.until, wish.sticky)
    return hold is not None and (hold.reason, hold.until, hold.sticky) == said


def _graver(state: NodeState, wish: Wish) -> bool:
    than = _GRAVITY[KIND_OF[wish.action].word]
    return any(_GRAVITY[hold.kind] > than for hold in state.standing_holds)


def _lighter(state: NodeState, wish: Wish) -> bool:
    than = _GRAVITY[KIND_OF[wish.action].word]
    return any(_GRAVITY[hold.kind] < than for hold in state.standing_holds)


SITUATIONS: dict[Situation, tuple[str, Test]] = {
    "unknown": ("nothing was ever said about it", lambda _state, _wish: False),
    "retired": ("it is retired", lambda state, _: state.retired_at is not None),
    "held_the_same": ("this owner holds it like this: same reason, end and stickiness", _is_the_same),
    "held_otherwise": (
        "this owner holds it like this, but with another reason, end or stickiness",
        lambda state, wish: own(state, wish) is not None,
    ),
    "below_another_hold": ("a graver hold stands: maintenance, or for a cordon a drain", _graver),
    "above_another_hold": ("a lighter hold stands, and no graver one", _lighter),
    "forced": (
        "anybody holds it like this, and `force` is given",
        lambda state, wish: wish.force and bool(of_kind(state, wish)),
    ),
    "held": ("this owner holds it like this", lambda state, wish: own(state, wish) is not None),
    "held_by_others": (
        "only other owners hold it like this",
        lambda state, wish: bool(of_kind(state, wish)),
    ),
    "held_in_another_way": (
        "nobody holds it like this, but it is held in another way",
        lambda state, _: bool(state.standing_holds),
    ),
    "forced_with_workloads": (
        "workloads are allocated on it, and `force` is given",
        lambda state, wish: wish.force and bool(state.standing_allocations),
    ),
    "has_workloads": (
        "workloads are allocated on it",
        lambda state, _: bool(state.standing_allocations),
    ),
    "beating": ("it is alive", lambda state, _: state.liveness == "alive"),
    "any_other": ("in any other case", lambda _state, _wish: True),
}
"""Each situation in words, and how a known node is seen to be in it, where no rule before it applied."""
