"""Runs one statement of an analyst: read-only, with an end, in a snapshot, its result bounded (floor 3).

Called by worker threads of the replica, never by its event loop nor by the projection's writer.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NoReturn, cast
from uuid import uuid4

import duckdb
import pyarrow as pa

from api.sql_columns import plain
from api.sql_errors import (
    SqlCancelledError,
    SqlFailedError,
    SqlInternalError,
    SqlMemoryError,
    SqlTimeoutError,
    SqlUnavailableError,
)
from api.sql_position import as_of
from api.sql_statement import ResultColumn, SqlResult

if TYPE_CHECKING:
    from api.service import StreamReading
    from api.sql_guard import Guard
    from api.sql_statement import Call, SqlLimits, Statement
    from api.sql_watchdog import Watch, Watchdog

_LOG = logging.getLogger(__name__)

ROWS_AT_A_TIME = 2_048
# One vector of the engine: the finest step at which bytes can be counted before the next rows are made.

STREAMS_RELATIONS = int(duckdb.__version__.partition(".")[0]) >= 2
# Of `execute` and `sql`, each version streams the rows of one and makes the whole result of the other first:
# 1.5 streams `execute`, 2.0 streams `sql`. A result of 10^14 rows told the two apart.

BEGIN = "BEGIN TRANSACTION READ ONLY"
END = "ROLLBACK"
# Nothing was written, and a snapshot that stays open would hold up every checkpoint of the writer.

_ABOUT_THE_STATEMENT = (
    duckdb.ParserException,
    duckdb.BinderException,
    duckdb.CatalogException,
    duckdb.ConversionException,
    duckdb.OutOfRangeException,
    duckdb.InvalidInputException,
    duckdb.InvalidTypeException,
    duckdb.TypeMismatchException,
    duckdb.NotImplementedException,
    duckdb.SyntaxException,
    duckdb.ConstraintException,
    duckdb.TransactionException,
)
_FAILURES = (duckdb.Error, pa.ArrowException, OSError, MemoryError, RuntimeError, ValueError)
_STREAM_PREFIXES = {
    "Conversion Error": duckdb.ConversionException,
    "Out of Range Error": duckdb.OutOfRangeException,
    "Invalid Input Error": duckdb.InvalidInputException,
    "Invalid type Error": duckdb.InvalidTypeException,
    "Not implemented Error": duckdb.NotImplementedException,
    "Mismatch Type Error": duckdb.TypeMismatchException,
    "Binder Error": duckdb.BinderException,
    "Out of Memory Error": duckdb.OutOfMemoryException,
}
# While rows are streamed as Arrow, the engine's errors come through a C interface that has no classes, only
# text that begins with the class's name. A test provokes each.


class SqlExecutor:
    """Runs statements on cursors of one database.

    `cursor` gives a new cursor each time, `readings` how the reading of the streams goes. `end` ends the
    process: it is called when the engine has given its database up, which only a new process gets back. At
    once, before the writer meets the same error and takes the file for damaged.
    """

    def __init__(
        self,
        cursor: Callable[[], duckdb.DuckDBPyConnection],
        *,
        guard: Guard,
        watchdog: Watchdog,
        limits: SqlLimits,
        readings: Callable[[], Mapping[str, StreamReading]],
        end: Callable[[str], None],
    ) -> None:
        self._cursor, self._guard, self._watchdog = cursor, guard, watchdog
        self._readings, self._end = readings, end
        self.limits = limits

    def run(self, statement: Statement, call: Call) -> SqlResult:
        """Return the rows of a statement; raise SqlProblemError, and nothing else, where it has none."""
        began_s = time.monotonic()
        self._guard.check(statement.sql)
        with (
            self._connection() as connection,
            self._watchdog.watching(_interrupt(connection), limit_s=statement.timeout_s) as watch,
        ):
            call.stop = lambda: self._watchdog.cancel(watch)
            if call.is_cancelled:
                raise SqlCancelledError("nobody waits for the answer")
            try:
                return self._read(connection, statement, began_s)
            except _FAILURES as err:
                self._raise_translated(err, watch, statement)

    @contextmanager
    def _connection(self) -> Iterator[duckdb.DuckDBPyConnection]:
        try:
            connection = self._cursor()
        except duckdb.ConnectionException as err:
            raise SqlUnavailableError("the tables are being begun anew: retry") from err
        except duckdb.Error as err:
            self._raise_unforeseen(err)
        try:
            yield connection
        finally:
            try:
                connection.execute(END)
            except duckdb.Error:
                _LOG.debug("a transaction had ended before its end")
            connection.close()

    def _read(self, connection: duckdb.DuckDBPyConnection, statement: Statement, began_s: float) -> SqlResult:
        connection.execute(BEGIN)
        position = as_of(connection, self._readings(), now=datetime.now(UTC))
        columns, reader = _streamed(connection, statement)
        batches, truncated_by = _bounded(reader, max_rows=statement.max_rows, max_bytes=self.limits.max_bytes)
        names, kinds = [column.name for column in columns], cast("list[Any]", reader.schema.types)
        arrays = [
            pa.chunked_array(
                [
                    plain(column, name=name)
                    for column in [batch.column(i) for batch in batches] or [pa.nulls(0, kind)]
                ]
            )
            for i, (name, kind) in enumerate(zip(names, kinds, strict=True))
        ]
        table = pa.Table.from_arrays(arrays, names=names)
        return SqlResult(
            columns=columns,
            table=table,
            as_of=position,
            truncated_by=truncated_by,
            limits={
                "max_rows": self.limits.max_rows,
                "rows": statement.max_rows,
                "bytes": self.limits.max_bytes,
            },
            elapsed_ms=round((time.monotonic() - began_s) * 1000),
            checked=lambda: _refuse_late(statement, began_s),
        )

    def _raise_translated(self, err: Exception, watch: Watch, statement: Statement) -> NoReturn:
        if watch.is_cancelled:
            raise SqlCancelledError("nobody waits for the answer") from err
        if watch.has_expired:
            raise SqlTimeoutError(statement.timeout_s) from err
        if isinstance(err, duckdb.ConnectionException):
            raise SqlUnavailableError("the tables were begun anew meanwhile: retry") from err
        kind = _class_of(err)
        if issubclass(kind, (duckdb.OutOfMemoryException, MemoryError)):
            raise SqlMemoryError(self.limits.memory_bytes) from err
        if issubclass(kind, _ABOUT_THE_STATEMENT):
            raise SqlFailedError(
                str(err)[:2_000], kind=kind.__name__.removesuffix("Exception").lower()
            ) from err
        self._raise_unforeseen(err)

    def _raise_unforeseen(self, err: Exception) -> NoReturn:
        error_id = uuid4().hex[:16]
        _LOG.error("a statement ended with an error of the engine %s", error_id, exc_info=err)
        if not self._answers():
            self._end("the engine gave its database up")
        raise SqlInternalError(error_id) from err

    def _answers(self) -> bool:
        """Tell whether the database still works; after an internal error it may refuse everything."""
        try:
            with self._cursor() as probe:
                probe.execute("SELECT 1").fetchall()
        except duckdb.ConnectionException:
            return True  # closed by its owner, who opens it again
        except (duckdb.Error, RuntimeError):
            return False
        return True


def _refuse_late(statement: Statement, began_s: float) -> None:
    """Raise SqlTimeoutError where a statement has had its time: writing a large answer is part of it."""
    if time.monotonic() - began_s > statement.timeout_s:
        raise SqlTimeoutError(statement.timeout_s)


def _interrupt(connection: duckdb.DuckDBPyConnection) -> Callable[[], None]:
    """Return what interrupts a statement; nothing where its connection was closed by another thread."""

    def interrupt() -> None:
        with suppress(duckdb.ConnectionException):
            connection.interrupt()

    return interrupt


def _streamed(
    connection: duckdb.DuckDBPyConnection, statement: Statement
) -> tuple[tuple[ResultColumn, ...], pa.RecordBatchReader]:
    """Begin a statement, and return its columns and what reads its rows as they are made."""
    if STREAMS_RELATIONS:
        relation = connection.sql(statement.sql, params=statement.parameters)
        if relation is None:
            raise SqlFailedError("the statement gives no rows", kind="invalidinput")
        described = list(zip(relation.columns, relation.types, strict=True))
        reader = relation.to_arrow_reader(ROWS_AT_A_TIME)
    else:
        connection.execute(statement.sql, statement.parameters)
        described = [(name, kind) for name, kind, *_ in connection.description]
        reader = connection.to_arrow_reader(ROWS_AT_A_TIME)
    return tuple(ResultColumn(str(name), str(kind)) for name, kind in described), reader


def _bounded(
    reader: pa.RecordBatchReader, *, max_rows: int, max_bytes: int
) -> tuple[list[pa.RecordBatch], str]:
    """Return the batches up to the limits, and which limit was reached ("" for none)."""
    batches: list[pa.RecordBatch] = []
    rows = size_bytes = 0
    for batch in reader:
        if not batch.num_rows:
            continue
        kept = batch.slice(0, max_rows - rows)
        by = "rows" if kept.num_rows < batch.num_rows else ""
        if size_bytes + kept.nbytes > max_bytes:
            row_bytes = max(1, kept.nbytes // kept.num_rows) if kept.num_rows else 1
            kept, by = kept.slice(0, (max_bytes - size_bytes) // row_bytes), "bytes"
        rows, size_bytes = rows + kept.num_rows, size_bytes + kept.nbytes
        if kept.num_rows:
            batches.append(kept)
        if by:
            return batches, by
    return batches, ""


def _class_of(err: Exception) -> type[Exception]:
    if isinstance(err, pa.ArrowMemoryError):
        return MemoryError
    if isinstance(err, (OSError, pa.ArrowException)):
        return _STREAM_PREFIXES.get(str(err).partition(":")[0], type(err))
    return type(err)
