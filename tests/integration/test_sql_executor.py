"""Statements over a real projection: what they give, in which form, and what ends them."""

from __future__ import annotations

import csv
import io
import json
import threading
import time
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import duckdb
import orjson
import pyarrow as pa
import pyarrow.parquet
import pytest

from api.service import StreamReading
from api.sql_engine import LockedCursors
from api.sql_errors import (
    SqlCancelledError,
    SqlFailedError,
    SqlMemoryError,
    SqlProblemError,
    SqlRefusedError,
    SqlTimeoutError,
    SqlUnavailableError,
)
from api.sql_executor import SqlExecutor
from api.sql_formats import ARROW, CSV, FORMATS, JSON, PARQUET, chosen
from api.sql_guard import Guard
from api.sql_schema import relations_of
from api.sql_statement import Call, SqlLimits, SqlResult, Statement
from api.sql_watchdog import Watchdog
from tests.support.fleet import EPOCH, Fleet, fleet
from tests.support.hostile_sql import BOMBS, HOSTILE, LEGITIMATE
from tests.support.sql import AnyStatement, never_ends, no_alarm

LIMITS = SqlLimits(
    timeout_s=20, max_rows=50_000, default_rows=10_000, max_bytes=4_000_000, memory_bytes=200_000_000
)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with fleet(tmp_path_factory.mktemp("fleet")) as made:
        for number in range(20):
            made.registered(
                f"n{number}",
                zone=f"z{number % 3}",
                labels={"pool": "a", "Zürich": "ü"},
                resources={"cpu": {"total": 8.25}, "memory": {"total": 68719476736}},
                devices=[{"id": "gpu-0", "kind": "gpu", "healthy": True}],
            )
            made.beat(f"n{number}", used={"cpu": 3.25})
        made.said("operator", "n0", "cordoned", owner="test", reason="why not")
        made.said("platform", "n1", "allocated", workload="w1", amounts={"cpu": 2})
        yield made


@pytest.fixture(scope="module")
def watchdog() -> Iterator[Watchdog]:
    made = Watchdog(end=never_ends, arm=no_alarm)
    made.start()
    yield made
    made.stop()


@pytest.fixture(scope="module")
def executor(served: Fleet, watchdog: Watchdog) -> Iterator[SqlExecutor]:
    with served.projection.cursor() as cursor:
        cursor.execute(f"SET GLOBAL memory_limit = '{LIMITS.memory_bytes}B'")
        guard = Guard(relations_of(cursor))
    cursors = LockedCursors(served.projection.cursor, limits=LIMITS)
    yield SqlExecutor(
        cursors,
        guard=guard,
        watchdog=watchdog,
        limits=LIMITS,
        readings=lambda: served.readings,
        end=never_ends,
    )
    guard.close()


@pytest.fixture(scope="module")
def unguarded(served: Fleet, watchdog: Watchdog) -> SqlExecutor:
    """Without the first wall, to see that the others stand by themselves."""
    cursors = LockedCursors(served.projection.cursor, limits=LIMITS)
    return SqlExecutor(
        cursors,
        guard=AnyStatement(),
        watchdog=watchdog,
        limits=LIMITS,
        readings=lambda: served.readings,
        end=never_ends,
    )


def _run(
    executor: SqlExecutor,
    sql: str,
    *,
    parameters: dict[str, Any] | list[Any] | None = None,
    max_rows: int = LIMITS.default_rows,
    timeout_s: float = LIMITS.timeout_s,
) -> SqlResult:
    return executor.run(Statement(sql, parameters, max_rows, timeout_s), Call())


def _written(result: SqlResult, media_type: str) -> bytes:
    return chosen(media_type).write(result)


def _json(executor: SqlExecutor, sql: str) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(_written(_run(executor, sql), JSON))
    return answer


def _row(executor: SqlExecutor, sql: str) -> list[Any]:
    (row,) = _json(executor, sql)["rows"]
    return list(row)


