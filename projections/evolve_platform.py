"""How a scheduler's facts fold (floor 2, pure). They write `allocations` and nothing else."""

from __future__ import annotations

from events.codec import Recorded
from events.facts import Allocated, Released
from projections.effect import effective_at, provisional, unchanged
from projections.parts import Allocation
from projections.state import NodeState


def allocated(state: NodeState | None, fact: Recorded, data: Allocated) -> NodeState:
    """Fold what a workload was given, replacing what it held. A retired node is given nothing."""
    state = provisional(fact) if state is None else state
    if state.retired_at is not None:
        return unchanged(state, fact)
    at = effective_at(state, fact)
    given = Allocation(data.workload, data.amounts, at, state.incarnation)
    kept = []
    for held in state.standing_allocations:
        if held.workload != data.workload:
            kept.append(held)
        elif held.amounts == given.amounts and held.incarnation == given.incarnation:
            return unchanged(state, fact)
    return state._replace(version=fact.seq, changed_at=at, allocations=(*kept, given))


def released(state: NodeState | None, fact: Recorded, data: Released) -> NodeState | None:
    """Fold that a workload holds nothing any more, also on a retired node, which may be restored."""
    if state is None:
        return None
    kept = tuple([held for held in state.allocations if held.workload != data.workload])
    if len(kept) == len(state.allocations):
        return unchanged(state, fact)
    return state._replace(version=fact.seq, changed_at=effective_at(state, fact), allocations=kept)
