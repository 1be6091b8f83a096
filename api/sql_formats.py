"""The four forms of a result: JSON, CSV, an Arrow stream, Parquet (floor 3).

Each is made in memory, whole: a result is bounded in rows and bytes, and an error that happens on the way is
still an answer of its own, not half a file.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any

import orjson
import pyarrow as pa

from api.json_text import dumps
from api.sql_columns import as_text, intervals_as_text, jsonable
from api.sql_errors import SqlNotAcceptableError

if TYPE_CHECKING:
    from api.sql_statement import SqlResult

JSON = "application/json"
CSV = "text/csv"
ARROW = "application/vnd.apache.arrow.stream"
PARQUET = "application/vnd.apache.parquet"
ROWS_AT_A_TIME = 2_048
# Of the largest rows that are allowed, these take a tenth of a second to write.
AS_OF_KEY = b"fleetfold.as_of"


@dataclass(frozen=True, slots=True)
class Format:
    """One form: its media type and what writes it."""

    media_type: str
    write: Callable[[SqlResult], bytes]


def chosen(accept: str) -> Format:
    """Return the form that an `Accept` header asks for first; JSON where it asks for nothing.

    Raises SqlNotAcceptableError where it names only forms that there are not.
    """
    ranges = [_weighted(part) for part in accept.split(",") if part.strip()]
    for media_range, weight in sorted(ranges, key=lambda pair: -pair[1]):
        if weight > 0:
            for form in FORMATS:
                if _matches(form.media_type, media_range):
                    return form
    if ranges:
        raise SqlNotAcceptableError(
            f"{accept[:100]} is none of the forms that there are",
            members={"known": [form.media_type for form in FORMATS]},
        )
    return FORMATS[0]


def _weighted(part: str) -> tuple[str, float]:
    media_range, *parameters = (piece.strip().lower() for piece in part.split(";"))
    for parameter in parameters:
        if parameter.startswith("q="):
            try:
                return media_range, float(parameter[2:])
            except ValueError:
                return media_range, 0.0
    return media_range, 1.0


def _matches(media_type: str, media_range: str) -> bool:
    kind, _, sub = media_range.partition("/")
    return media_range in {media_type, "*/*"} or (sub == "*" and media_type.startswith(f"{kind}/"))


def _json(result: SqlResult) -> bytes:
    answer: dict[str, Any] = {
        "columns": [{"name": column.name, "type": column.type} for column in result.columns],
        "rows": orjson.Fragment(b"[" + b",".join(_json_rows(result)) + b"]"),
        "row_count": result.table.num_rows,
        "truncated": bool(result.truncated_by),
    }
    if result.truncated_by:
        answer["truncation"] = result.truncation()
    return dumps({**answer, "elapsed_ms": result.elapsed_ms, "as_of": result.as_of})


def _json_rows(result: SqlResult) -> Iterator[bytes]:
    """Yield some rows at a time as JSON, without the brackets around them."""
    for begin in range(0, result.table.num_rows, ROWS_AT_A_TIME):
        result.checked()
        columns = [jsonable(column) for column in _whole(result.table.slice(begin, ROWS_AT_A_TIME))]
        yield dumps(list(zip(*columns, strict=True)))[1:-1]


def _csv(result: SqlResult) -> bytes:
    from pyarrow import csv  # noqa: PLC0415  loaded on demand: 20 ms

    names = [column.name for column in result.columns]
    columns = []
    for column in _whole(result.table):
        result.checked()
        columns.append(as_text(column))
    out = io.BytesIO()
    csv.write_csv(pa.Table.from_arrays(columns, names=names), out)
    return out.getvalue()


def _arrow(result: SqlResult) -> bytes:
    table = _described(result, result.table)
    out = io.BytesIO()
    with pa.ipc.new_stream(out, table.schema) as stream:
        stream.write_table(table)
    return out.getvalue()


def _parquet(result: SqlResult) -> bytes:
    from pyarrow import parquet  # noqa: PLC0415  loaded on demand: 60 ms

    out = io.BytesIO()
    parquet.write_table(_described(result, intervals_as_text(result.table)), out, compression="zstd")
    return out.getvalue()


def _whole(table: pa.Table) -> list[Any]:
    return [column.combine_chunks() for column in table.columns]


def _described(result: SqlResult, table: pa.Table) -> pa.Table:
    """Return the table with names that occur once each, as readers of files want them, and the position."""
    names: list[str] = []
    for name in table.column_names:
        taken = {*names, *table.column_names[len(names) + 1 :]}
        names.append(next(free for free in _spellings(name) if free not in taken) if name in names else name)
    return table.rename_columns(names).replace_schema_metadata({AS_OF_KEY: dumps(result.as_of)})


def _spellings(name: str) -> Iterator[str]:
    return (f"{name}_{number}" for number in count(1))


FORMATS = (Format(JSON, _json), Format(CSV, _csv), Format(ARROW, _arrow), Format(PARQUET, _parquet))