@pytest.mark.parametrize("what", LEGITIMATE)
def test_what_an_analyst_asks_is_answered_in_every_form(executor: SqlExecutor, what: str) -> None:
    result = _run(executor, LEGITIMATE[what])

    for form in FORMATS:
        content = form.write(result)
        match form.media_type:
            case "application/json":
                answer = orjson.loads(content)
                assert len(answer["rows"]) == answer["row_count"] == result.table.num_rows
                assert all(len(row) == len(answer["columns"]) for row in answer["rows"])
            case "text/csv":
                assert len(list(csv.reader(io.StringIO(content.decode())))) == result.table.num_rows + 1
            case "application/vnd.apache.arrow.stream":
                assert pa.ipc.open_stream(content).read_all().num_rows == result.table.num_rows
            case _:
                assert pa.parquet.read_table(io.BytesIO(content)).num_rows == result.table.num_rows


def test_an_answer_has_names_types_and_the_position_it_speaks_of(
    served: Fleet, executor: SqlExecutor
) -> None:
    answer = _json(executor, "SELECT node_id, schedulable FROM fleet.nodes ORDER BY node_id LIMIT 2")

    assert answer["columns"] == [
        {"name": "node_id", "type": "VARCHAR"},
        {"name": "schedulable", "type": "BOOLEAN"},
    ]
    assert answer["rows"] == [["n0", False], ["n1", False]]
    assert answer["truncated"] is False
    assert answer["as_of"]["epoch"] == EPOCH
    assert answer["as_of"]["seq"] == served.projection.cursors()["FLEET"].seq
    assert answer["as_of"]["beats_seq"] == 20
    assert answer["as_of"]["lag_ms"] == 0
    assert answer["as_of"]["time"].endswith("Z")


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("1::TINYINT", 1),
        ("9223372036854775807", 9223372036854775807),
        ("sum(seq) + 170141183460469231731687303 FROM fleet.facts", None),
        ("18446744073709551615::UBIGINT", 18446744073709551615),
        ("-99999999999999999999999999999999999999::HUGEINT", -99999999999999999999999999999999999999),
        ("99999999999999999999999999999999999999::UHUGEINT", 99999999999999999999999999999999999999),
        ("3.250::DECIMAL(38, 3)", 3.25),
        ("0.000000001::DECIMAL(38, 9)", 1e-09),
        ("'nan'::DOUBLE", None),
        ("'infinity'::FLOAT", None),
        ("1e300", 1e300),
        ("true", True),
        ("NULL", None),
        ("'Zürich \U0001f680'", "Zürich \U0001f680"),
        ("''", ""),
        ("'\\x00\\xFF'::BLOB", "AP8="),
        ("uuid() IS NULL", False),
        ("'01234567-89ab-cdef-0123-456789abcdef'::UUID", "01234567-89ab-cdef-0123-456789abcdef"),
        ("TIMESTAMPTZ '2026-03-29 03:00:00+02'", "2026-03-29T01:00:00Z"),
        ("TIMESTAMPTZ '2026-03-29 01:00:00.000001+00'", "2026-03-29T01:00:00.000001Z"),
        ("TIMESTAMP '2026-03-29 01:00:00'", "2026-03-29T01:00:00"),
        ("'infinity'::TIMESTAMPTZ", None),
        ("'-infinity'::DATE", None),
        ("TIMESTAMPTZ '12000-01-01 00:00:00+00'", "12000-01-01 00:00:00+00"),
        ("DATE '2026-02-28'", "2026-02-28"),
        ("TIME '10:00:00.5'", "10:00:00.500000"),
        ("INTERVAL '1 year 2 days 3.5 seconds'", "P12M2DT3.5S"),
        ("INTERVAL '0 seconds'", "PT0S"),
        ("[1, NULL, 3]", [1, None, 3]),
        ("[[1], []]", [[1], []]),
        ("[sum(1)]", [1]),
        ("[true, NULL]", [True, None]),
        ("NULL::INTEGER[]", None),
        ("[1, 2]::INTEGER[2]", [1, 2]),
        ("{'a': {'c': [TIMESTAMPTZ '2026-01-01 00:00:00+00']}}", {"a": {"c": ["2026-01-01T00:00:00Z"]}}),
        ("{'h': 1::HUGEINT, 'u': NULL::UUID}", {"h": 1, "u": None}),
        ("MAP {'a': 1, 'b': NULL}", {"a": 1, "b": None}),
        ("MAP {1: [true]}", {"1": [True]}),
        ("'{\"a\": 1}'::JSON", '{"a": 1}'),
        ("'a'::ENUM('a', 'b')", "a"),
    ],
)  # fmt: skip
def test_values_are_exact_in_json(executor: SqlExecutor, expression: str, expected: object) -> None:
    value = _row(executor, f"SELECT {expression}")[0]

    if "FROM" in expression:
        assert value == sum(range(1, 23)) + 170141183460469231731687303
    else:
        assert value == expected
        assert type(value) is type(expected)


