"""The forms of a result: written in parts, and given up between them where the time is over."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from api.sql_errors import SqlTimeoutError
from api.sql_formats import CSV, JSON, ROWS_AT_A_TIME, chosen
from api.sql_statement import ResultColumn, SqlResult

ROWS = 2 * ROWS_AT_A_TIME + 1
NUMBERS = SqlResult(
    columns=(ResultColumn("n", "BIGINT"), ResultColumn("s", "STRUCT(a BIGINT)[]")),
    table=pa.table({"n": range(ROWS), "s": [[{"a": n}] for n in range(ROWS)]}),
    as_of={},
)


def test_an_answer_in_parts_has_every_row_once_and_in_order() -> None:
    rows = json.loads(chosen(JSON).write(NUMBERS))["rows"]

    assert rows == [[n, [{"a": n}]] for n in range(ROWS)]


def test_an_answer_without_rows_is_an_empty_list() -> None:
    nothing = SqlResult(columns=NUMBERS.columns, table=NUMBERS.table.slice(0, 0), as_of={})

    assert json.loads(chosen(JSON).write(nothing))["rows"] == []


@pytest.mark.parametrize("form", [JSON, CSV])
def test_writing_a_large_answer_ends_where_its_time_is_over(form: str) -> None:
    parts = iter(range(1))

    def checked() -> None:
        if next(parts, None) is None:
            raise SqlTimeoutError(2)

    late = SqlResult(columns=NUMBERS.columns, table=NUMBERS.table, as_of={}, checked=checked)
    with pytest.raises(SqlTimeoutError):
        chosen(form).write(late)
