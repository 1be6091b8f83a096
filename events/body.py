"""Bytes of JSON to one object (floor 1, pure): the same bytes give the same object or the same reason.

The quick way is orjson. It would hide a duplicate key and round a long number, so a body is trusted only if
it comes back from the object byte for byte but for space, or if neither can be in it; every other body takes
the standard parser.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

import orjson

from events.amounts import ExactFloat
from events.errors import UnreadableError
from events.reasons import DUPLICATE_KEY, NOT_AN_OBJECT, NOT_JSON, NOT_UTF8, OVERSIZED, TOO_DEEP
from events.streams import MAX_RECORD_BYTES

MAX_DEPTH = 64
# Far above any inventory; far below where a parser, an encoder or DuckDB's JSON functions run out of stack.

MAX_DIGITS = 300
# A longer integer than a float can hold is out of every range that we know.


class NotANumber:
    """What `NaN` and `Infinity` in a body become until `events.treatments` makes them None with a warning."""

    def __repr__(self) -> str:
        """Return the same text in every process: quarantine shows it, and a replay must tell the same."""
        return "not a number"


NAN: Final = NotANumber()

_KEY = re.compile(rb'"[ \t\r\n]*:')
_LONG_NUMBER = re.compile(rb"[0-9][0-9.]{15}")
# A float keeps 15 digits for sure, and orjson's integers end at 20.
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"?', re.DOTALL)
_SPACE = b" \t\r\n"
_NO_BRACKET = bytes(set(range(256)) - set(b"[]{}"))


def read_object(payload: bytes) -> tuple[dict[str, Any], bool]:
    """Return the object that a body holds, and whether it is plain.

    A plain object holds JSON's own types only. One that is not may also hold NAN and ExactFloat. Raises
    UnreadableError.
    """
    if len(payload) > MAX_RECORD_BYTES:
        raise UnreadableError(OVERSIZED, detail=f"{len(payload)} bytes, the limit is {MAX_RECORD_BYTES}")
    check_depth(payload)
    try:
        tree = orjson.loads(payload)
        written = orjson.dumps(tree)
        is_plain = written == payload or _is_but_for_space(written, payload) or _hides_nothing(tree, payload)
    except orjson.JSONDecodeError:
        is_plain = False
    if not is_plain:
        tree = _read_exactly(payload)
    if type(tree) is not dict:
        raise UnreadableError(NOT_AN_OBJECT, detail="the body is JSON, but not an object")
    return tree, is_plain


def check_depth(payload: bytes) -> None:
    """Raise UnreadableError where a body nests deeper than MAX_DEPTH."""
    if payload.count(b"[") + payload.count(b"{") <= MAX_DEPTH:
        return
    depth = 0
    for bracket in _STRING.sub(b"", payload).translate(None, _NO_BRACKET):
        depth += 1 if bracket in b"[{" else -1
        if depth > MAX_DEPTH:
            raise UnreadableError(TOO_DEEP, detail=f"more than {MAX_DEPTH} levels")


def _is_but_for_space(written: bytes, payload: bytes) -> bool:
    # Space inside texts goes too, which does not matter: no key and no digit is space.
    return written.translate(None, _SPACE) == payload.translate(None, _SPACE)


def _hides_nothing(tree: object, payload: bytes) -> bool:
    return _LONG_NUMBER.search(payload) is None and len(_KEY.findall(payload)) == _count_keys(tree)


def _count_keys(tree: object) -> int:
    if type(tree) is dict:
        return len(tree) + sum(_count_keys(value) for value in tree.values())
    if type(tree) is list:
        return sum(_count_keys(value) for value in tree)
    return 0


def _read_exactly(payload: bytes) -> object:
    try:
        tree: object = _EXACT.decode(payload.decode())
        json.dumps(tree, ensure_ascii=False, default=lambda _: None).encode()
    except UnicodeDecodeError as err:
        raise UnreadableError(NOT_UTF8, detail=f"byte {err.start} is not UTF-8") from err
    except UnicodeEncodeError as err:
        raise UnreadableError(NOT_UTF8, detail="half of a surrogate pair") from err
    except json.JSONDecodeError as err:
        raise UnreadableError(NOT_JSON, detail=f"{err.msg} at character {err.pos}") from err
    return tree


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise UnreadableError(DUPLICATE_KEY, field=twice[:200], detail="the key stands twice in one object")
    return made


def _integer(text: str) -> int | ExactFloat:
    return int(text) if len(text) <= MAX_DIGITS else ExactFloat(text)


_EXACT = json.JSONDecoder(
    object_pairs_hook=_unique, parse_float=ExactFloat, parse_int=_integer, parse_constant=lambda _: NAN
)
