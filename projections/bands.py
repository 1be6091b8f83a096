"""Where a band of a history begins (floor 2, pure): the next of the same node, resource or label ends it."""

from __future__ import annotations

from events.codec import Recorded
from projections.capacity import ABSENT, ResourceCapacity
from projections.decide import Seen, said_by
from projections.derive import Derived
from projections.parts import made
from projections.rows import CapacityHistoryRow, LabelHistoryRow, NodeHistoryRow
from projections.state import NodeState

NUMBERS = ResourceCapacity._fields.index("free") + 1
"""How many of a resource's fields, from its name on, are columns of the history."""

STANDING = Derived._fields.index("schedulable") + 1
"""How many of the derived fields, from the word on, are columns of the history."""

_AGENT, _OPERATOR = "agent", "operator"
_GONE = (None, None)


def node_bands(before: Seen | None, after: Seen, fact: Recorded) -> tuple[NodeHistoryRow, ...]:
    """Return the row that begins a band, if the fact began one."""
    state, now = after.state, after.derived
    if before is not None:
        old, was = before.state, before.derived
        if (
            (was is now or (was[:STANDING] == now[:STANDING] and was.liveness == now.liveness))
            and old.incarnation == state.incarnation
            and old.zone == state.zone
            and old.pool == state.pool
            and old.region == state.region
        ):
            return ()
    actor, reason = said_by(fact)
    band = (
        state.node_id,
        now.state,
        now.liveness,
        now.intent,
        now.schedulable,
        state.region,
        state.zone,
        state.pool,
        state.incarnation,
        state.changed_at,
        fact.seq,
        fact.type,
        actor,
        reason,
    )
    return (made(NodeHistoryRow, band),)


def capacity_bands(before: Seen | None, after: Seen, fact: Recorded) -> list[CapacityHistoryRow]:
    """Return a row for each resource whose numbers the fact changed, by name; `absent` where it went away."""
    had, has = () if before is None else before.resources, after.resources
    if had is has:
        return []
    node_id, at = after.state.node_id, after.state.changed_at
    if not had:
        return [made(CapacityHistoryRow, (node_id, *one[:NUMBERS], at, fact.seq)) for one in has]
    known = {one.resource: one for one in had}
    rows = []
    for one in has:
        old = known.pop(one.resource, None)
        if old is one:
            continue
        if old is None or old[:NUMBERS] != one[:NUMBERS]:
            rows.append(made(CapacityHistoryRow, (node_id, *one[:NUMBERS], at, fact.seq)))
    if known:
        rows.extend(
            CapacityHistoryRow(node_id, name, ABSENT, None, None, None, None, None, None, at, fact.seq)
            for name in known
        )
        rows.sort(key=lambda row: row.resource)
    return rows


def label_bands(before: Seen | None, after: Seen, fact: Recorded) -> list[LabelHistoryRow]:
    """Return a row for each label whose effective value, or its owner, the fact changed, by key."""
    new = after.state
    if before is None:
        had: dict[str, tuple[str | None, str | None]] = {}
    else:
        old = before.state
        if new.labels == old.labels and new.declared is old.declared and new.incarnation == old.incarnation:
            return []
        had = _owned_labels(old)
    has = _owned_labels(new)
    if not had and not has:
        return []
    node_id, at, seq = new.node_id, new.changed_at, fact.seq
    return [
        made(LabelHistoryRow, (node_id, key, *has.get(key, _GONE), at, seq))
        for key in sorted({**had, **has})
        if had.get(key) != has.get(key)
    ]


def _owned_labels(state: NodeState) -> dict[str, tuple[str | None, str | None]]:
    owned: dict[str, tuple[str | None, str | None]] = {
        key: (value, _AGENT) for key, value in state.labels.items()
    }
    declared = state.standing_declared
    if declared is not None:
        for key, value in declared.labels.items():
            owned[key] = value, _OPERATOR
    return owned
