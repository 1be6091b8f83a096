from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import duckdb
import pytest

from projections import fleet_schema, macros, rows, views
from projections.arrow_rows import arrow_rows
from projections.rows import CapacityHistoryRow, NodeHistoryRow
from projections.tables import (
    ALLOCATION,
    ANNOUNCEMENT,
    CAPACITY,
    CAPACITY_HISTORY,
    DEVICE,
    FACT,
    LABEL_HISTORY,
    NODE,
    NODE_HISTORY,
    QUARANTINE,
    TABLES,
    Table,
)

AT = datetime(2026, 5, 1, 12, tzinfo=UTC)


@pytest.fixture(scope="module")
def database() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(":memory:", config={"autoload_known_extensions": False})
    connection.execute("SET TimeZone = 'UTC'")
    for table in TABLES:
        connection.execute(table.create)
    fleet_schema.create_views(connection.execute)
    return connection


@pytest.mark.parametrize(
    ("table", "row", "added"),
    [
        (NODE, rows.NodeRow, ["number"]),
        (CAPACITY, rows.CapacityRow, ["number"]),
        (DEVICE, rows.DeviceRow, ["number"]),
        (ALLOCATION, rows.AllocationRow, ["number"]),
        (NODE_HISTORY, rows.NodeHistoryRow, []),
        (CAPACITY_HISTORY, rows.CapacityHistoryRow, []),
        (LABEL_HISTORY, rows.LabelHistoryRow, []),
        (FACT, rows.FactRow, []),
        (QUARANTINE, rows.QuarantineRow, []),
        (ANNOUNCEMENT, rows.AnnouncementRow, ["seq"]),
    ],
)
def test_the_columns_of_a_table_are_the_fields_of_its_row(table: Table, row: Any, added: list[str]) -> None:  # noqa: ANN401
    assert [*table.columns] == [*added, *row._fields]


@pytest.mark.parametrize("view", views.VIEWS, ids=lambda view: view.name)
def test_every_column_of_a_view_is_there_and_explained(
    database: duckdb.DuckDBPyConnection, view: views.View
) -> None:
    found = database.execute(f"SELECT * FROM fleet.{view.name}").description
    comments = dict(
        database.execute(
            "SELECT column_name, comment FROM duckdb_columns() "
            "WHERE schema_name = 'fleet' AND table_name = $view",
            {"view": view.name},
        ).fetchall()
    )
    about = database.execute(
        "SELECT comment FROM duckdb_views() WHERE schema_name = 'fleet' AND view_name = $view",
        {"view": view.name},
    ).fetchall()

    assert [column[0] for column in found] == [*view.columns]
    assert comments == view.columns
    assert about == [(view.about,)]


@pytest.mark.parametrize(
    ("macro", "arguments"),
    [
        ("nodes_at", "'2026-05-01T12:00:00Z'"),
        ("nodes_at", "TIMESTAMPTZ '2026-05-01 12:00:00+00'"),
        ("capacity_at", "'2026-05-01'"),
        ("fleet_diff", "'2026-05-01', now()"),
        ("uptime", "'n1', '2026-05-01', '2026-05-02'"),
    ],
)
def test_every_column_of_a_macro_is_there_and_explained(
    database: duckdb.DuckDBPyConnection, macro: str, arguments: str
) -> None:
    found = database.execute(f"SELECT * FROM fleet.{macro}({arguments})").description

    (declared,) = [one for one in macros.MACROS if one.name == macro]
    assert [column[0] for column in found] == [*declared.columns]


def test_the_contract_has_every_column_that_the_design_promises(database: duckdb.DuckDBPyConnection) -> None:
    promised = {
        "nodes": "node_id state liveness intent schedulable region zone pool role hostname display_name "
        "architecture labels conditions boot_id machine_id incarnation dialect native_id registered_at "
        "last_heartbeat_at retired_at version",
        "node_history": "node_id state liveness intent schedulable region zone pool valid_from valid_to "
        "cause_seq cause_type actor reason",
        "capacity": "node_id resource total reserved ratio allocatable allocated free",
        "capacity_history": "node_id resource total reserved ratio allocatable allocated free "
        "valid_from valid_to cause_seq",
        "labels_history": "node_id key value owner valid_from valid_to",
        "devices": "node_id device_id kind model healthy reason since",
        "allocations": "node_id workload resource amount since",
        "usage": "node_id resource at used",
        "usage_1h": "node_id resource hour avg min max last samples",
        "facts": "seq stored_at sent_at subject node_id type source data",
        "changes": "seq at node_id kind detail before after cause_seq actor reason",
        "heartbeats": "node_id boot_id last_heartbeat_at last_seq missed duplicates reordered skew_ms",
    }

    for view, columns in promised.items():
        found = {column[0] for column in database.execute(f"SELECT * FROM fleet.{view}").description}
        assert set(columns.split()) <= found, view


def test_every_time_carries_its_zone(database: duckdb.DuckDBPyConnection) -> None:
    kinds = database.execute(
        "SELECT DISTINCT data_type FROM duckdb_columns() WHERE data_type LIKE 'TIME%'"
    ).fetchall()

    assert kinds == [("TIMESTAMP WITH TIME ZONE",)]


def capacity_row(total: Decimal | None) -> CapacityHistoryRow:
    return CapacityHistoryRow(
        rows.NodeId("n1"), "memory", "reported", total, None, None, total, Decimal(0), total, AT, 1
    )


def test_amounts_come_back_exactly(database: duckdb.DuckDBPyConnection) -> None:
    amounts = [Decimal(2**63), Decimal("0.000000001"), Decimal(10**28 - 1), Decimal("-1.5"), None]
    database.register("incoming", arrow_rows(CAPACITY_HISTORY, [capacity_row(one) for one in amounts]))
    database.execute(f"INSERT INTO main.capacity_history SELECT {CAPACITY_HISTORY.names} FROM incoming")

    found = database.execute("SELECT total FROM fleet.capacity_history").fetchall()

    assert Counter(total for (total,) in found) == Counter(amounts)


def test_a_product_that_no_column_can_hold_is_unknown_and_its_neighbours_are_not() -> None:
    amounts = [Decimal(10) ** 55, Decimal(7), -(Decimal(10) ** 29), Decimal("1.23456789012")]
    table = arrow_rows(CAPACITY_HISTORY, [capacity_row(amount) for amount in amounts])

    assert table["total"].to_pylist() == [None, Decimal(7), None, Decimal("1.234567890")]


def test_texts_of_every_kind_come_back(database: duckdb.DuckDBPyConnection) -> None:
    texts = ["", "a\0b", "'; DROP TABLE node; --", "ü 🦆", "007", "1e3", "NaN", "null"]
    band = NodeHistoryRow(
        rows.NodeId("n"), "ready", "alive", "open", True, None, None, None, 1, AT, 1, "t", "", ""
    )
    incoming = arrow_rows(
        NODE_HISTORY, [band._replace(node_id=rows.NodeId(text), zone=text) for text in texts]
    )
    database.register("incoming", incoming)
    database.execute(f"INSERT INTO main.node_history SELECT {NODE_HISTORY.names} FROM incoming")

    found = database.execute("SELECT node_id, zone FROM main.node_history").fetchall()

    assert found == [(text, text) for text in texts]