AUTUMN = [["2026-10-24", 144], ["2026-10-25", 150], ["2026-10-26", 144]]
SPRING = [["2026-03-28", 144], ["2026-03-29", 138]]


@pytest.mark.parametrize(
    ("first", "last", "rows"),
    [
        ("2026-10-23 22:00:00+00", "2026-10-26 22:50:00+00", AUTUMN),
        ("2026-03-27 23:00:00+00", "2026-03-29 21:50:00+00", SPRING),
    ],
)
def test_b85_days_of_a_place_have_23_and_25_hours_and_lose_no_row(
    executor: SqlExecutor, first: str, last: str, rows: list[list[object]]
) -> None:
    found = _run(
        executor,
        "SELECT (t AT TIME ZONE 'Europe/Prague')::DATE AS day, count(*) AS n "
        f"FROM generate_series(TIMESTAMPTZ '{first}', TIMESTAMPTZ '{last}', INTERVAL 10 MINUTE) AS s(t) "
        "GROUP BY day ORDER BY day",
    )

    assert json.loads(_written(found, JSON))["rows"] == rows


def test_an_amount_is_a_number_with_all_its_digits(executor: SqlExecutor) -> None:
    content = _written(_run(executor, "SELECT 12345678901234567.123456789::DECIMAL(38, 9) AS a"), JSON)

    assert b'"rows":[[12345678901234567.123456789]]' in content


@pytest.mark.parametrize(
    ("expression", "kind"),
    [("'101'::BIT", "BIT"), ("'10:00:00+01'::TIMETZ", "TIME_TZ"), ("union_value(k := 1)", "UNION")],
)
def test_a_type_that_no_answer_carries_is_named_with_its_column(
    executor: SqlExecutor, expression: str, kind: str
) -> None:
    with pytest.raises(SqlFailedError) as failure:
        _run(executor, f"SELECT 1 AS fine, {expression} AS odd")

    assert (
        failure.value.detail == f"column odd has the type {kind}, which no answer carries: cast it to VARCHAR"
    )


def test_a_number_of_more_than_38_digits_is_named_with_its_column(executor: SqlExecutor) -> None:
    for big in (
        "170141183460469231731687303715884105727",
        "340282366920938463463374607431768211455::UHUGEINT",
    ):
        with pytest.raises(SqlFailedError) as failure:
            _run(executor, f"SELECT {big} AS big")

        assert failure.value.detail.startswith("column big holds a number of more than 38 digits")


def test_csv_tells_nothing_from_an_empty_text(executor: SqlExecutor) -> None:
    sql = """
        SELECT 'a,"b"' AS t, '' AS e, NULL::VARCHAR AS n, 1.50 AS d, true AS b, [1, 2] AS l,
        'nan'::DOUBLE AS f, TIMESTAMPTZ '2026-01-01 00:00:00+00' AS w, MAP {'k': 'v'} AS m
    """

    content = _written(_run(executor, sql), CSV).decode()

    assert content.splitlines() == [
        '"t","e","n","d","b","l","f","w","m"',
        '"a,""b""","",,"1.5",true,"[1,2]",,"2026-01-01T00:00:00Z","{""k"":""v""}"',
    ]


