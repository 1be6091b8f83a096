"""What an analyst sends: a statement as text, or JSON with parameters and limits (floor 3, pure)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from api.sql_errors import SqlBodyError
from api.sql_statement import Statement

if TYPE_CHECKING:
    from api.sql_statement import SqlLimits

MAX_BODY_BYTES = 256 * 1024
# A statement of 20,000 characters has at most 80 kB of UTF-8, 240 kB where JSON escapes each; parameters
# share the rest.

_MEMBERS = {"sql", "params", "max_rows", "timeout_s"}
_SHAPE = (
    '{"sql": "SELECT …", "params": [], "max_rows": 1000, "timeout_s": 10}, or the statement as plain text'
)


def statement_of(body: bytes, *, content_type: str, limits: SqlLimits) -> Statement:
    """Return what a body asks for; raise SqlBodyError where it cannot be read."""
    if content_type.partition(";")[0].strip().lower() != "application/json":
        return Statement(_text(body), max_rows=limits.default_rows, timeout_s=limits.timeout_s)
    try:
        asked = orjson.loads(body)
    except orjson.JSONDecodeError as err:
        raise SqlBodyError(f"the body is not JSON ({err}): send {_SHAPE}") from err
    if not isinstance(asked, dict) or not isinstance(asked.get("sql"), str):
        raise SqlBodyError(f"sql is missing: send {_SHAPE}", members={"parameter": "sql"})
    unknown = sorted(set(asked) - _MEMBERS)
    if unknown:
        raise SqlBodyError(
            f"{unknown[0][:80]} is not a member: send {_SHAPE}",
            members={"parameter": unknown[0][:80], "known": sorted(_MEMBERS)},
        )
    return Statement(
        asked["sql"],
        parameters=_parameters(asked.get("params")),
        max_rows=_whole_number(asked, "max_rows", default=limits.default_rows, most=limits.max_rows),
        timeout_s=_number(asked, "timeout_s", default=limits.timeout_s, most=limits.timeout_s),
    )


def _text(body: bytes) -> str:
    try:
        return body.decode()
    except UnicodeDecodeError as err:
        raise SqlBodyError("the statement is not UTF-8") from err


def _parameters(given: object) -> dict[str, Any] | list[Any] | None:
    match given:
        case None:
            return None
        case dict() | list():
            values = given.values() if isinstance(given, dict) else given
            if all(isinstance(value, (str, int, float, bool, list)) or value is None for value in values):
                return given
    raise SqlBodyError(
        "params is a list (for ? or $1) or an object (for $name) of text, numbers, booleans, null and lists",
        members={"parameter": "params"},
    )


def _whole_number(asked: dict[str, Any], name: str, *, default: int, most: int) -> int:
    value = asked.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 < value <= most:
        raise _out_of_bounds(name, "a whole number", most)
    return value


def _number(asked: dict[str, Any], name: str, *, default: float, most: float) -> float:
    value = asked.get(name, default)
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 < value <= most:
        raise _out_of_bounds(name, "a number", most)
    return float(value)


def _out_of_bounds(name: str, kind: str, most: float) -> SqlBodyError:
    return SqlBodyError(f"{name} is {kind} above 0 and at most {most:g}", members={"parameter": name})
