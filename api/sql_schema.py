"""What there is to ask: views, columns, macros and functions, as the catalog says (floor 3)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from api.sql_calls import lowered
from api.sql_formats import FORMATS
from api.sql_functions import ALLOWED
from api.sql_guard import MAX_STATEMENT_CHARACTERS
from api.sql_tree import Relations
from projections.fleet_schema import SCHEMA

if TYPE_CHECKING:
    import duckdb

    from api.sql_statement import SqlLimits

VIEWS = """
    SELECT view_name, comment
    FROM duckdb_views()
    WHERE schema_name = $schema
    ORDER BY view_name
"""
COLUMNS = """
    SELECT table_name, column_name, data_type, comment
    FROM duckdb_columns()
    WHERE schema_name = $schema
    ORDER BY table_name, column_index
"""
MACROS = """
    SELECT function_name, function_type, parameters, comment
    FROM duckdb_functions()
    WHERE schema_name = $schema
    ORDER BY function_name
"""
WITHOUT_SCHEMA = """
    SELECT table_name FROM duckdb_tables() WHERE schema_name <> $schema
    UNION
    SELECT view_name FROM duckdb_views() WHERE schema_name <> $schema
"""
NOTES = (
    "one SELECT at a time, over the views of schema fleet: FROM fleet.nodes",
    "times are UTC (TIMESTAMPTZ); a band whose valid_to is NULL is still open",
    'a column named at is written "at", or with its table (u.at), since AT is a keyword',
    "a result that was cut says truncated: ORDER BY a key and go on WHERE the key is beyond the last one",
    "range and generate_series are read FROM; repeat, lpad and rpad take a literal size",
    "PIVOT names its values: ON state IN ('ready', 'lost')",
)


def relations_of(connection: duckdb.DuckDBPyConnection) -> Relations:
    """Return what statements may name in this database, and what no CTE may be called."""
    macros = connection.execute(MACROS, {"schema": SCHEMA}).fetchall()
    return Relations(
        views=frozenset(
            lowered(name) for name, _ in connection.execute(VIEWS, {"schema": SCHEMA}).fetchall()
        ),
        table_macros=frozenset(lowered(name) for name, kind, *_ in macros if kind == "table_macro"),
        macros=frozenset(lowered(name) for name, kind, *_ in macros if kind == "macro"),
        reserved=frozenset(
            lowered(name) for (name,) in connection.execute(WITHOUT_SCHEMA, {"schema": SCHEMA}).fetchall()
        ),
    )


def schema_of(connection: duckdb.DuckDBPyConnection, *, limits: SqlLimits) -> dict[str, Any]:
    """Return the members of `GET /sql/schema`."""
    columns: dict[str, list[dict[str, str | None]]] = {}
    for view, name, kind, comment in connection.execute(COLUMNS, {"schema": SCHEMA}).fetchall():
        columns.setdefault(view, []).append({"name": name, "type": kind, "comment": comment})
    return {
        "schema": SCHEMA,
        "views": [
            {"name": f"{SCHEMA}.{view}", "comment": comment, "columns": columns.get(view, [])}
            for view, comment in connection.execute(VIEWS, {"schema": SCHEMA}).fetchall()
        ],
        "macros": [
            {
                "name": f"{SCHEMA}.{name}",
                "kind": "table" if kind == "table_macro" else "scalar",
                "parameters": parameters,
                "comment": comment,
            }
            for name, kind, parameters, comment in connection.execute(MACROS, {"schema": SCHEMA}).fetchall()
        ],
        "functions": sorted(ALLOWED),
        "limits": {
            "characters": MAX_STATEMENT_CHARACTERS,
            "timeout_s": limits.timeout_s,
            "rows": limits.max_rows,
            "rows_unless_asked": limits.default_rows,
            "bytes": limits.max_bytes,
            "memory_bytes": limits.memory_bytes,
            "running": limits.running,
            "waiting": limits.waiting,
        },
        "formats": [form.media_type for form in FORMATS],
        "notes": list(NOTES),
    }
