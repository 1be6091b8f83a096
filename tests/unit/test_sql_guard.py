"""What analysts' SQL may be, decided from its text alone."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.sql_calls import lowered
from api.sql_errors import SqlRefusedError, SqlSyntaxError
from api.sql_functions import ALLOWED, FREE, TABLES
from api.sql_guard import MAX_STATEMENT_CHARACTERS, Guard
from api.sql_tree import MAX_SERIES_ROWS, MAX_SIZE, Relations
from projections.macros import MACROS
from projections.tables import TABLES as STORED
from projections.views import VIEWS
from tests.support.hostile_sql import BOMBS, HOSTILE, LEGITIMATE

RELATIONS = Relations(
    views=frozenset(view.name for view in VIEWS),
    table_macros=frozenset(macro.name for macro in MACROS),
    reserved=frozenset({"duckdb_logs", "duckdb_tables", *(table.name for table in STORED)}),
)


@pytest.fixture(scope="module")
def guard() -> Iterator[Guard]:
    made = Guard(RELATIONS)
    yield made
    made.close()


@pytest.mark.parametrize("what", HOSTILE)
def test_what_nobody_may_run_is_refused(guard: Guard, what: str) -> None:
    with pytest.raises(SqlRefusedError) as refusal:
        guard.check(HOSTILE[what])

    assert refusal.value.status == 400
    assert refusal.value.code in {"sql_refused", "sql_error"}
    assert "/tmp" not in refusal.value.detail


@pytest.mark.parametrize("what", [*LEGITIMATE, *BOMBS])
def test_what_an_analyst_asks_is_let_through(guard: Guard, what: str) -> None:
    guard.check({**LEGITIMATE, **BOMBS}[what])


@pytest.mark.parametrize(
    ("sql", "construct", "instead"),
    [
        ("FROM nodes", "table nodes", "write fleet.nodes"),
        ("FROM fleet.node", "table fleet.node", "did you mean fleet.nodes? "),
        ("FROM fleet.nodes_at", "table fleet.nodes_at", "write fleet.nodes_at(…)"),
        ("FROM nodes_at(now())", "table function nodes_at", "write fleet.nodes_at(…)"),
        ("SELECT cuont(*) FROM fleet.nodes", "function cuont", "did you mean count? "),
        ("DESCRIBE fleet.nodes", "DESCRIBE, SHOW and SUMMARIZE", "GET /fleet/v1/sql/schema lists "),
        ("SELECT 1; SELECT 2", "2 statements", "send each by itself"),
        ("COPY fleet.nodes TO 'x.csv'", "COPY", "ask with Accept: text/csv "),
        ("SELECT range(10, 1000000)", "range as a list", "write FROM range(…)"),
        ("PIVOT fleet.nodes ON zone USING count(*)", "PIVOT", "write it with its values: ON state IN"),
        ("WITH node AS (SELECT 1) FROM node", "CTE node", "call it something else"),
        ("SELECT at FROM fleet.usage", "syntax", 'a column named at is written "at", or with its table'),
    ],
)
def test_a_refusal_says_what_and_what_instead(guard: Guard, sql: str, construct: str, instead: str) -> None:
    with pytest.raises(SqlRefusedError) as refusal:
        guard.check(sql)

    assert refusal.value.construct == construct
    assert refusal.value.instead.startswith(instead)
    assert refusal.value.instead in refusal.value.detail


def test_a_text_that_is_no_sql_is_answered_with_its_place(guard: Guard) -> None:
    with pytest.raises(SqlSyntaxError) as refusal:
        guard.check("SELECT node_id FORM fleet.nodes")

    assert refusal.value.code == "sql_error"
    assert refusal.value.position == 20
    assert 'near "fleet"' in refusal.value.detail


def test_lengths_are_bounded_inclusively(guard: Guard) -> None:
    guard.check(f"SELECT range({MAX_SIZE}), generate_series(1, {MAX_SIZE}), repeat('x', {MAX_SIZE})")
    guard.check(f"FROM range({MAX_SERIES_ROWS})")
    guard.check("SELECT 1".ljust(MAX_STATEMENT_CHARACTERS))

    for too_much in (
        f"SELECT range({MAX_SIZE + 1})",
        f"SELECT generate_series(0, {MAX_SIZE})",
        f"SELECT repeat('x', {MAX_SIZE + 1})",
        f"FROM range({MAX_SERIES_ROWS + 1})",
        "SELECT 1".ljust(MAX_STATEMENT_CHARACTERS + 1),
    ):
        with pytest.raises(SqlRefusedError):
            guard.check(too_much)


def test_only_ascii_letters_have_a_lower_case() -> None:
    assert lowered("FLEET.Nodes_\u212a_İ") == "fleet.nodes_\u212a_İ"


def test_every_function_on_the_list_is_one_of_the_engine() -> None:
    spelled_by_the_parser = {"coalesce", "ifnull", "current_time", "current_timestamp", "->"}
    newer_than_this_engine = {"if", "overlay"}
    with duckdb.connect() as engine:
        known = {
            name.lower()
            for (name,) in engine.execute("SELECT function_name FROM duckdb_functions()").fetchall()
        }

    assert ALLOWED - known - spelled_by_the_parser <= newer_than_this_engine
    assert known >= TABLES


def test_no_macro_on_the_list_calls_what_is_not_on_it(guard: Guard) -> None:
    """The engine's own macros are expanded after the guard has looked."""
    bounded_by_their_list = {"generate_subscripts"}
    with duckdb.connect() as engine:
        macros = engine.execute(
            "SELECT function_name, macro_definition FROM duckdb_functions() WHERE function_type = 'macro'"
        ).fetchall()

    for name, definition in macros:
        if name.lower() in FREE - bounded_by_their_list:
            guard.check(f"SELECT {definition}")


