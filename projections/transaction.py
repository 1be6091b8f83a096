"""What is written within one transaction of the store (floor 2)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

    from projections.tables import Table


class Transaction:
    """What one transaction writes; lives as long as it."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection

    def execute(self, statement: str, parameters: list[Any] | dict[str, Any] | None = None) -> None:
        """Run one statement of ours."""
        self._connection.execute(statement, parameters)

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """Return what one query of ours finds."""
        return self._connection.execute(query).fetchall()

    def insert(self, table: Table, rows: pa.Table) -> None:
        """Append rows, whose columns are the table's."""
        with self.given("incoming", rows):
            self._connection.execute(
                f"INSERT INTO main.{table.name} ({table.names}) SELECT {table.names} FROM incoming"
            )

    @contextlib.contextmanager
    def given(self, name: str, rows: pa.Table) -> Iterator[None]:
        """Let statements read an Arrow table by a name."""
        self._connection.register(name, rows)
        try:
            yield
        finally:
            self._connection.unregister(name)
