"""What the tables know that explains one node: its verdict's fact, its zone, what was unreadable (floor 2).

Each question is on a reader's own cursor. A fact is found by its sequence, which costs next to nothing.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from events.ids import NodeId
from events.moments import from_us
from projections.evidence import Judged, ZoneSilence

if TYPE_CHECKING:
    import duckdb

JUDGED = """
    SELECT
        coalesce(f."data"->>'$.rule', ''),
        epoch_us(try_cast(f."data"->>'$.last_heartbeat_at' AS TIMESTAMPTZ)),
        try_cast(f."data"->>'$.beat_seq' AS BIGINT),
        try_cast(f."data"->>'$.silent_s' AS DOUBLE),
        try_cast(f."data"->>'$.grace_s' AS DOUBLE),
        epoch_us(try_cast(f."data"->>'$.deadline_at' AS TIMESTAMPTZ))
    FROM main.fact AS f
    WHERE f.seq = $seq
"""
ZONE = """
    SELECT
        z.zone, z.is_silent, epoch_us(z.since), z."count", z.members, epoch_us(z.held_until),
        coalesce(z.rule, ''), z.cause_seq
    FROM fleet.zones AS z
    WHERE z.zone = $zone
"""
REJECTS = """
    SELECT q.stream, count(*), epoch_us(max(q.stored_at)), arg_max(q.reason, q.stored_at)
    FROM main.quarantine AS q
    WHERE q.node_id = $node_id
    GROUP BY q.stream
    ORDER BY q.stream
"""


class Rejects(NamedTuple):
    """The records about a node in one stream that could not be read: how many, and the newest one."""

    stream: str
    records: int
    last_at: datetime
    last_reason: str


def judged(cursor: duckdb.DuckDBPyConnection, seq: int) -> Judged | None:
    """Return what the verdict at this sequence says it was made on."""
    rows = cursor.execute(JUDGED, {"seq": seq}).fetchall()
    if not rows:
        return None
    rule, heard_us, beat_seq, silent_s, grace_s, deadline_us = rows[0]
    return Judged(rule, _moment(heard_us), beat_seq, silent_s, grace_s, _moment(deadline_us))


def zone_silence(cursor: duckdb.DuckDBPyConnection, zone: str) -> ZoneSilence | None:
    """Return what the last fact about a zone says, None where there is none."""
    rows = cursor.execute(ZONE, {"zone": zone}).fetchall()
    if not rows:
        return None
    name, is_silent, since_us, silent, members, held_us, rule, cause_seq = rows[0]
    return ZoneSilence(name, is_silent, from_us(since_us), silent, members, _moment(held_us), rule, cause_seq)


def rejects(cursor: duckdb.DuckDBPyConnection, node_id: NodeId) -> list[Rejects]:
    """Return what of a node's records could not be read, by stream."""
    return [
        Rejects(stream, records, from_us(last_us), reason)
        for stream, records, last_us, reason in cursor.execute(REJECTS, {"node_id": node_id}).fetchall()
    ]


def _moment(us: int | None) -> datetime | None:
    return None if us is None else from_us(us)
