"""A projection on a real file, fed by hand, and what its views hold."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import duckdb

from events.log import Batch
from projections.projection import Projection
from projections.views import VIEWS
from tests.support.beating import Stored, beats_batch
from tests.support.folding import batch_of
from tests.support.strategies import Log


@contextmanager
def opened(folder: Path) -> Iterator[Projection]:
    """The projection in a folder, closed at the end."""
    with closing(Projection.open(folder / "store.duckdb")) as projection:
        yield projection


def told(projection: Projection, *logs: Log | list[Stored]) -> Projection:
    """Apply each log of facts or of beats as one batch."""
    for log in logs:
        projection.apply(batch(log))
    return projection


def batch(log: Any) -> Batch:  # noqa: ANN401 (a log of facts or of beats)
    """Return a log as one batch of its stream."""
    return beats_batch(log) if isinstance(log[0], Stored) else batch_of(log)


def asked(projection: Projection, query: str, parameters: object = None) -> list[tuple[Any, ...]]:
    """Return what a query finds; times have to be asked for as text or numbers."""
    with closing(projection.cursor()) as cursor:
        return cursor.execute(query, parameters).fetchall()


def contents(
    connection: duckdb.DuckDBPyConnection, *, without: Iterable[str] = ()
) -> dict[str, list[tuple[Any, ...]]]:
    """Return every row of every view as text, sorted."""
    return {
        view.name: sorted(
            connection.execute(f"SELECT columns(*)::VARCHAR FROM fleet.{view.name}").fetchall(),
            key=lambda row: [value or "" for value in row],
        )
        for view in VIEWS
        if view.name not in without
    }


def everything(projection: Projection) -> dict[str, list[tuple[Any, ...]]]:
    """Return every row of every view of a projection."""
    with closing(projection.cursor()) as cursor:
        return contents(cursor)
