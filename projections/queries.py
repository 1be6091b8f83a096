"""Fixed questions about nodes, their past and what changed, each on a reader's own cursor (floor 2).

What nodes are now, memory answers (`Projection.node`, `.nodes`, `.count_by_state`); the tables are asked for
the past. `projections.capacity_queries` holds the questions about amounts. Times come back aware and in UTC.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from events.ids import NodeId
from events.moments import from_us
from projections.directory import NodeFilter

if TYPE_CHECKING:
    import duckdb

NODE_AT = """
    SELECT
        node_id, state, liveness, intent, schedulable, region, zone, pool, incarnation,
        epoch_us(valid_from) AS valid_from_us, epoch_us(valid_to) AS valid_to_us, cause_seq, cause_type,
        actor, reason
    FROM fleet.node_history
    WHERE node_id = $node_id
        AND valid_from <= $at
        AND (valid_to IS NULL OR valid_to > $at)
    ORDER BY cause_seq DESC
    LIMIT 1
"""
NODES_AT = """
    SELECT
        node_id, state, liveness, intent, schedulable, region, zone, pool, incarnation,
        epoch_us(valid_from) AS valid_from_us, NULL AS valid_to_us, cause_seq, cause_type, actor, reason
    FROM fleet.nodes_at($at)
    WHERE node_id > $after
        AND ($state IS NULL OR state = $state)
        AND ($liveness IS NULL OR liveness = $liveness)
        AND ($intent IS NULL OR intent = $intent)
        AND ($region IS NULL OR region = $region)
        AND ($zone IS NULL OR zone = $zone)
        AND ($pool IS NULL OR pool = $pool)
        AND (state <> 'retired' OR $include_retired)
    ORDER BY node_id
    LIMIT $limit
"""
TIMELINE = """
    SELECT
        seq, epoch_us("at") AS at_us, node_id, kind, detail, "before", "after", cause_seq, n, actor, reason,
        damped
    FROM main.announcement
    WHERE node_id = $node_id AND seq < $before
    ORDER BY seq DESC
    LIMIT $limit
"""
QUARANTINE_COUNTS = """
    SELECT stream, reason, count(*)
    FROM main.quarantine
    GROUP BY stream, reason
    ORDER BY stream, reason
"""

END = 2**63 - 1
"""As `before`: from the newest on."""


class NodeBand(NamedTuple):
    """A node while none of this changed; `valid_to` is None where the band is open, or was not asked for."""

    node_id: NodeId
    state: str
    liveness: str
    intent: str
    schedulable: bool
    region: str | None
    zone: str | None
    pool: str | None
    incarnation: int
    valid_from: datetime
    valid_to: datetime | None
    cause_seq: int
    cause_type: str
    actor: str
    reason: str


class Change(NamedTuple):
    """One announcement; `before` and `after` are JSON. `seq` counts them, (`cause_seq`, `n`) names it.

    One that is `damped` nobody was told, since the node was flapping.
    """

    seq: int
    at: datetime
    node_id: NodeId
    kind: str
    detail: str
    before: str
    after: str
    cause_seq: int
    n: int
    actor: str
    reason: str
    damped: bool


def node_at(cursor: duckdb.DuckDBPyConnection, node_id: NodeId, at: datetime) -> NodeBand | None:
    """Return what a node was at a moment; None before it was known."""
    rows = cursor.execute(NODE_AT, {"node_id": node_id, "at": at}).fetchall()
    return _band(rows[0]) if rows else None


def nodes_at(
    cursor: duckdb.DuckDBPyConnection, at: datetime, asked: NodeFilter, *, after: str = "", limit: int
) -> list[NodeBand]:
    """Return the first nodes beyond `after` that fitted at a moment, in order of their ids.

    Of the filter, state, liveness, intent and places are looked at: the history keeps no other.
    """
    rows = cursor.execute(
        NODES_AT,
        {
            "at": at,
            "after": after,
            "state": asked.state,
            "liveness": asked.liveness,
            "intent": asked.intent,
            "region": asked.region,
            "zone": asked.zone,
            "pool": asked.pool,
            "include_retired": asked.include_retired or asked.state == "retired",
            "limit": limit,
        },
    ).fetchall()
    return [_band(row) for row in rows]


def timeline(
    cursor: duckdb.DuckDBPyConnection, node_id: NodeId, *, before: int = END, limit: int
) -> list[Change]:
    """Return what was announced of a node below the announcement `before`, newest first."""
    asked = {"node_id": node_id, "before": before, "limit": limit}
    return [_change(row) for row in cursor.execute(TIMELINE, asked).fetchall()]


def quarantine_counts(cursor: duckdb.DuckDBPyConnection) -> dict[tuple[str, str], int]:
    """Return how much is in quarantine, by stream and reason."""
    return {(stream, reason): n for stream, reason, n in cursor.execute(QUARANTINE_COUNTS).fetchall()}


# Times are asked for as numbers: as DuckDB gives them, they need a time zone library for each row.
def _band(row: tuple[Any, ...]) -> NodeBand:
    valid_to = None if row[10] is None else from_us(row[10])
    return NodeBand._make((*row[:9], from_us(row[9]), valid_to, *row[11:]))


def _change(row: tuple[Any, ...]) -> Change:
    return Change._make((row[0], from_us(row[1]), *row[2:]))