def test_arrow_and_parquet_carry_types_and_the_position(executor: SqlExecutor) -> None:
    sql = """
        SELECT n.version, c.total, n.labels, n.changed_at, sum(n.version) OVER () AS s
        FROM fleet.nodes n JOIN fleet.capacity c USING (node_id)
    """
    result = _run(executor, sql)

    stream = pa.ipc.open_stream(_written(result, ARROW)).read_all()
    file = pa.parquet.read_table(io.BytesIO(_written(result, PARQUET)))

    for table in (stream, file):
        kinds = {field.name: str(field.type) for field in table.schema}
        assert kinds["version"] == "int64"
        assert kinds["total"] == "decimal128(38, 9)"
        assert kinds["changed_at"] == "timestamp[us, tz=UTC]"
        assert kinds["s"] == "decimal128(38, 0)"
        assert kinds["labels"].startswith("map<string, string")
        assert orjson.loads(table.schema.metadata[b"fleetfold.as_of"])["epoch"] == EPOCH
    assert stream.num_rows == file.num_rows == 60


def test_intervals_are_text_in_parquet(executor: SqlExecutor) -> None:
    result = _run(executor, "SELECT INTERVAL 1 DAY AS i, [INTERVAL 1 MONTH] AS l")

    table = pa.parquet.read_table(io.BytesIO(_written(result, PARQUET)))

    assert table.to_pylist() == [{"i": "P1D", "l": '["P1M"]'}]


def test_parameters_are_values_and_never_sql(executor: SqlExecutor) -> None:
    named = _run(executor, "SELECT count(*) FROM fleet.nodes WHERE zone = $zone", parameters={"zone": "z0"})
    listed = _run(executor, "SELECT ? AS a, ? AS b", parameters=["'; DROP TABLE node", [1, 2]])

    assert named.table.to_pylist() == [{"count_star()": 7}]
    assert listed.table.to_pylist() == [{"a": "'; DROP TABLE node", "b": [1, 2]}]


def test_a_missing_parameter_is_an_error_of_the_statement(executor: SqlExecutor) -> None:
    with pytest.raises(SqlFailedError) as failure:
        _run(executor, "SELECT $1")

    assert failure.value.code == "sql_error"


def test_rows_beyond_the_limit_are_cut_and_said(executor: SqlExecutor) -> None:
    exact = _run(executor, "SELECT range FROM range(5000)", max_rows=5_000)
    cut = _run(executor, "SELECT range FROM range(5001)", max_rows=5_000)

    assert (exact.table.num_rows, exact.truncated_by) == (5_000, "")
    assert (cut.table.num_rows, cut.truncated_by) == (5_000, "rows")
    assert cut.truncation()["limits"] == {"max_rows": 50_000, "rows": 5_000, "bytes": 4_000_000}
    assert "raise max_rows (up to 50000)" in cut.truncation()["next"]


def test_bytes_beyond_the_limit_are_cut_and_said(executor: SqlExecutor) -> None:
    cut = _run(executor, "SELECT repeat('x', 10000) AS t FROM range(10000)")
    wide = _run(executor, "SELECT list(repeat('x', 10000)) AS l FROM range(1000)")

    assert cut.truncated_by == "bytes"
    assert 390 <= cut.table.num_rows <= 400
    assert (wide.table.num_rows, wide.truncated_by) == (0, "bytes")
    assert "max_rows" not in cut.truncation()["next"]


def test_an_endless_result_is_read_no_further_than_its_limit(executor: SqlExecutor) -> None:
    began_s = time.monotonic()

    result = _run(executor, "FROM range(10000000) a, range(10000000) b", max_rows=10)

    assert result.table.num_rows == 10
    assert time.monotonic() - began_s < 5


def test_a_result_without_rows_has_its_columns(executor: SqlExecutor) -> None:
    result = _run(
        executor, "SELECT labels, sum(version) OVER () AS s, schedulable FROM fleet.nodes WHERE false"
    )

    assert [str(field.type) for field in result.table.schema][1:] == ["decimal128(38, 0)", "bool"]
    for form in FORMATS:
        assert form.write(result)


