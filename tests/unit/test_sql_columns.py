"""What the values of a result are in JSON, by the types of their columns."""

from __future__ import annotations

from typing import Any

import duckdb
import orjson
import pyarrow as pa
import pytest

from api.json_text import dumps
from api.sql_columns import jsonable, plain


def answered(sql: str) -> str:
    """Return the one value of a statement as an answer in JSON holds it."""
    with duckdb.connect() as connection:
        connection.execute("SET arrow_lossless_conversion = true; SET TimeZone = 'UTC'")
        table: Any = connection.execute(sql).to_arrow_table()
    [value] = jsonable(plain(table.column(0).chunk(0), name="x"))
    return dumps(value).decode()


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT row(1, 2)", '{"1":1,"2":2}'),
        ("SELECT row(1, row(2, 3))", '{"1":1,"2":{"1":2,"2":3}}'),
        ("SELECT list_zip([1, 2], [3, 4])", '[{"1":1,"2":3},{"1":2,"2":4}]'),
        ("SELECT {'a': 1, 'b': row(true)}", '{"a":1,"b":{"1":true}}'),
        ("SELECT map {row(1, 2): 1, row(2, 2): 2}", r'{"{\"1\":1,\"2\":2}":1,"{\"1\":2,\"2\":2}":2}'),
    ],
)
def test_a_member_without_a_name_is_named_by_its_position(sql: str, expected: str) -> None:
    assert answered(sql) == expected


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["a", "a", ""], ["a", "2", "3"]),
        (["", "1"], ["1_", "1"]),
        (["2", "2"], ["2", "2_"]),
    ],
)
def test_no_two_members_of_a_struct_share_a_name(names: list[str], expected: list[str]) -> None:
    values = [pa.array([position]) for position, _ in enumerate(names)]

    [value] = jsonable(pa.StructArray.from_arrays(values, names=names))

    assert value == {name: position for position, name in enumerate(expected)}


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        (
            "SELECT map {'nan'::DOUBLE: 1, 'inf'::DOUBLE: 2, '-inf'::DOUBLE: 3, 1.5::DOUBLE: 4}",
            '{"NaN":1,"Infinity":2,"-Infinity":3,"1.5":4}',
        ),
        ("SELECT map {'nan'::FLOAT: 1, 'inf'::FLOAT: 2}", '{"NaN":1,"Infinity":2}'),
        ("SELECT map {['nan'::DOUBLE]: 1, ['inf'::DOUBLE]: 2}", r'{"[\"NaN\"]":1,"[\"Infinity\"]":2}'),
        ("SELECT map {DATE 'infinity': 1, DATE '-infinity': 2}", '{"Infinity":1,"-Infinity":2}'),
        ("SELECT map {TIMESTAMP 'infinity': 1, TIMESTAMP '-infinity': 2}", '{"Infinity":1,"-Infinity":2}'),
    ],
)
def test_no_two_keys_of_a_map_become_one(sql: str, expected: str) -> None:
    assert answered(sql) == expected


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT TIMESTAMP '294247-01-10'", '"294247-01-10 00:00:00"'),
        ("SELECT DATE '5881580-07-10'", '"5881580-07-10"'),
        ("SELECT DATE '0044-03-15 (BC)'", '"0044-03-15 (BC)"'),
        ("SELECT {'a': TIMESTAMPTZ '12000-01-01 01:02:03.5'}", '{"a":"12000-01-01 01:02:03.5+00"}'),
        ("SELECT [DATE '9999-12-31', DATE '10000-01-01', NULL]", '["9999-12-31","10000-01-01",null]'),
        ("SELECT map {DATE '5881580-07-10': 1}", '{"5881580-07-10":1}'),
        ("SELECT TIMESTAMP '9999-12-31 23:59:59.999999'", '"9999-12-31T23:59:59.999999"'),
        ("SELECT TIMESTAMPTZ '0001-01-01'", '"0001-01-01T00:00:00Z"'),
        ("SELECT '2026-01-01 01:02:03.5'::TIMESTAMP_NS", '"2026-01-01T01:02:03.500000000"'),
        ("SELECT [TIMESTAMPTZ 'infinity', '-infinity']", "[null,null]"),
        ("SELECT [DATE 'infinity', '-infinity']", "[null,null]"),
    ],
)
def test_a_time_has_the_year_that_it_has(sql: str, expected: str) -> None:
    assert answered(sql) == expected


@pytest.mark.parametrize(
    "times",
    [
        "SELECT DATE '1970-01-01' + (sign * (2932897 + i * 2135791))::INTEGER AS t",
        "SELECT make_timestamp(sign * (253402300800000000 + i * 8969969767631711)) AS t",
        "SELECT make_timestamp(sign * (253402300800000000 + i * 8969969767631711))::TIMESTAMP_MS AS t",
        "SELECT make_timestamp(sign * (253402300800000000 + i * 8969969767631711))::TIMESTAMP_S AS t",
        "SELECT make_timestamp(sign * (253402300800000000 + i * 8969969767631711))::TIMESTAMPTZ AS t",
    ],
)
def test_a_time_beyond_four_digits_of_years_is_written_as_the_engine_prints_it(times: str) -> None:
    made = f"{times} FROM range(1000) _(i), (VALUES (1), (-1)) signs(sign)"

    answer = orjson.loads(
        answered(f"SELECT struct_pack(ours := list(t), printed := list(t::VARCHAR)) FROM ({made})")
    )

    assert len(answer["ours"]) == 2000
    assert answer["ours"] == answer["printed"]
