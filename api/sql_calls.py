"""A call in a parsed statement: its name, its arguments, and what literals among them are (floor 3, pure).

The trees are those that `api.sql_tree` walks.
"""

from __future__ import annotations

import re
from typing import Any

from api.sql_errors import SqlRefusedError

_DIGITS = re.compile(r"-?[0-9]{1,18}")
_WHOLE_TYPES = frozenset({"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UBIGINT"})
_ASCII_LOWER = {upper: upper + 32 for upper in range(ord("A"), ord("Z") + 1)}


def lowered(name: str) -> str:
    """Return a name as the engine compares it: only the letters of ASCII have a lower case."""
    return name.translate(_ASCII_LOWER)


def name_of(function: dict[str, Any]) -> str:
    """Return the name of the function that is called; raise SqlRefusedError where it is said in two ways."""
    path = function.get("qualified_name", {}).get("path", ())
    name: str = lowered(function["function_name"])
    if path and lowered(path[-1]) != name:
        raise SqlRefusedError(f"function {name[:80]}", "its name cannot be read")
    return name


def arguments_of(function: dict[str, Any]) -> list[dict[str, Any]]:
    """Return what a function is called with, in order."""
    if "arguments" in function:
        return [argument["expression"] for argument in function["arguments"]]
    children: list[dict[str, Any]] = function["children"]
    return children


def series_length(name: str, arguments: list[dict[str, Any]]) -> int | None:
    """Return how many elements a series has, None where its bounds are no whole numbers or its step is 0."""
    bounds = [whole for argument in arguments if (whole := whole_number_of(argument)) is not None]
    if len(bounds) != len(arguments) or not 1 <= len(bounds) <= 3:
        return None
    start, stop, step = (0, bounds[0], 1) if len(bounds) == 1 else (*bounds, 1)[:3]
    if step == 0:
        return None
    before_stop = -((start - stop) // step)  # rounded up: `range` leaves its end out
    return max(0, before_stop if name == "range" else (stop - start) // step + 1)


def whole_number_of(node: dict[str, Any]) -> int | None:
    """Return the whole number that a literal is; None for anything else."""
    if node.get("class") == "FUNCTION" and name_of(node) == "-" and len(arguments_of(node)) == 1:
        (inner,) = arguments_of(node)
        whole = whole_number_of(inner) if inner.get("class") == "CONSTANT" else None
        return None if whole is None else -whole
    if node.get("class") != "CONSTANT":
        return None
    if literal := node.get("literal"):
        digits = str(literal["text"])
        return int(digits) if literal["kind"] == "INTEGER" and _DIGITS.fullmatch(digits) else None
    value = node["value"].get("value")
    # beyond 64 bits the value is two halves, which no bound needs
    return value if isinstance(value, int) and node["value"]["type"]["id"] in _WHOLE_TYPES else None


def text_of(node: dict[str, Any]) -> str | None:
    """Return the text that a literal is; None for anything else."""
    if node.get("class") != "CONSTANT":
        return None
    if literal := node.get("literal"):
        return str(literal["text"]) if literal["kind"] == "STRING" else None
    value = node["value"].get("value")
    return value if isinstance(value, str) and node["value"]["type"]["id"] == "VARCHAR" else None
