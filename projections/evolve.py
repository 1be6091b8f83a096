"""The fold: a node's state and the next fact about it give the next state (floor 2, pure).

It never fails on a fact of the log. What should not have happened moves `version` and a counter, no more.
Facts about zones change no node.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from events import facts
from events.codec import Recorded
from projections import evolve_agent, evolve_liveness, evolve_operator, evolve_platform, flapping
from projections.effect import unchanged
from projections.state import NodeState

Fold = Callable[[NodeState | None, Recorded, Any], NodeState | None]

_FOLDS: dict[type[facts.FactData | None], Fold] = {
    facts.Registered: evolve_agent.registered,
    facts.Leaving: evolve_agent.leaving,
    facts.Cordoned: evolve_operator.cordoned,
    facts.Uncordoned: evolve_operator.uncordoned,
    facts.Drained: evolve_operator.drained,
    facts.Undrained: evolve_operator.undrained,
    facts.MaintenanceEntered: evolve_operator.maintenance_entered,
    facts.MaintenanceLeft: evolve_operator.maintenance_left,
    facts.Retired: evolve_operator.retired,
    facts.Restored: evolve_operator.restored,
    facts.LabelsSet: evolve_operator.labels_set,
    facts.AnnotationsSet: evolve_operator.annotations_set,
    facts.DisplayNameSet: evolve_operator.display_name_set,
    facts.CapacityDeclared: evolve_operator.capacity_declared,
    facts.Allocated: evolve_platform.allocated,
    facts.Released: evolve_platform.released,
    facts.Alive: evolve_liveness.alive,
    facts.Lost: evolve_liveness.lost,
    facts.Settled: evolve_liveness.settled,
}


def evolve(state: NodeState | None, fact: Recorded) -> NodeState | None:
    """Return the node's state after the fact; None where nothing is known about the node still.

    Facts come in stream order. A fact that changes nothing about an unknown node does not create one.
    """
    fold = _FOLDS.get(type(fact.data))
    if fold is not None and fact.node_id is not None:
        after = fold(state, fact, fact.data)
        return after if state is None or after is None else flapping.counted(state, after)
    return None if state is None else unchanged(state, fact)
