"""What is written within one transaction of the store (floor 2).

Most transactions are small, and what costs then is planning. So each statement is planned once for a
connection: rows reach it through an inlet, a view that is made once and shows whatever was put into it last.
Registering an Arrow table for each statement instead takes twice as long, with 10,000 rows still by a third.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

    from projections.tables import Table


class Inlet:
    """An Arrow table that statements read by a name; always of the schema of the first."""

    def __init__(self, rows: pa.Table) -> None:
        self.rows: pa.Table | None = rows
        self._schema = rows.schema

    def show(self, rows: pa.Table) -> None:
        """Let statements read these rows from now on."""
        # A plan reads the columns as they were when it was made, and would take others for those.
        assert rows.schema.equals(self._schema), f"{rows.schema} instead of {self._schema}"
        self.rows = rows

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:  # noqa: ANN401 (a capsule of C)
        assert self.rows is not None, "read only while a statement runs"
        return self.rows.__arrow_c_stream__(requested_schema)  # type: ignore[no-untyped-call]


class Plans:
    """The statements that a connection has planned, and their inlets.

    A transaction that is undone may take inlets with it: after one, make this anew.
    """

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection
        self._inlets: dict[str, Inlet] = {}
        self._names: dict[str, str] = {}

    def run(self, statement: str, *, name: str, rows: pa.Table) -> None:
        """Run a statement that reads the rows by a name."""
        inlet = self._inlets.get(name)
        if inlet is None:
            inlet = self._inlets[name] = Inlet(rows)
            self._connection.register(name, inlet)
        inlet.show(rows)
        try:
            planned = self._names.get(statement)
            if planned is None:
                planned = f"planned_{len(self._names)}"
                self._connection.execute(f"PREPARE {planned} AS {statement}")
                self._names[statement] = planned
            self._connection.execute(f"EXECUTE {planned}")
        finally:
            inlet.rows = None


class Transaction:
    """What one transaction writes; lives as long as it."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, plans: Plans) -> None:
        self._connection, self._plans = connection, plans

    def execute(self, statement: str, parameters: list[Any] | dict[str, Any] | None = None) -> None:
        """Run one statement of ours."""
        self._connection.execute(statement, parameters)

    def run(self, statement: str, *, name: str, rows: pa.Table) -> None:
        """Run a statement that reads the rows by a name, under which it is always given the same columns."""
        self._plans.run(statement, name=name, rows=rows)

    def insert(self, table: Table, rows: pa.Table) -> None:
        """Append rows, whose columns are the table's."""
        name = f"incoming_{table.name}"
        self.run(
            f"INSERT INTO main.{table.name} ({table.names}) SELECT {table.names} FROM {name}",
            name=name,
            rows=rows,
        )
