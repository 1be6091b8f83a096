"""Who says what a Stratum node keeps for itself, and what is left to commit (floor 3, pure).

What an operator declared, here or through the native routes, stands until an operator takes it back; then a
lone node computes its reservation from its size, and a node of a cluster reports it.

    committable = floor((total - reserved) x ratio), never below zero
"""

from __future__ import annotations

from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from typing import TYPE_CHECKING, Any, Literal

from events.facts import CapacityDeclared, DeclaredResource, Resource
from projections.capacity import ResourceCapacity, capacity
from projections.parts import DeclaredResource as Declared
from projections.state import NodeState

if TYPE_CHECKING:
    from collections.abc import Mapping

Source = Literal["reported", "computed", "operator"]
COMPUTED: Source = "computed"
CPU, MEMORY = "cpu", "memory"
RESOURCES = (CPU, MEMORY)

LEAST_VCPUS, VCPU_SHARE = Decimal(2), Decimal("0.06")
LEAST_MEMORY, MEMORY_SHARE = Decimal(6 * 2**30), Decimal("0.1")

_EXACT = Context(prec=200, rounding=ROUND_FLOOR)
# A total has 19 digits and a ratio 37 at most: no product of them is rounded.


def computed(*, vcpus: int, memory_bytes: int) -> dict[str, Decimal]:
    """Return what a lone node of a size keeps for itself; shares are rounded up to a whole unit."""
    return {
        CPU: max(LEAST_VCPUS, _whole(vcpus * VCPU_SHARE)),
        MEMORY: max(LEAST_MEMORY, _whole(memory_bytes * MEMORY_SHARE)),
    }


def source(state: NodeState) -> Source:
    """Return who says what a node keeps for itself."""
    if any(declared.reserved is not None for declared in _declared(state).values()):
        return "operator"
    reported = state.resources.get(CPU)
    return COMPUTED if reported is not None and reported.source == COMPUTED else "reported"


def numbers(state: NodeState) -> dict[str, ResourceCapacity]:
    """Return the numbers in force of vCPUs and memory, by resource."""
    return {one.resource: one for one in capacity(state) if one.resource in RESOURCES}


def committable(one: ResourceCapacity) -> Decimal | None:
    """Return how much of a resource may be handed out, None where its total is unknown."""
    if one.total is None:
        return None
    left = _EXACT.subtract(one.total, one.reserved or Decimal(0))
    ratio = Decimal(1) if one.ratio is None else one.ratio
    return _EXACT.quantize(_EXACT.multiply(max(left, Decimal(0)), ratio), Decimal(1))


def chosen(
    state: NodeState, wanted: Mapping[str, Decimal | None], *, by: Mapping[str, str]
) -> list[CapacityDeclared]:
    """Return the fact that makes a reservation the operator's, or gives it back, none where it is so.

    A reservation is one thing: what is chosen of one resource keeps what is in force of the other. A number
    that is None gives back both.
    """
    declared, in_force = _declared(state), numbers(state)
    is_given_back = all(number is None for number in wanted.values())
    changed: dict[str, Any] = {}
    for name in RESOURCES if wanted else ():
        before = declared.get(name, Declared())
        if is_given_back:
            reserved = None
        elif wanted.get(name) is not None:
            reserved = wanted[name]
        else:
            reserved = in_force[name].reserved if name in in_force else before.reserved
        if reserved != before.reserved:
            kept = before._replace(reserved=reserved)
            changed[name] = None if kept == Declared() else DeclaredResource(**kept._asdict())
    return [CapacityDeclared.model_validate({**by, "resources": changed})] if changed else []


def installed(
    chosen_numbers: Mapping[str, Decimal | None],
    resources: Mapping[str, Resource],
    *,
    by: Mapping[str, str],
) -> CapacityDeclared:
    """Return the fact that declares what an installation keeps of a node that registers for the first time.

    What it does not choose stays, for good, as the registration has it.
    """
    reserved = {
        name: number if (number := chosen_numbers.get(name)) is not None else resources[name].reserved
        for name in RESOURCES
    }
    told = {name: {"reserved": number} for name, number in reserved.items() if number is not None}
    return CapacityDeclared.model_validate(
        {**by, "reason": "the reservation of the installation", "resources": told}
    )


def _declared(state: NodeState) -> Mapping[str, Declared]:
    declared = state.standing_declared
    found = {} if declared is None else declared.resources
    return {name: found[name] for name in RESOURCES if name in found}


def _whole(amount: Decimal) -> Decimal:
    return amount.to_integral_value(ROUND_CEILING)
