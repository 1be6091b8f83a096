"""What a store holds, as analysts see it."""

from __future__ import annotations

from projections.projection import Projection

Rows = list[dict[str, object]]


def contents(projection: Projection) -> dict[str, Rows]:
    """Return the rows of every view, in one order."""
    with projection.cursor() as cursor:
        views = cursor.execute(
            "SELECT view_name FROM duckdb_views() WHERE schema_name = 'fleet' ORDER BY view_name"
        ).fetchall()
        return {
            name: cursor.execute(f"SELECT * FROM fleet.{name} ORDER BY ALL").to_arrow_table().to_pylist()
            for (name,) in views
        }
