"""The application of a SQL replica in this process, over a fleet that is folded here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from starlette.applications import Starlette

from api.sql_app import SqlReplica
from api.sql_engine import LockedCursors
from api.sql_executor import SqlExecutor
from api.sql_guard import Guard
from api.sql_schema import relations_of
from api.sql_statement import SqlLimits
from api.sql_watchdog import Watchdog
from projections.positions import Positions
from tests.support.fleet import Fleet
from tests.support.sql import never_ends, no_alarm


@contextmanager
def replica_app(
    folded: Fleet,
    *,
    limits: SqlLimits | None = None,
    token: str = "",
    is_worn: Callable[[], bool] = lambda: False,
    end: Callable[[str], None] = never_ends,
) -> Iterator[Starlette]:
    """Give the application; the process is asked to end through `end`, and its alarm is never armed."""
    limits = limits or SqlLimits()
    watchdog = Watchdog(end=never_ends, arm=no_alarm)
    watchdog.start()
    cursors = LockedCursors(folded.projection.cursor, limits=limits)
    with cursors() as cursor:
        guard = Guard(relations_of(cursor))
    positions = Positions(folded.projection)
    executor = SqlExecutor(
        cursors,
        guard=guard,
        watchdog=watchdog,
        limits=limits,
        readings=lambda: folded.readings,
        end=never_ends,
    )
    replica = SqlReplica(
        executor,
        cursor=cursors,
        readings=lambda: folded.readings,
        positions=positions,
        is_worn=is_worn,
        end=end,
        token=token,
    )
    try:
        yield replica.app()
    finally:
        positions.close()
        guard.close()
        watchdog.stop()
