"""Where a band of a history begins (floor 2, pure). The next row of the same node, or resource, ends it."""

from __future__ import annotations

from events.codec import Recorded
from projections.capacity import ABSENT, ResourceCapacity
from projections.decide import Seen, said_by
from projections.derive import Derived
from projections.parts import made
from projections.rows import CapacityHistoryRow, NodeHistoryRow

NUMBERS = ResourceCapacity._fields.index("free") + 1
"""How many of a resource's fields, from its name on, are columns of the history."""

STANDING = Derived._fields.index("schedulable") + 1
"""How many of the derived fields, from the word on, are columns of the history."""


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
