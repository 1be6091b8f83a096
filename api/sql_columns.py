"""Columns of a result: the engine's Arrow types made plain, and plain ones made JSON (floor 3, pure).

The engine hands HUGEINT, BOOLEAN, UUID and JSON over as extension types (its lossless conversion, without
which a sum of integers would arrive as a float). Plain are: numbers, decimals, booleans, text, binary, dates,
times, intervals, and lists, structs and maps of them.
"""

from __future__ import annotations

import math
from base64 import b64encode
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import pyarrow as pa

from api.arrow_types import Array, DataType, pc
from api.json_text import dumps, number
from api.sql_errors import SqlFailedError
from api.sql_times import dates, instants, intervals, times

HUGE = pa.decimal128(38, 0)
# A HUGEINT has the layout of a decimal without a fraction; the few values beyond 38 digits are refused.


def plain(column: Array, *, name: str) -> Array:
    """Return an array with plain types and the same values.

    Raises SqlFailedError for a type that no format carries, naming the column.
    """
    kind = column.type
    if isinstance(kind, pa.BaseExtensionType):
        made = _plain_extension(column, name=name)
    elif pa.types.is_dictionary(kind):
        made = column.dictionary_decode()
    elif pa.types.is_fixed_size_list(kind):
        made = plain(column.cast(pa.list_(kind.value_type)), name=name)
    elif pa.types.is_union(kind):
        raise _no_format(name, "UNION")
    elif _holds(kind, _is_special):
        made = _plain_nested(column, name=name)
    else:
        made = column
    return made


def jsonable(column: Array) -> list[Any]:
    """Return the values of a plain array as what `json_text.dumps` writes; NaN and infinities become None.

    A member of a struct without a name (`row(1, 2)`), or with one that an earlier member has, is named by its
    position, from "1". A map is an object: its keys are text, NaN and infinities among them `NaN`, `Infinity`
    and `-Infinity`.

    A date or time outside the years 1 to 9999 has no spelling in RFC 3339 and is text as the engine prints it
    (`294247-01-10 00:00:00`, `0044-03-15 (BC)`).
    """
    kind = column.type
    for test, convert in _CONVERTERS:
        if test(kind):
            return convert(column)
    return list(column.to_pylist())


def as_text(column: Array) -> Array:
    """Return a plain array as a CSV holds it: numbers and booleans as they are, everything else as text."""
    kind = column.type
    if pa.types.is_floating(kind):
        return pc.if_else(pc.is_finite(column), column, pa.scalar(None, kind))
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind) or _is_text(kind):
        return column
    values = jsonable(column)
    if pa.types.is_nested(kind):
        return pa.array([None if value is None else dumps(value).decode() for value in values], pa.string())
    if pa.types.is_decimal(kind):
        return pa.array([None if value is None else dumps(value).decode() for value in values], pa.string())
    return pa.array(values, pa.string())


def intervals_as_text(table: pa.Table) -> pa.Table:
    """Return a table whose columns of intervals are text (ISO 8601), for a format that has no intervals."""
    for index, field in enumerate(table.schema):
        if _holds(field.type, pa.types.is_interval):
            texts = [value if not isinstance(value, (dict, list)) else dumps(value).decode()
                     for chunk in table.column(index).chunks for value in jsonable(chunk)]  # fmt: skip
            table = table.set_column(index, field.name, pa.array(texts, pa.string()))
    return table


def _plain_nested(column: Array, *, name: str) -> Array:
    kind = column.type
    mask = column.is_null() if column.null_count else None
    if pa.types.is_struct(kind):
        names = [kind.field(i).name for i in range(kind.num_fields)]
        inner = [plain(column.field(i), name=name) for i in range(kind.num_fields)]
        return pa.StructArray.from_arrays(inner, names=names, mask=mask)
    if pa.types.is_map(kind):
        keys, items = plain(column.keys, name=name), plain(column.items, name=name)
        return pa.MapArray.from_arrays(column.offsets, keys, items, mask=mask)
    return pa.ListArray.from_arrays(column.offsets, plain(column.values, name=name), mask=mask)


def _plain_extension(column: Array, *, name: str) -> Array:
    storage = column.storage
    match column.type.extension_name:
        case "arrow.bool8":
            return storage.cast(pa.bool_())
        case "arrow.uuid":
            return pa.array(
                [None if value is None else str(value) for value in column.to_pylist()], pa.string()
            )
        case "arrow.opaque" if column.type.type_name in {"hugeint", "uhugeint"}:
            return _decimals(storage, name=name, is_signed=column.type.type_name == "hugeint")
        case "arrow.opaque":
            raise _no_format(name, str(column.type.type_name).upper())
        case _:
            return storage


def _decimals(storage: Array, *, name: str, is_signed: bool) -> Array:
    decimals = pa.Array.from_buffers(
        HUGE, len(storage), storage.buffers(), storage.null_count, storage.offset
    )
    try:
        decimals.validate(full=True)
    except pa.ArrowInvalid as err:
        raise _too_large(name) from err
    if not is_signed and pc.any(pc.less(decimals, pa.scalar(0, HUGE))).as_py():
        raise _too_large(name)
    return decimals


