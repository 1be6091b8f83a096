"""Where announcing goes on: found from the end of CHANGES itself, and checked against the log (floor 3).

Nothing else is remembered. The last message says which fact it came of, and when that one was stored; while
FLEET holds that record, announcing goes on after it. If not, FLEET was made again or went back, which is
announced first.
"""

from __future__ import annotations

import logging
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import duckdb

from consumers.changes_stream import ChangesEnd, Found, append_changes, changes_end, last_told
from consumers.lineage import check_lineage
from consumers.stream_api import StreamState, record_at, stream_state
from events.announcements import EPOCH, REWOUND, encode_break
from events.change_cursor import ChangeCursor
from events.errors import StoreError
from events.log import Cursor
from events.moments import from_us
from events.stream_admin import ensure_streams
from events.streams import CHANGES, FLEET_NAME
from projections.change_queries import begin_since, reached, stored_at
from projections.latest import Reached

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from duckdb import DuckDBPyConnection
    from nats.aio.client import Client

    from projections.projection import Projection

log = logging.getLogger(__name__)
Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Place:
    """Where announcing goes on: after `cursor` of the log, and at the end of CHANGES.

    `epoch` and `last_seq` are those of CHANGES as they have to be still when something is appended. `number`
    counts the announcements up to the cursor in tables that were opened so many times; None: not looked up.
    """

    epoch: str
    last_seq: int
    cursor: ChangeCursor
    openings: int
    number: int | None = None


async def find_place(nc: Client, projection: Projection) -> tuple[Place | None, bool]:
    """Return where announcing goes on, None while the tables have not folded what tells; and whether the log
    turned out to be another one, which is announced then.

    Raises NotAnsweredError and BrokerUnavailableError while nobody answers, EpochChangedError and
    LogRewoundError while the tables are still of another log than the broker's, AppendRefusedError where
    somebody else announces, StreamDriftError and RefusedError where CHANGES cannot be had, StoreError.
    """
    await ensure_streams(nc, (CHANGES,))
    openings = projection.openings
    fleet = await stream_state(nc, FLEET_NAME)
    tables = ask_tables(projection, reached)
    if not tables.epoch:
        if fleet.last_seq:
            return None, False
        tables = Reached(fleet.epoch, 0, 0)
    await check_lineage(nc, FLEET_NAME, Cursor(*tables), fleet)
    end = await changes_end(nc)
    found = await last_told(nc, end, before=end.last_seq + 1)
    if found is None:
        begin = _begin(projection, end, tables, fleet)
        return None if begin is None else Place(end.epoch, end.last_seq, begin, openings), False
    told = found.told.cursor
    if told.epoch != tables.epoch:
        after = ChangeCursor(tables.epoch, 0)
        why = f"FLEET was made again: the announcements so far are of the one created at {told.epoch}"
        last = await _tell(nc, end, found, EPOCH, after=after, cause_at=None, why=why)
        return Place(end.epoch, last, after, openings), True
    if await _is_of(nc, found, projection):
        return Place(end.epoch, end.last_seq, told, openings), False
    if tables.seq < fleet.last_seq:
        return None, False
    common = await _common(nc, end, found, projection)
    after = ChangeCursor(tables.epoch, 0) if common is None else common.told.cursor
    why = f"FLEET went back: it no longer holds what was announced after {after}"
    cause_at = None if common is None else common.told.cause_at
    last = await _tell(nc, end, found, REWOUND, after=after, cause_at=cause_at, why=why)
    return Place(end.epoch, last, after, openings), True


def ask_tables(projection: Projection, question: Callable[[DuckDBPyConnection], Answer]) -> Answer:
    """Return what a question finds, on a cursor of its own; raise StoreError."""
    try:
        with closing(projection.cursor()) as cursor:
            return question(cursor)
    except duckdb.Error as err:
        raise StoreError(str(projection.path), why=str(err)) from err


def _begin(
    projection: Projection, end: ChangesEnd, tables: Reached, fleet: StreamState
) -> ChangeCursor | None:
    """Return where to begin in a CHANGES that holds nothing: at what it would still hold."""
    if end.max_age is None:
        return ChangeCursor(tables.epoch, 0)
    oldest = end.now - end.max_age
    begin = ask_tables(projection, lambda cursor: begin_since(cursor, oldest))
    if begin.seq >= tables.seq and tables.seq < fleet.last_seq:
        return None  # all that is folded is older, and so may be what is not
    return ChangeCursor(tables.epoch, begin.seq)


async def _is_of(nc: Client, found: Found, projection: Projection) -> bool:
    """Say whether FLEET holds the fact that a message came of; one that came of none is believed."""
    seq, cause_at = found.told.cursor.seq, found.told.cause_at
    if cause_at is None:
        return seq == 0
    record = await record_at(nc, FLEET_NAME, seq)
    if record is not None:
        return from_us(record.stored_at_ns // 1000) == cause_at
    return ask_tables(projection, lambda cursor: stored_at(cursor, seq)) == cause_at


async def _common(nc: Client, end: ChangesEnd, last: Found, projection: Projection) -> Found | None:
    """Return the last message whose fact the log still holds; None where it holds none of this epoch."""
    found: Found | None = last
    while found is not None and found.told.cursor.epoch == last.told.cursor.epoch:
        if await _is_of(nc, found, projection):
            return found
        found = await last_told(nc, end, before=found.record)
    return None


async def _tell(
    nc: Client,
    end: ChangesEnd,
    last: Found,
    detail: str,
    *,
    after: ChangeCursor,
    cause_at: datetime | None,
    why: str,
) -> int:
    message = encode_break(
        detail,
        before=last.told.cursor,
        after=after,
        cause_at=cause_at,
        record=last.record,
        time=end.now,
        why=why,
    )
    stored = await append_changes(nc, [message], last_seq=end.last_seq)
    log.error(
        "the log is another one: announced",
        extra={"detail": detail, "before": str(last.told.cursor), "after": str(after), "why": why},
    )
    return stored
