"""The engine locked down, so that a statement that got past the guard still reaches nothing (floor 3).

The settings are of the whole database, so the projection's writer lives under them too: it needs no file but
its own, no extension and no setting. A database that was begun anew while the process runs is locked again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

import duckdb

if TYPE_CHECKING:
    from api.sql_statement import SqlLimits

IS_LOCKED = "SELECT current_setting('lock_configuration')"
SETTINGS = (
    "arrow_lossless_conversion = true",
    "max_temp_directory_size = '{spill_bytes}B'",
    "allow_community_extensions = false",
    "autoinstall_known_extensions = false",
    "autoload_known_extensions = false",
    "python_enable_replacements = false",
    "enable_external_access = false",
    "lock_configuration = true",
)
"""In this order: the last one lets no other be changed, by anybody, until the process ends."""


class LockedCursors:
    """Gives cursors of a database that is locked down, in any thread; the caller closes each."""

    def __init__(self, cursor: Callable[[], duckdb.DuckDBPyConnection], *, limits: SqlLimits) -> None:
        self._cursor, self._limits = cursor, limits
        self._lock = threading.Lock()

    def __call__(self) -> duckdb.DuckDBPyConnection:
        """Return a new cursor."""
        cursor = self._cursor()
        try:
            if not _is_locked(cursor):
                self._lock_down(cursor)
        except BaseException:
            cursor.close()
            raise
        return cursor

    def _lock_down(self, cursor: duckdb.DuckDBPyConnection) -> None:
        with self._lock:
            if _is_locked(cursor):
                return  # another thread was quicker
            for setting in SETTINGS:
                cursor.execute("SET GLOBAL " + setting.format(spill_bytes=self._limits.spill_bytes))


def _is_locked(cursor: duckdb.DuckDBPyConnection) -> bool:
    return bool(cursor.execute(IS_LOCKED).fetchall()[0][0])
