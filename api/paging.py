"""Cursors of lists: where the next page begins, as one opaque text (floor 3, pure).

A cursor holds the position after the last row of a page and a check over that position and the question it
belongs to, so that garbage, an edited cursor, or one used with other filters is refused instead of
answering another list. It holds no secret: whoever may ask the list may ask any page of it. Cursors stay
good over restarts and rebuilds.
"""

from __future__ import annotations

import base64
import binascii
import hashlib

import orjson

from api.problems import INVALID_CURSOR, ProblemError

MAX_CURSOR_CHARS = 4096
# A position is at most a node id of 250 bytes, which may be six times as long in JSON, and a time: 2,100
# characters. Longer texts are not worth decoding.

_CHECK_BYTES = 8
Position = list[str]


def question(**filters: object) -> bytes:
    """Return what a cursor is bound to: the list's name and filters, without limit and cursor."""
    return orjson.dumps(filters, default=str, option=orjson.OPT_SORT_KEYS)


def encode(position: Position, *, of: bytes) -> str:
    """Return the cursor of the page that begins after `position` of the question `of`."""
    body = orjson.dumps(position)
    return base64.urlsafe_b64encode(_check(body, of) + body).decode().rstrip("=")


def decode(cursor: str, *, of: bytes) -> Position:
    """Return the position in a cursor; raise invalid_cursor for a text that `encode` did not make."""
    try:
        return _decode(cursor, of)
    except (ValueError, binascii.Error) as err:
        raise ProblemError(
            INVALID_CURSOR,
            "it was cut or changed, or comes from other filters: ask the list again without a cursor",
            members={"parameter": "cursor"},
        ) from err


def _decode(cursor: str, of: bytes) -> Position:
    if len(cursor) > MAX_CURSOR_CHARS:
        raise ValueError("too long")
    raw = base64.b64decode(cursor.encode("ascii") + b"=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
    check, body = raw[:_CHECK_BYTES], raw[_CHECK_BYTES:]
    if check != _check(body, of):
        raise ValueError("of another question")
    position = orjson.loads(body)
    if not isinstance(position, list) or not all(isinstance(part, str) for part in position):
        raise ValueError("not a position")
    if encode(position, of=of) != cursor:
        raise ValueError("not the one spelling of its position")
    return position


def _check(body: bytes, of: bytes) -> bytes:
    return hashlib.blake2b(
        body, digest_size=_CHECK_BYTES, key=hashlib.blake2b(of, digest_size=16).digest()
    ).digest()