@pytest.mark.parametrize(
    ("sql", "kind"),
    [
        ("SELECT nothing FROM fleet.nodes", "binder"),
        ("SELECT 'x'::INT", "conversion"),
        ("SELECT 9223372036854775807 + range FROM range(3)", "outofrange"),
        ("SELECT error('said by me')", "invalidinput"),
        ("SELECT upper(1, 2, 3)", "binder"),
        ("SELECT (CASE range WHEN 9999 THEN 'x' ELSE '1' END)::INT FROM range(10000)", "conversion"),
        ("SELECT 9223372036854775807 - 5000 + range FROM range(10000)", "outofrange"),
        ("SELECT CASE range WHEN 9999 THEN error('late') END FROM range(10000)", "invalidinput"),
    ],
)
def test_an_error_of_the_statement_has_the_engines_message_and_no_path(
    served: Fleet, executor: SqlExecutor, sql: str, kind: str
) -> None:
    with pytest.raises(SqlFailedError) as failure:
        _run(executor, sql)

    assert failure.value.code == "sql_error"
    assert failure.value.members["kind"] == kind
    assert str(served.projection.path.parent) not in failure.value.detail


def test_a_statement_ends_at_its_limit_of_time(executor: SqlExecutor) -> None:
    began_s = time.monotonic()

    with pytest.raises(SqlTimeoutError) as timeout:
        _run(executor, BOMBS["a cross join"], timeout_s=0.3)

    assert time.monotonic() - began_s < 3
    assert timeout.value.members == {"limit_s": 0.3}
    assert timeout.value.status == 504


def test_rows_that_are_streamed_end_at_the_limit_of_time_too(executor: SqlExecutor) -> None:
    slow = "SELECT a.range FROM range(10000000) a, range(10000000) b WHERE a.range + b.range < 0"

    with pytest.raises(SqlTimeoutError):
        _run(executor, slow, timeout_s=0.3)


@pytest.mark.parametrize("what", ["many groups", "wide rows", "a doubling text", "a list of a whole table"])
def test_what_needs_too_much_memory_or_time_is_a_clean_problem(executor: SqlExecutor, what: str) -> None:
    with pytest.raises((SqlMemoryError, SqlTimeoutError)):
        _run(executor, BOMBS[what], timeout_s=1)

    assert _row(executor, "SELECT count(*) FROM fleet.nodes") == [20]


def test_memory_that_is_not_there_is_said_as_such(executor: SqlExecutor) -> None:
    with pytest.raises(SqlMemoryError) as memory:
        _run(executor, "SELECT len(list(a.range)) FROM range(10000000) a, range(100) b")

    assert memory.value.status == 413
    assert memory.value.members == {"limit_bytes": LIMITS.memory_bytes}


def test_a_call_that_is_cancelled_ends_at_once(executor: SqlExecutor) -> None:
    call = Call()
    threading.Timer(0.2, call.cancel).start()
    began_s = time.monotonic()

    with pytest.raises(SqlCancelledError):
        executor.run(Statement(BOMBS["a cross join"]), call)

    assert time.monotonic() - began_s < 3
    with pytest.raises(SqlCancelledError):
        executor.run(Statement("SELECT 1"), call)


def test_no_snapshot_stays_open(served: Fleet, executor: SqlExecutor) -> None:
    _run(executor, "FROM range(10000000) a, range(10000000) b", max_rows=1)
    with pytest.raises(SqlProblemError):
        _run(executor, "SELECT 'x'::INT")

    with served.projection.cursor() as cursor:
        cursor.execute("CHECKPOINT")  # fails while an older transaction is open


