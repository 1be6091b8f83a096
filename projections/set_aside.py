"""A file that nobody has open: held against others, read without being changed, replaced (floor 2).

For what works on the tables while their service does not run: verifying and rebuilding.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb

from events.errors import RefusedError, StoreError
from projections.damaged import first_line, spilled_of, wal_of
from projections.store import lock
from projections.tables import META, TABLES_VERSION

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

VERSION = f"""
    SELECT max(tables_version)
    FROM main.{META.name}
"""


@contextlib.contextmanager
def held(path: Path) -> Iterator[None]:
    """Keep everybody else from opening the file; raise RefusedError where somebody has it open."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        descriptor = lock(path)
    except StoreError as err:
        raise RefusedError(
            "tables_in_use", str(err), instead="stop the service that has them open and run this again"
        ) from err
    try:
        yield
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def read_only(path: Path) -> Iterator[DuckDBPyConnection]:
    """Open the file without changing it; raise StoreError where it is missing, damaged or outdated."""
    if not path.exists():
        raise StoreError(str(path), why="there is no such file", instead="start the service: it makes them")
    try:
        connection = duckdb.connect(path, read_only=True)
    except duckdb.Error as err:
        raise StoreError(str(path), why=first_line(err), instead="rebuild them") from err
    try:
        connection.execute("SET TimeZone = 'UTC'")
        found = connection.execute(VERSION).fetchall()[0][0]
        if found != TABLES_VERSION:
            why = f"its tables have version {found}, ours have {TABLES_VERSION}"
            raise StoreError(str(path), why=why, instead="rebuild them")
        yield connection
    except duckdb.Error as err:
        raise StoreError(str(path), why=first_line(err), instead="rebuild them") from err
    finally:
        connection.close()


def replace(path: Path, *, by: Path) -> Path | None:
    """Put another file in the place of one that is held; return where the old one lies now, if there was one.

    Both are closed. A crash in between leaves no file there, and then the service builds one from the log.
    """
    aside = path.with_name(f"{path.name}.replaced-{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}")
    had_one = path.exists()
    for source, target in (
        (wal_of(path), wal_of(aside)),
        (path, aside),
        (wal_of(by), wal_of(path)),
        (by, path),
    ):
        if source.exists():
            source.rename(target)
    return aside if had_one else None


def remove(path: Path) -> None:
    """Delete a file of ours with all that DuckDB and we put beside it; one that is not there is fine."""
    for each in (wal_of(path), path, path.with_name(f"{path.name}.lock")):
        each.unlink(missing_ok=True)
    shutil.rmtree(spilled_of(path), ignore_errors=True)  # of a process that was killed
