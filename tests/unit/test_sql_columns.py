"""What the values of a result are in JSON, by the types of their columns."""

from __future__ import annotations

from typing import Any

import duckdb
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