FRAGMENTS = st.sampled_from(
    [
        *(
            "SELECT",
            "FROM",
            "WHERE",
            "WITH",
            "AS",
            "(",
            ")",
            "[",
            "]",
            "{",
            "}",
            ",",
            ";",
            "'",
            '"',
            "$$",
            "--",
            "/*",
            "*/",
        ),
        *(
            "fleet.nodes",
            "facts",
            "x",
            "1",
            "-1",
            "*",
            "::",
            ".",
            "read_text('/etc/passwd')",
            "range(1000000000)",
            "?",
            "$1",
        ),
        *(
            "PIVOT",
            "UNION ALL",
            "RECURSIVE",
            "INSERT INTO",
            "DELETE FROM",
            "RETURNING",
            "lambda x:",
            "CASE",
            "END",
            "NOT",
        ),
        *(
            "\n",
            "\t",
            " ",
            "\0",
            "\u200b",
            "\ud800",
            "🚀",
            "ſ",
            "\u212a",
            "COLUMNS(*)",
            "AT (VERSION => 1)",
            "EXPLAIN",
            "SHOW",
        ),
    ]
)


@given(
    st.one_of(
        st.text(),
        st.lists(FRAGMENTS, max_size=30).map(" ".join),
        st.lists(FRAGMENTS, max_size=30).map("".join),
    )
)
def test_the_guard_lets_through_or_refuses_and_never_fails(guard: Guard, text: str) -> None:
    try:
        guard.check(text)
    except SqlRefusedError as refusal:
        assert refusal.detail


@given(st.sampled_from(sorted({**HOSTILE, **LEGITIMATE}.values())), st.data())
def test_a_statement_that_was_cut_or_mangled_never_makes_the_guard_fail(
    guard: Guard, sql: str, data: st.DataObject
) -> None:
    sql = sql[:2_000]
    start = data.draw(st.integers(0, len(sql)))
    end = data.draw(st.integers(start, len(sql)))
    inserted = data.draw(FRAGMENTS | st.text(max_size=5))

    try:
        guard.check(sql[:start] + inserted + sql[end:])
    except SqlRefusedError as refusal:
        assert refusal.detail


@given(
    st.sampled_from(sorted(HOSTILE.values())),
    st.sampled_from([" ", "\n", "\t", "/**/", "--x\n", ";", "; ;", "\ufeff"]),
)
def test_what_surrounds_a_hostile_statement_does_not_help_it(guard: Guard, sql: str, around: str) -> None:
    with pytest.raises(SqlRefusedError):
        guard.check(around + sql + around)


