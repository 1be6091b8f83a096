"""How people's decisions fold (floor 2, pure). They write `holds`, `retirement` and `declared`, nothing else.

Each is about the incarnation that it meets. What was decided about an earlier one is dropped by the next
decision, never by a report.
"""

from __future__ import annotations

from events.codec import Recorded
from events.facts import (
    AnnotationsSet,
    CapacityDeclared,
    Cordoned,
    DisplayNameSet,
    Drained,
    LabelsSet,
    MaintenanceEntered,
    MaintenanceLeft,
    Release,
    Restored,
    Retired,
    Uncordoned,
    Undrained,
)
from events.facts import Hold as Held
from projections.effect import effective_at, provisional, unchanged
from projections.parts import Declared, DeclaredResource, Hold, Retirement
from projections.state import NodeState

CORDONED = "cordoned"
DRAINING = "draining"
MAINTENANCE = "maintenance"


def cordoned(state: NodeState | None, fact: Recorded, data: Cordoned) -> NodeState:
    """Fold a cordon by one owner."""
    return _held(state, fact, data, CORDONED)


def uncordoned(state: NodeState | None, fact: Recorded, data: Uncordoned) -> NodeState | None:
    """Fold the end of one owner's cordon, or of all."""
    return _released(state, fact, data, CORDONED)


def drained(state: NodeState | None, fact: Recorded, data: Drained) -> NodeState:
    """Fold a drain by one owner."""
    return _held(state, fact, data, DRAINING)


def undrained(state: NodeState | None, fact: Recorded, data: Undrained) -> NodeState | None:
    """Fold the end of one owner's drain, or of all."""
    return _released(state, fact, data, DRAINING)


def maintenance_entered(state: NodeState | None, fact: Recorded, data: MaintenanceEntered) -> NodeState:
    """Fold maintenance by one owner."""
    return _held(state, fact, data, MAINTENANCE)


def maintenance_left(state: NodeState | None, fact: Recorded, data: MaintenanceLeft) -> NodeState | None:
    """Fold the end of one owner's maintenance, or of all."""
    return _released(state, fact, data, MAINTENANCE)


def retired(state: NodeState | None, fact: Recorded, data: Retired) -> NodeState:
    """Fold the tombstone of this incarnation; a second one changes nothing."""
    state = provisional(fact) if state is None else state
    if state.retired_at is not None:
        return unchanged(state, fact)
    last = state.retirement
    closed = 0 if last is None else last.closed if last.restored_at is not None else last.incarnation
    at = effective_at(state, fact)
    tomb = Retirement(state.incarnation, at, data.actor, data.reason, closed)
    return state._replace(version=fact.seq, changed_at=at, retirement=tomb)


def restored(state: NodeState | None, fact: Recorded, data: Restored) -> NodeState | None:
    """Fold that the retirement of this incarnation was taken back. Earlier verdicts are void from here."""
    if state is None:
        return None
    tomb = state.retirement
    if tomb is None or state.retired_at is None:
        return unchanged(state, fact)
    at = effective_at(state, fact)
    tomb = tomb._replace(restored_at=at, restored_seq=fact.seq)
    return state._replace(version=fact.seq, changed_at=at, retirement=tomb)


def labels_set(state: NodeState | None, fact: Recorded, data: LabelsSet) -> NodeState:
    """Fold declared labels over those declared before; None takes one away."""
    state = provisional(fact) if state is None else state
    declared = _declared(state)
    return _declare(state, fact, declared._replace(labels=_merged(declared.labels, data.labels)))


def annotations_set(state: NodeState | None, fact: Recorded, data: AnnotationsSet) -> NodeState:
    """Fold declared annotations, by the same rule as labels."""
    state = provisional(fact) if state is None else state
    declared = _declared(state)
    return _declare(
        state, fact, declared._replace(annotations=_merged(declared.annotations, data.annotations))
    )


def display_name_set(state: NodeState | None, fact: Recorded, data: DisplayNameSet) -> NodeState:
    """Fold a declared display name; None gives way to the reported one."""
    state = provisional(fact) if state is None else state
    return _declare(state, fact, _declared(state)._replace(display_name=data.display_name))


def capacity_declared(state: NodeState | None, fact: Recorded, data: CapacityDeclared) -> NodeState:
    """Fold declared capacity, replacing what was declared of each named resource; None takes it away."""
    state = provisional(fact) if state is None else state
    declared = _declared(state)
    resources = dict(declared.resources)
    for name, said in data.resources.items():
        numbers = None if said is None else DeclaredResource(said.total, said.reserved, said.ratio)
        if numbers is None or numbers == (None, None, None):
            resources.pop(name, None)
        else:
            resources[name] = numbers
    return _declare(state, fact, declared._replace(resources=resources))


def _held(state: NodeState | None, fact: Recorded, data: Held, kind: str) -> NodeState:
    state = provisional(fact) if state is None else state
    at = effective_at(state, fact)
    hold = Hold(kind, data.owner, data.actor, data.reason, at, data.until, data.sticky, state.incarnation)
    kept = []
    for other in state.standing_holds:
        if other.kind != kind or other.owner != data.owner:
            kept.append(other)
        elif other == hold._replace(at=other.at):
            return unchanged(state, fact)
    return state._replace(version=fact.seq, changed_at=at, holds=(*kept, hold))


def _released(state: NodeState | None, fact: Recorded, data: Release, kind: str) -> NodeState | None:
    if state is None:
        return None
    standing = state.standing_holds
    kept = tuple([hold for hold in standing if hold.kind != kind or data.owner not in (None, hold.owner)])
    if len(kept) == len(standing):
        return unchanged(state, fact)
    return state._replace(version=fact.seq, changed_at=effective_at(state, fact), holds=kept)


def _declared(state: NodeState) -> Declared:
    return state.standing_declared or Declared(state.incarnation, {}, {}, None, {})


def _declare(state: NodeState, fact: Recorded, declared: Declared) -> NodeState:
    if declared == _declared(state):
        return unchanged(state, fact)
    return state._replace(version=fact.seq, changed_at=effective_at(state, fact), declared=declared)


def _merged(known: dict[str, str], said: dict[str, str | None]) -> dict[str, str]:
    merged = {key: value for key, value in known.items() if key not in said}
    merged.update({key: value for key, value in said.items() if value is not None})
    return merged