def _too_large(name: str) -> SqlFailedError:
    return SqlFailedError(
        f"column {name} holds a number of more than 38 digits: cast it to DOUBLE or VARCHAR", kind="type"
    )


def _no_format(name: str, kind: str) -> SqlFailedError:
    return SqlFailedError(
        f"column {name} has the type {kind}, which no answer carries: cast it to VARCHAR", kind="type"
    )


def _holds(kind: DataType, test: Callable[[Any], bool]) -> bool:
    """Tell whether a type is, or has inside, one that the test is true for."""
    return test(kind) or any(_holds(kind.field(i).type, test) for i in range(kind.num_fields))


def _is_special(kind: DataType) -> bool:
    """Tell whether a type is not plain by itself."""
    is_extension = isinstance(kind, pa.BaseExtensionType)
    others = (pa.types.is_dictionary, pa.types.is_fixed_size_list, pa.types.is_union)
    return is_extension or any(test(kind) for test in others)


def _is_binary(kind: DataType) -> bool:
    return any(test(kind) for test in (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view))


def _is_text(kind: DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)


def _once_each(convert: Callable[[Array], list[Any]]) -> Callable[[Array], list[Any]]:
    """Return a conversion that meets each value once, however often it stands in the column.

    Amounts and times repeat: with a few different values this is 40 times as fast, and with all different as
    fast.
    """

    def converted(column: Array) -> list[Any]:
        encoded = column.dictionary_encode()
        values = convert(encoded.dictionary)
        return [None if index is None else values[index] for index in encoded.indices.to_pylist()]

    return converted


def _numbers(column: Array) -> list[Any]:
    return [None if value is None else number(value) for value in column.to_pylist()]


def _base64(column: Array) -> list[Any]:
    return [None if value is None else b64encode(value).decode() for value in column.to_pylist()]


def _lists(column: Array) -> list[Any]:
    values, offsets = jsonable(column.values), column.offsets.to_pylist()
    return _unless_null(column, [values[start:end] for start, end in pairwise(offsets)])


def _structs(column: Array) -> list[Any]:
    kind = column.type
    names = _member_names([kind.field(i).name for i in range(kind.num_fields)])
    members = [jsonable(column.field(i)) for i in range(kind.num_fields)]
    return _unless_null(column, [dict(zip(names, row, strict=True)) for row in zip(*members, strict=True)])


def _member_names(names: Sequence[str]) -> list[str]:
    """Return a name for each member: its own, or its position from "1" where it has none or it is taken."""
    made: list[str] = []
    for position, name in enumerate(names, start=1):
        own = name if name and name not in made else str(position)
        while own in made or (own != name and own in names):
            own += "_"
        made.append(own)
    return made


def _maps(column: Array) -> list[Any]:
    keys = [_key(key) for key in _key_values(column.keys)]
    items, offsets = jsonable(column.items), column.offsets.to_pylist()
    return _unless_null(column, [dict(zip(keys[a:b], items[a:b], strict=True)) for a, b in pairwise(offsets)])


def _key_values(column: Array) -> list[Any]:
    """Return the keys of maps as `jsonable` does, with the ends of time as text, since no key is null."""
    values = jsonable(column)
    kind = column.type
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        raw = column.view(pa.int64() if pa.types.is_timestamp(kind) else pa.int32()).to_pylist()
        values = [
            ("Infinity" if number_of_units > 0 else "-Infinity") if value is None else value
            for value, number_of_units in zip(values, raw, strict=True)
        ]
    return values


def _key(value: object) -> str:
    spelled = _spelled(value)
    return spelled if isinstance(spelled, str) else dumps(spelled).decode()


def _spelled(value: object) -> object:
    """Return a value in which the floats without JSON are the text NaN, Infinity or -Infinity."""
    match value:
        case float() if math.isnan(value):
            return "NaN"
        case float() if math.isinf(value):
            return "Infinity" if value > 0 else "-Infinity"
        case dict():
            return {name: _spelled(member) for name, member in value.items()}
        case list():
            return [_spelled(member) for member in value]
        case _:
            return value


def _unless_null(column: Array, values: Sequence[Any]) -> list[Any]:
    if not column.null_count:
        return list(values)
    return [
        value if is_valid else None
        for value, is_valid in zip(values, column.is_valid().to_pylist(), strict=True)
    ]


_CONVERTERS: tuple[tuple[Callable[[Any], bool], Callable[[Array], list[Any]]], ...] = (
    (pa.types.is_decimal, _once_each(_numbers)),
    (_is_binary, _base64),
    (pa.types.is_timestamp, _once_each(instants)),
    (pa.types.is_date, _once_each(dates)),
    (pa.types.is_time, times),
    (pa.types.is_interval, intervals),
    (pa.types.is_map, _maps),
    (pa.types.is_list, _lists),
    (pa.types.is_struct, _structs),
)
