"""What an administrator of Stratum declares of a node: `PATCH` (floor 3, pure)."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

from api.dialects.refusal import Refusal
from api.dialects.rules import STRATUM
from api.dialects.stratum_reservation import CPU, MEMORY, chosen
from events.facts import DisplayNameSet, FactData, MaintenanceEntered, MaintenanceLeft
from projections.evolve_operator import MAINTENANCE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from api.dialects.reading import Members
    from projections.state import NodeState

RESERVED = {"reservedVCPUs": CPU, "reservedMemoryBytes": MEMORY}


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a body declares. A name of None takes the name away; a number of None gives a reservation back."""

    names: tuple[str | None, ...]
    """The one name that is given, or none."""
    reserved: dict[str, Decimal | None]
    state: str | None


def read_patch(body: Members) -> Wanted:
    """Return what a body declares; raise Refusal. What is left out stays as it is."""
    names: tuple[str | None, ...] = ()
    if "displayName" in body:
        is_null = body.values["displayName"] is None
        names = (None if is_null else body.text("displayName", at_least=1),)
    reserved: dict[str, Decimal | None] = {}
    for member, resource in RESERVED.items():
        if member in body:
            is_null = body.values[member] is None
            said = None if is_null else body.integer(member, minimum=0)
            reserved[resource] = None if said is None else Decimal(said)
    if reserved and None in reserved.values() and any(reserved.values()) and not body.faults:
        body.fault("reservedVCPUs", "both parts of a reservation are given back, or neither")
    state = body.text("state", choices=("ready", "maintenance"))
    body.done()
    return Wanted(names, reserved, state)


def decided(state: NodeState, wanted: Wanted, *, by: Mapping[str, str]) -> list[FactData]:
    """Return the facts that make a node what is declared; raise Refusal for a state that others hold."""
    facts: list[FactData] = []
    declared = state.standing_declared
    for name in wanted.names:
        if (declared.display_name if declared else None) != name:
            facts.append(DisplayNameSet.model_validate({**by, "display_name": name}))
    facts += chosen(state, wanted.reserved, by=by)
    own = [hold for hold in state.standing_holds if (hold.kind, hold.owner) == (MAINTENANCE, STRATUM)]
    match wanted.state:
        case "maintenance" if not own:
            facts.append(
                MaintenanceEntered.model_validate(
                    {**by, "owner": STRATUM, "reason": "set through the dialect"}
                )
            )
        case "ready" if own:
            facts.append(MaintenanceLeft.model_validate({**by, "owner": STRATUM}))
        case "ready" if state.standing_holds:
            held = ", ".join(sorted({f"{hold.kind} by {hold.owner}" for hold in state.standing_holds}))
            raise Refusal("conflict", f"the node is held by others: {held}", word="NODE_HELD")
        case _:
            pass
    return facts
