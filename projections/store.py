"""The DuckDB file: opened, made, written in transactions (floor 2).

One process holds the file, and one thread of it writes. Readers take a `cursor()` each, in any thread, and
see whole transactions only. What the file holds can always be built again from the log: a file that cannot be
used is moved aside and a fresh one made, and since its cursors are empty, the log is read again from the
beginning.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import threading
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import duckdb

from events.errors import StoreError
from projections.damaged import (
    Recovery,
    Word,
    first_line,
    is_held_elsewhere,
    move_aside,
    reason_outside,
    spilled_of,
)
from projections.fleet_schema import SCHEMA, create_views
from projections.tables import META, TABLES, TABLES_VERSION
from projections.transaction import Plans, Transaction

Loaded = TypeVar("Loaded")

HELD = (
    "the file belongs to the process that has it open; ask its service through `fleetfold sql`, "
    "or read the replica's"
)
COSTLY = "zstd,fsst,dict_fsst"
# Ways to compress texts. With them a checkpoint of 64 MB stops the writer for 450 ms, without for 325; the
# file is half as large again (12 instead of 8 MB after 6,000 facts; DuckDB 1.5.5).
HIDING = frozenset({SCHEMA, "main", "system", "temp"})
# DuckDB calls a database like its file, and takes fleet.nodes for a table of a database `fleet`.


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreSettings:
    """How DuckDB is opened.

    `checkpoint_at` is the size at which a commit writes the WAL into the file, `checkpoint_behind` that
    while the log is far ahead: then a stall matters less than writing each block seldom. More of it makes
    stalls rarer, not shorter in sum, and each start after a kill longer (2 s for 64 MB). A statement runs on
    `threads`: a second one costs a third of the processor time of a small transaction, and makes it no
    quicker; what gains from it is asked of the SQL replica.
    """

    memory_limit: str = "512MB"
    threads: int = 1
    checkpoint_at: str = "64MB"
    checkpoint_behind: str = "512MB"


class Store:
    """An open file. `recovered` says why it is a fresh one, None where it is as it was left."""

    def __init__(self, path: Path, settings: StoreSettings, lock: int) -> None:
        self.path, self.recovered = path, None
        self._settings, self._lock = settings, lock
        self._is_behind = False
        self._cursors: weakref.WeakSet[duckdb.DuckDBPyConnection] = weakref.WeakSet()
        # Held while cursors are given out and while all are closed: one that slipped through would keep the
        # old database alive in this process, and the fresh file would be the old one again.
        self._opening = threading.Lock()
        self._root: duckdb.DuckDBPyConnection
        self._writer: duckdb.DuckDBPyConnection
        self._plans: Plans

    recovered: Recovery | None

    @classmethod
    def open(cls, path: Path, settings: StoreSettings) -> Store:
        """Open the file, or make it; raise StoreError where it is held elsewhere or cannot be made."""
        path.parent.mkdir(parents=True, exist_ok=True)
        store = cls(path, settings, lock(path))
        try:
            store._open()
        except BaseException:
            store.close()
            raise
        return store

    def cursor(self) -> duckdb.DuckDBPyConnection:
        """Return a connection for one reader thread, which closes it; times are shown in UTC.

        Waits while the store starts over.
        """
        with self._opening:
            cursor = self._root.cursor()
            self._cursors.add(cursor)
            return cursor

    def start_over(self, *, why: str) -> None:
        """Move the file aside and go on with a fresh one. Cursors that were given out are closed.

        Raises StoreError where there is no room for a fresh one; it may be called again then.
        """
        with self._opening:
            self._close_connections()
            self._begin_empty("damaged", why=why)

    def load(
        self, read: Callable[[duckdb.DuckDBPyConnection], Loaded], *, empty: Callable[[], Loaded]
    ) -> Loaded:
        """Return what `read` makes of the tables; where they are damaged, start over and return `empty()`."""
        try:
            return read(self._writer)
        except duckdb.Error as err:
            translated = self._translated(err)
            if not translated.is_fatal:
                raise translated from err
            self.start_over(why=translated.why)
            return empty()

    @contextlib.contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """Give what writes within one transaction, which is committed at the end, or undone by any error.

        Called by the writer thread only. DuckDB's errors come out as StoreError.
        """
        try:
            self._writer.execute("BEGIN TRANSACTION")
            try:
                yield Transaction(self._writer, self._plans)
                self._writer.execute("COMMIT")
            except BaseException:
                with contextlib.suppress(duckdb.Error):
                    self._writer.execute("ROLLBACK")
                self._plans = Plans(self._writer)
                raise
        except duckdb.Error as err:
            raise self._translated(err) from err

    def set_pace(self, *, is_behind: bool) -> None:
        """Say whether the log is far ahead. Called by the writer thread only, between transactions.

        Where strangers' SQL is answered the settings are locked, and the pace stays as it is.
        """
        if is_behind == self._is_behind:
            return
        self._is_behind = is_behind
        size = self._settings.checkpoint_behind if is_behind else self._settings.checkpoint_at
        try:
            with contextlib.suppress(duckdb.InvalidInputException):
                self._writer.execute("SET GLOBAL wal_autocheckpoint = $size", {"size": size})
        except duckdb.Error as err:
            raise self._translated(err) from err

    def checkpoint(self) -> None:
        """Write the WAL into the file. Called by the writer thread only, between transactions."""
        try:
            self._writer.execute("CHECKPOINT")
        except duckdb.TransactionException:
            return  # a reader has an older snapshot open: the next one will do
        except duckdb.Error as err:
            raise self._translated(err) from err

    def close(self) -> None:
        """Close every connection and give the file free. Closing twice is fine."""
        with self._opening:
            self._close_connections()
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def _open(self) -> None:
        outside = reason_outside(self.path)
        if outside is not None:
            raise StoreError(str(self.path), why=outside, instead="give it a folder of its own with room")
        if self.path.stem.lower() in HIDING:
            raise StoreError(str(self.path), why="its name hides a schema", instead="name it otherwise")
        try:
            self._connect()
            found = self._found_version()
        except duckdb.Error as err:
            self._close_connections()
            if is_held_elsewhere(self.path):
                raise StoreError(str(self.path), why="another process has it open", instead=HELD) from err
            self._check_settings()
            self.start_over(why=first_line(err))
            return
        if found == 0:
            self._make_tables()
        elif found != TABLES_VERSION:
            self._close_connections()
            self._begin_empty("outdated", why=f"its tables have version {found}, ours have {TABLES_VERSION}")

    def _begin_empty(self, word: Word, *, why: str) -> None:
        try:
            self.recovered = move_aside(self.path, word, why=why)
            self._connect()
        except duckdb.Error as err:
            raise self._translated(err) from err
        except OSError as err:
            raise StoreError(str(self.path), why=f"it cannot be moved aside: {err.strerror}") from err
        self._make_tables()

    def _connect(self) -> None:
        self._is_behind = False
        self._root = duckdb.connect(self.path, config=self._config())
        self._root.execute("SET GLOBAL TimeZone = 'UTC'")
        self._writer = self._root.cursor()
        self._plans = Plans(self._writer)

    def _config(self) -> dict[str, Any]:
        return {
            "memory_limit": self._settings.memory_limit,
            "threads": self._settings.threads,
            "wal_autocheckpoint": self._settings.checkpoint_at,
            "disabled_compression_methods": COSTLY,
            "temp_directory": str(spilled_of(self.path)),
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
            "python_enable_replacements": False,
        }

    def _check_settings(self) -> None:
        try:
            duckdb.connect(":memory:", config=self._config()).close()
        except duckdb.Error as err:
            why = f"DuckDB refuses its settings: {first_line(err)}"
            raise StoreError(str(self.path), why=why) from err

    def _found_version(self) -> int:
        """Return the version of the tables that are there: 0 for none, -1 for somebody else's."""
        names = {
            name for (name,) in self._writer.execute("SELECT table_name FROM duckdb_tables()").fetchall()
        }
        if META.name in names:
            found = self._writer.execute("SELECT max(tables_version) FROM main.meta").fetchall()
            return int(found[0][0] or -1)
        return -1 if names else 0

    def _make_tables(self) -> None:
        with self.transaction() as transaction:
            for table in TABLES:
                transaction.execute(table.create)
            create_views(transaction.execute)
            transaction.execute("INSERT INTO main.meta (tables_version) VALUES ($1)", [TABLES_VERSION])

    def _translated(self, err: duckdb.Error) -> StoreError:
        outside = reason_outside(self.path)
        is_fatal = isinstance(err, duckdb.FatalException | duckdb.InternalException) or (
            isinstance(err, duckdb.IOException) and outside is None
        )
        return StoreError(str(self.path), why=outside or first_line(err), is_fatal=is_fatal)

    def _close_connections(self) -> None:
        for connection in (*self._cursors, getattr(self, "_writer", None), getattr(self, "_root", None)):
            if connection is not None:
                with contextlib.suppress(duckdb.Error):
                    connection.close()


def lock(path: Path) -> int:
    """Return the descriptor of a lock file beside the file; raise StoreError where somebody else holds it.

    DuckDB's own lock is of the process: a second opening in this one would give it up, and nobody would
    notice.
    """
    beside = path.with_name(path.name + ".lock")
    try:
        descriptor = os.open(beside, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as err:
        raise StoreError(str(path), why=f"{beside.name} cannot be made: {err.strerror}") from err
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as err:
        os.close(descriptor)
        raise StoreError(str(path), why="another process has it open", instead=HELD) from err
    return descriptor
