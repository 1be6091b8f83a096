"""Fixed questions about what was announced, a page at a time (floor 2).

Each is asked of one state of the tables: its rows, the epoch and the position belong together. Damped
announcements are in no page; the timeline of their node has them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any

import duckdb

from events.announcements import Announcement
from events.change_cursor import ChangeCursor
from events.moments import from_us, to_us
from events.streams import FLEET_NAME
from projections.derive import FLAPPING
from projections.latest import ChangesPage, Reached

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from events.ids import NodeId

REACHED = """
    SELECT epoch, seq, stored_at_ns
    FROM main.checkpoint
    WHERE stream = $stream
"""
NUMBER_AT = """
    SELECT coalesce(max(seq), 0)
    FROM main.announcement
    WHERE cause_seq < $seq
        OR (cause_seq = $seq AND n <= $n)
"""
LAST_NUMBER = """
    SELECT coalesce(max(seq), 0)
    FROM main.announcement
"""
# A range of numbers is found by its row groups alone, however long the log is; so is one of causes.
EVERYTHING = """
    SELECT
        a.cause_seq, a.n, epoch_us(a."at"), a.node_id, a.kind, a.detail, a."before", a."after", a.actor,
        a.reason, f."type", epoch_us(f.stored_at), a.seq, a.damped
    FROM main.announcement AS a
    JOIN main.fact AS f ON f.seq = a.cause_seq
    WHERE a.seq > $number
        AND a.seq <= $number + $limit
        AND f.seq >= $seq
    ORDER BY a.seq
"""
SELECTED = """
    SELECT
        a.cause_seq, a.n, epoch_us(a."at"), a.node_id, a.kind, a.detail, a."before", a."after", a.actor,
        a.reason, f."type", epoch_us(f.stored_at), a.seq, a.damped
    FROM main.announcement AS a
    JOIN main.fact AS f ON f.seq = a.cause_seq
    WHERE a.seq > $number
        AND f.seq >= $seq
        AND NOT a.damped
        AND (len($nodes) = 0 OR list_contains($nodes, a.node_id))
        AND (
            len($kinds) = 0
            OR list_contains($kinds, a.kind)
            OR list_contains($kinds, a.kind || '.' || a.detail)
        )
    ORDER BY a.seq
    LIMIT $limit
"""
NUMBER, DAMPED = 12, 13
HOLES = """
    SELECT low, high
    FROM main.hole
    WHERE stream = $stream AND epoch = $epoch AND high > $seq
    ORDER BY low
"""
STORED_AT = """
    SELECT epoch_us(stored_at)
    FROM main.fact
    WHERE seq = $seq
"""
FIRST_SINCE = """
    SELECT min(seq)
    FROM main.fact
    WHERE stored_at >= make_timestamptz($at_us)
"""

NODES_IN_CONDITION = """
    SELECT node_id
    FROM main.node
    WHERE list_contains(conditions, $condition)
    ORDER BY node_id
"""


def reached(cursor: DuckDBPyConnection) -> Reached:
    """Return how far FLEET is folded."""
    rows = cursor.execute(REACHED, {"stream": FLEET_NAME}).fetchall()
    return Reached(*rows[0]) if rows else Reached("", 0, 0)


def changes(
    cursor: DuckDBPyConnection,
    *,
    after: ChangeCursor,
    number: int | None = None,
    limit: int,
    nodes: tuple[NodeId, ...] = (),
    kinds: tuple[str, ...] = (),
) -> ChangesPage:
    """Return a page of what was announced after a position of the epoch that is folded.

    `number` is that of the page before, of the same tables; None looks it up. `nodes` and `kinds` select, and
    none of them selects all; a kind is `state` or `state.lost`. Where the tables are of another epoch than
    `after`, or end before it, the page is empty and `reached` says so.
    """
    with _one_state(cursor):
        now = reached(cursor)
        if now.epoch != after.epoch or now.seq < after.seq:
            return ChangesPage(now, [], after, 0, False, [])
        if number is None:
            number = _number(cursor, NUMBER_AT, {"seq": after.seq, "n": after.n})
        asked = {"number": number, "seq": after.seq, "limit": limit}
        if nodes or kinds:
            rows = cursor.execute(SELECTED, {**asked, "nodes": list(nodes), "kinds": list(kinds)}).fetchall()
            is_last = len(rows) < limit
        else:
            rows = cursor.execute(EVERYTHING, asked).fetchall()
            is_last = number + limit >= _number(cursor, LAST_NUMBER, {})
        found = cursor.execute(HOLES, {"stream": FLEET_NAME, "epoch": now.epoch, "seq": after.seq}).fetchall()
    if rows:
        number = int(rows[-1][NUMBER])
    end = ChangeCursor(now.epoch, now.seq) if is_last else ChangeCursor(now.epoch, *rows[-1][:2])
    told = [_announcement(now.epoch, row) for row in rows if not row[DAMPED]]
    return ChangesPage(now, told, end, number, is_last, [hole for hole in found if hole[0] <= end.seq])


def stored_at(cursor: DuckDBPyConnection, seq: int) -> datetime | None:
    """Return when the broker stored the fact at a sequence; None where no fact was read there."""
    rows = cursor.execute(STORED_AT, {"seq": seq}).fetchall()
    return from_us(rows[0][0]) if rows else None


def begin_since(cursor: DuckDBPyConnection, at: datetime) -> ChangeCursor:
    """Return the position before the first fact that was stored at a moment or later."""
    with _one_state(cursor):
        now = reached(cursor)
        rows = cursor.execute(FIRST_SINCE, {"at_us": to_us(at)}).fetchall()
    first = rows[0][0]
    return ChangeCursor(now.epoch, now.seq if first is None else int(first) - 1)


def flapping(cursor: DuckDBPyConnection) -> list[NodeId]:
    """Return the nodes that are flapping."""
    return [node_id for (node_id,) in cursor.execute(NODES_IN_CONDITION, {"condition": FLAPPING}).fetchall()]


@contextmanager
def _one_state(cursor: DuckDBPyConnection) -> Iterator[None]:
    """Let the questions of a block see one commit."""
    cursor.execute("BEGIN TRANSACTION")
    try:
        yield
    except BaseException:
        with suppress(duckdb.Error):
            cursor.execute("ROLLBACK")
        raise
    cursor.execute("COMMIT")


def _number(cursor: DuckDBPyConnection, question: str, asked: dict[str, Any]) -> int:
    return int(cursor.execute(question, asked).fetchall()[0][0])


def _announcement(epoch: str, row: tuple[Any, ...]) -> Announcement:
    cause_seq, n, at_us, *told, cause_type, cause_at_us = row[:NUMBER]
    return Announcement._make((epoch, cause_seq, n, from_us(at_us), *told, cause_type, from_us(cause_at_us)))
