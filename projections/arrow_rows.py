"""Rows as Arrow tables, which DuckDB reads without copying and without Python's lock (floor 2, pure)."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Context, Decimal
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from events.log import Int64s
from projections.tables import AMOUNT, TEXT, TEXT_MAP, TEXTS, TIME, Table

if TYPE_CHECKING:
    import pyarrow as pa

AMOUNT_BELOW = Decimal(10) ** 29
# What a DECIMAL(38, 9) holds. An amount of the log is smaller; a product of two may be larger.
_PLACES = Decimal(1).scaleb(-9)
_EXACT = Context(prec=60)


def arrow_rows(
    table: Table, rows: Sequence[tuple[Any, ...]], *, first: dict[str, Int64s] | None = None
) -> pa.Table:
    """Return rows as an Arrow table with the table's columns, those in `first` before those of the rows.

    A number that its column cannot hold becomes NULL there; the node's packed state still has it.
    """
    import pyarrow as pa  # noqa: PLC0415 (takes 50 ms, and starting must be quick)

    before = first or {}
    names = [name for name in table.columns if name not in before]
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(names)
    made = [pa.array(before[name], _type(table.columns[name])) for name in before]
    made += [_column(name, table, column) for name, column in zip(names, columns, strict=True)]
    return pa.table(made, names=[*before, *names])


def times(at_us: Int64s, *, mask: npt.NDArray[np.bool_] | None = None) -> pa.Array[Any]:
    """Return microseconds since 1970 as a column of times, NULL where the mask is set."""
    import pyarrow as pa  # noqa: PLC0415

    return pa.array(at_us.view("datetime64[us]"), pa.timestamp("us", "UTC"), mask=mask)


def _column(name: str, table: Table, column: Sequence[Any]) -> pa.Array[Any]:
    import pyarrow as pa  # noqa: PLC0415

    kind = table.columns[name]
    if kind == TEXT_MAP:
        return _maps(column)
    made: pa.Array[Any]
    try:
        made = pa.array(column, _type(kind))
    except pa.ArrowInvalid:
        if kind != AMOUNT:
            raise
        made = pa.array([_storable(amount) for amount in column], _type(kind))
    return made


def _maps(column: Sequence[dict[str, str]]) -> pa.Array[Any]:
    # Three flat arrays: a list of pairs for each row would cost ten times as much.
    import pyarrow as pa  # noqa: PLC0415

    ends = pa.array(np.cumsum([0, *map(len, column)], dtype=np.int32))
    keys = pa.array(list(chain.from_iterable(column)), pa.string())
    values = pa.array(list(chain.from_iterable(map(dict.values, column))), pa.string())
    made: pa.Array[Any] = pa.MapArray.from_arrays(ends, keys, values)  # type: ignore[call-overload]
    return made


def _storable(amount: Decimal | None) -> Decimal | None:
    if amount is None or not -AMOUNT_BELOW < amount < AMOUNT_BELOW:
        return None
    return amount.quantize(_PLACES, context=_EXACT)


def _type(kind: str) -> Any:  # noqa: ANN401 (pyarrow's types are not exported)
    import pyarrow as pa  # noqa: PLC0415

    return {
        "INTEGER": pa.int32(),
        "BIGINT": pa.int64(),
        "DOUBLE": pa.float64(),
        "BOOLEAN": pa.bool_(),
        "BLOB": pa.binary(),
        TEXT: pa.string(),
        TIME: pa.timestamp("us", "UTC"),
        AMOUNT: pa.decimal128(38, 9),
        TEXTS: pa.list_(pa.string()),
        TEXT_MAP: pa.map_(pa.string(), pa.string()),
    }[kind]
