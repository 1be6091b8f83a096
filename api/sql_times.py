"""Dates, times and intervals of a result as text (floor 3, pure).

What RFC 3339 spells is spelled so. A date or time outside the years 1 to 9999 is text as the engine prints
it, and the ends of time are None.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from typing import Any

import pyarrow as pa

from api.arrow_types import Array, DataType, pc

_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_SECONDS_OF_A_DAY = 86_400
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896
# 0001-01-01 and 9999-12-31, the ends of RFC 3339; strftime counts years in 16 bits and is wrong far beyond.
_DAYS_OF_400_YEARS = 146_097


def instants(column: Array) -> list[Any]:
    """Return times as RFC 3339: with `Z` where the type has a zone, which is UTC, else without an offset."""
    per_second, has_zone = _PER_SECOND[column.type.unit], bool(column.type.tz)
    per_day = _SECONDS_OF_A_DAY * per_second

    def near(within: Array) -> Array:
        texts = pc.replace_substring_regex(pc.strftime(within, "%Y-%m-%dT%H:%M:%S"), r"\.0+$", "")
        return pc.binary_join_element_wise(texts, "Z", "") if has_zone else texts

    def far(units: int) -> str:
        days, rest = divmod(units, per_day)
        seconds, fraction = divmod(rest, per_second)
        clock = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
        digits = f".{fraction * (10**9 // per_second):09d}".rstrip("0") if fraction else ""
        return f"{_far_date(days)} {clock}{digits}" + ("+00" if has_zone else "")

    return _near_and_far(column, pa.int64(), per_day=per_day, near=near, far=far)


def dates(column: Array) -> list[Any]:
    """Return dates as RFC 3339; what it cannot spell as `instants` does."""

    def near(within: Array) -> Array:
        return pc.strftime(within.cast(pa.timestamp("s")), "%Y-%m-%d")

    return _near_and_far(column, pa.int32(), per_day=1, near=near, far=_far_date)


def _near_and_far(
    column: Array, raw: DataType, *, per_day: int, near: Callable[[Array], Array], far: Callable[[int], str]
) -> list[Any]:
    """Write what is within the years 1 to 9999 with `near`, others with `far`, and the ends of time as None.

    The engine writes infinity and -infinity as the last number and its negative.
    """
    units, last = column.view(raw), 2 ** (raw.bit_width - 1) - 1
    low, high = max(_FIRST_DAY * per_day, 1 - last), min((_LAST_DAY + 1) * per_day - 1, last - 1)
    is_near = pc.and_(pc.greater_equal(units, low), pc.less_equal(units, high))
    texts: list[Any] = near(pc.if_else(is_near, column, pa.scalar(None, column.type))).to_pylist()
    for index in pc.indices_nonzero(pc.fill_null(pc.invert(is_near), False)).to_pylist():
        unit = units[index].as_py()
        texts[index] = None if abs(unit) == last else far(unit)
    return texts


def _far_date(days: int) -> str:
    """Return a day, counted from 1970, as the engine prints it: any year, those before 1 as `(BC)`."""
    cycles, rest = divmod(days - _FIRST_DAY, _DAYS_OF_400_YEARS)
    day = date.fromordinal(rest + 1)
    year = day.year + 400 * cycles
    month_and_day = f"{day.month:02d}-{day.day:02d}"
    return f"{year:04d}-{month_and_day}" if year > 0 else f"{1 - year:04d}-{month_and_day} (BC)"


def times(column: Array) -> list[Any]:
    """Return times of day as RFC 3339."""
    return [None if value is None else value.isoformat() for value in column.to_pylist()]


def intervals(column: Array) -> list[Any]:
    """Return intervals as ISO 8601."""
    return [None if value is None else _duration(*value) for value in column.to_pylist()]


def _duration(months: int, days: int, nanoseconds: int) -> str:
    """Return an interval as ISO 8601; its three parts stay apart, as days and months have no fixed length."""
    seconds = _number_of_seconds(nanoseconds)
    day_part = (f"{months}M" if months else "") + (f"{days}D" if days else "")
    return "P" + day_part + (f"T{seconds}S" if nanoseconds or not day_part else "")


def _number_of_seconds(nanoseconds: int) -> str:
    """Return nanoseconds as decimal seconds without needless zeros."""
    whole, rest = divmod(abs(nanoseconds), 10**9)
    sign = "-" if nanoseconds < 0 else ""
    return f"{sign}{whole}" + (f".{rest:09d}".rstrip("0") if rest else "")
