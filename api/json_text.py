"""JSON as every answer writes it: strict, UTF-8, numbers exact (floor 3).

NaN and infinities become null. Times are RFC 3339 in UTC with `Z`. A decimal is written as a number with
all of its digits (`3.25`, `81604378624`, `0.000000001`), integers without a point, never in a float's
spelling; a reader that keeps numbers as binary floats sees the nearest one. Text that is no Unicode (a lone
surrogate) becomes `?`.
"""

from __future__ import annotations

from decimal import Decimal
from typing import cast

import orjson

_OPTIONS = orjson.OPT_UTC_Z
# orjson writes integers of 64 bits; beyond, the digits are handed over
_EXACT_IN_A_FLOAT = 2**53
_WRITABLE = range(-(2**63), 2**64)


def dumps(value: object) -> bytes:
    """Return a value as JSON text; raise TypeError for a type that has no JSON."""
    try:
        return orjson.dumps(value, default=_other, option=_OPTIONS)
    except orjson.JSONEncodeError:
        return orjson.dumps(_writable(value), default=_other, option=_OPTIONS)


def number(value: Decimal | float | int | None) -> object:
    """Return an amount as `dumps` writes it exactly; None (unknown) and what is not finite become null."""
    if value is None:
        return None
    if isinstance(value, Decimal):
        text = str(value)
        return orjson.Fragment(text if text.isdigit() else _plain(value, text))
    if isinstance(value, float):
        return int(value) if value.is_integer() and abs(value) < _EXACT_IN_A_FLOAT else value
    return value if value in _WRITABLE else orjson.Fragment(str(value))


def _plain(value: Decimal, text: str) -> str:
    """Return a decimal without exponent and idle zeros; `text` is how Python writes it."""
    if not value.is_finite():
        return "null"
    if "E" in text:
        text = format(value, "f")
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def _other(value: object) -> object:
    match value:
        case Decimal():
            return number(value)
        case set() | frozenset():
            return sorted(value)
        case _:
            raise TypeError(f"{type(value).__name__} has no JSON")


def _writable(value: object) -> object:
    """Return a value in which the texts and integers that orjson refuses are writable."""
    match value:
        case str():
            return value.encode("utf-8", "replace").decode()
        case bool() | float() | None:
            return value
        case int():
            return number(value)
        case dict():
            return {_writable(str(key)): _writable(member) for key, member in value.items()}
        case list() | tuple() | set() | frozenset():
            return [_writable(member) for member in cast("list[object]", value)]
        case _:
            return value