def test_a_guard_that_sleeps_leaves_three_walls(unguarded: SqlExecutor, served: Fleet) -> None:
    """Nothing is read from the machine and nothing is written, also with no guard at all."""
    secret = served.projection.path.with_name("secret.txt")
    secret.write_text("s3cret")

    for reads in (
        f"FROM read_text('{secret}')",
        f"FROM read_csv('{secret}')",
        f"SELECT * FROM '{secret}'",
        f"FROM glob('{secret.parent}/*.txt')",
        f"FROM query('SELECT * FROM read_text(''{secret}'')')",
        f"COPY (SELECT 1) TO '{secret}'",
        f"ATTACH '{secret.parent}/other.duckdb'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SET threads = 1",
        "SET enable_external_access = true",
        "SELECT getenv('HOME')",
        "INSERT INTO main.node_label VALUES (1, 'a', 'b')",
        "DELETE FROM main.fact",
        "DROP TABLE main.fact",
        "CREATE TABLE t AS SELECT 1",
        "CREATE OR REPLACE VIEW fleet.nodes AS SELECT 1",
        "EXPORT DATABASE '/tmp/fleetfold-stolen'",
    ):
        with pytest.raises(SqlProblemError) as problem:
            _run(unguarded, reads)
        assert "s3cret" not in problem.value.detail
    assert secret.read_text() == "s3cret"


def test_the_writer_works_under_the_lock(served: Fleet, executor: SqlExecutor) -> None:
    _run(executor, "SELECT 1")

    served.registered("late", zone="z9")
    served.beat("late", used={"cpu": 1})
    answer = _json(executor, "SELECT zone FROM fleet.nodes WHERE node_id = 'late'")
    served.said("operator", "late", "retired")

    assert answer["rows"] == [["z9"]]
    assert answer["as_of"]["seq"] == served.projection.cursors()["FLEET"].seq - 1


def test_every_statement_is_checked_before_it_runs(executor: SqlExecutor) -> None:
    for sql in HOSTILE.values():
        with pytest.raises(SqlRefusedError):
            _run(executor, sql)


def test_tables_that_were_begun_anew_are_locked_again(tmp_path: Path) -> None:
    with fleet(tmp_path) as made:
        cursors = LockedCursors(made.projection.cursor, limits=LIMITS)
        cursors().close()

        made.projection.reopen(why="a test")

        with cursors() as cursor, pytest.raises(duckdb.Error):
            cursor.execute("SET threads = 1")


def test_names_occur_once_in_files(executor: SqlExecutor) -> None:
    result = _run(executor, "SELECT 1 AS a, 2 AS a, 3 AS a_1, 4 AS a")

    assert [column.name for column in result.columns] == ["a", "a", "a_1", "a"]
    for table in (
        pa.ipc.open_stream(_written(result, ARROW)).read_all(),
        pa.parquet.read_table(io.BytesIO(_written(result, PARQUET))),
    ):
        assert table.to_pylist() == [{"a": 1, "a_2": 2, "a_1": 3, "a_3": 4}]


def test_tables_that_are_closed_or_begun_anew_are_said_to_be_away(tmp_path: Path, watchdog: Watchdog) -> None:
    with fleet(tmp_path) as made:
        made.registered("n1")
        executor = SqlExecutor(
            LockedCursors(made.projection.cursor, limits=LIMITS),
            guard=AnyStatement(),
            watchdog=watchdog,
            limits=LIMITS,
            readings=lambda: made.readings,
            end=never_ends,
        )
        before = _row(executor, "SELECT count(*) FROM fleet.nodes")

        made.projection.reopen(why="a test")
        anew = _row(executor, "SELECT count(*) FROM fleet.nodes")
        made.projection.close()
        with pytest.raises(SqlUnavailableError) as away:
            _run(executor, "SELECT 1")

    assert (before, anew) == ([1], [0])
    assert away.value.status == 503


def test_a_statement_whose_tables_were_closed_meanwhile_does_not_end_the_watchdog(tmp_path: Path) -> None:
    has_expired = threading.Event()
    watchdog = Watchdog(end=lambda _why: has_expired.set(), arm=no_alarm, overstay=timedelta(0))
    watchdog.start()

    with fleet(tmp_path) as made:

        def closed_meanwhile() -> Mapping[str, StreamReading]:
            made.projection.close()
            assert has_expired.wait(20)
            return made.readings

        executor = SqlExecutor(
            made.projection.cursor,
            guard=AnyStatement(),
            watchdog=watchdog,
            limits=LIMITS,
            readings=closed_meanwhile,
            end=never_ends,
        )
        with pytest.raises(SqlTimeoutError):
            _run(executor, "SELECT 1", timeout_s=0.05)

    watchdog.stop()