AROUND_AN_EXPRESSION = st.sampled_from(
    [
        *(
            "({})",
            "-{}",
            "NOT {}",
            "{} + 1",
            "{} || 'x'",
            "{}::VARCHAR",
            "TRY_CAST({} AS INTEGER)",
            "[{}]",
            "[1, {}]",
        ),
        *(
            "{{'a': {}}}",
            "MAP {{'a': {}}}",
            "coalesce(NULL, {})",
            "CASE WHEN {} THEN 1 END",
            "CASE 1 WHEN 1 THEN {} END",
        ),
        *(
            "list_transform([1], lambda x: {})",
            "[{} for x in [1]]",
            "[x for x in [1] if {}]",
            "(SELECT {})",
            "{} IN (1, 2)",
        ),
        *(
            "1 IN (SELECT {})",
            "EXISTS (SELECT {})",
            "sum({})",
            "count(*) FILTER (WHERE {})",
            "string_agg('a', ',' ORDER BY {})",
        ),
        *(
            "sum(1) OVER (PARTITION BY {})",
            "lag({}) OVER ()",
            "{} BETWEEN 1 AND 2",
            "{} IS NULL",
            "{} LIKE 'x'",
            "([1])[{}]",
        ),
        *(
            "TRY({})",
            "{} COLLATE NOCASE",
            "struct_pack(k := {})",
            "{}.upper()",
            "array_agg({})[1:2]",
            "extract(year FROM {})",
        ),
    ]
)
AROUND_A_QUERY = st.sampled_from(
    [
        *(
            "{}",
            "FROM ({})",
            "WITH a AS ({}) FROM a",
            "SELECT 1 UNION ALL ({})",
            "({}) EXCEPT SELECT 1",
            "SELECT ({})",
        ),
        *(
            "WITH RECURSIVE r(n) AS (({}) UNION ALL SELECT n FROM r) FROM r",
            "FROM fleet.nodes n, LATERAL ({}) l",
        ),
        *(
            "SELECT * FROM fleet.nodes WHERE node_id IN ({})",
            "FROM fleet.nodes ORDER BY ({})",
            "VALUES (({}))",
        ),
        *("FROM (PIVOT ({}) ON 1 IN (1) USING count(*))", "FROM fleet.nodes LIMIT ({})", "FROM range(({}))"),
        *(
            "FROM fleet.nodes ASOF JOIN ({}) x ON true",
            "SELECT 1 QUALIFY ({}) > 1",
            "FROM fleet.nodes_at(({}))",
        ),
    ]
)
HOSTILE_CALL = st.sampled_from(
    [
        *(
            "getenv('HOME')",
            "nextval('s')",
            "current_setting('x')",
            "getvariable('x')",
            "sleep_ms(1000)",
            "write_log('x')",
        ),
        *(
            "range(1000000000)",
            "repeat('x', 1000000000)",
            "list_aggregate([1], 'reservoir_quantile', 0.5, 1000000000)",
        ),
        *(
            "(SELECT content FROM read_text('/etc/passwd'))",
            "(FROM query('SELECT 1'))",
            "(SELECT seq FROM fact)",
            "stats(1)",
        ),
        *(
            "(FROM duckdb_settings() SELECT name)",
            "(SELECT 1 FROM main.node)",
            "(FROM (SUMMARIZE fact) SELECT 1)",
            "version()",
        ),
    ]
)


@given(HOSTILE_CALL, st.lists(AROUND_AN_EXPRESSION, max_size=4), st.lists(AROUND_A_QUERY, max_size=3))
def test_no_place_in_a_statement_hides_a_hostile_call(
    guard: Guard, call: str, expressions: list[str], queries: list[str]
) -> None:
    for around in expressions:
        call = around.format(call)
    sql = f"SELECT {call}"
    for around in queries:
        sql = around.format(sql)

    with pytest.raises(SqlRefusedError):
        guard.check(sql)


@given(st.lists(AROUND_AN_EXPRESSION, max_size=3), st.lists(AROUND_A_QUERY, max_size=3))
def test_the_same_places_without_a_hostile_call_are_admitted_or_no_sql(
    guard: Guard, expressions: list[str], queries: list[str]
) -> None:
    """So that the law above refuses for the call, not for what is around it."""
    call = "1"
    for around in expressions:
        call = around.format(call)
    sql = f"SELECT {call}"
    for around in queries:
        sql = around.format(sql)

    try:
        guard.check(sql)
    except SqlSyntaxError:
        return


@pytest.mark.parametrize(
    ("sql", "construct"),
    [
        ("SELECT 1e99999", "number 1e99999"),
        ("SELECT -1e400, 2", "number -1e400"),
        ("SELECT 'äö → 1e500', .5e999", "number .5e999"),
        ("SELECT 1 WHERE 2 < 1_000e+999", "number 1_000e+999"),
        (f"SELECT {'9' * 5000}", f"number {'9' * 40}… (5000 characters)"),
        (f"SELECT {'[' * 900}1{']' * 900}", "nesting"),
        (f"""SELECT '"value":Infinity}}', {"[" * 900}1{"]" * 900}""", "nesting"),
    ],
)
def test_a_number_beyond_every_double_is_named(guard: Guard, sql: str, construct: str) -> None:
    with pytest.raises(SqlRefusedError) as refusal:
        guard.check(sql)

    assert refusal.value.construct == construct
