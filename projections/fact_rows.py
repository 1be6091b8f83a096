"""A record of the log as a row: the fact as it was sent, or a body that can't be read (floor 2, pure)."""

from __future__ import annotations

import json
from typing import Any

import orjson

from events.codec import Recorded
from events.errors import InvalidSubjectError, UnreadableError
from events.moments import from_us
from events.subjects import parse_fact
from projections.parts import made
from projections.rows import FactRow, QuarantineRow

_LAST_MEMBER = b'"datacontenttype":"application/json","data":{'
# How our own encoder ends an envelope. What follows is the data and a brace.
SHORT = 15
# A number of so many characters survives being read as a float.


def fact_row(fact: Recorded) -> FactRow:
    """Return the row of a readable fact; `data` is the JSON that the sender wrote."""
    columns = (
        fact.seq,
        fact.stored_at,
        fact.sent_at,
        fact.subject,
        fact.node_id,
        fact.type,
        fact.source,
        fact.event_id,
        _data(fact.raw) if fact.event_id else fact.raw.decode(),
    )
    return made(FactRow, columns)


def quarantine_row(
    stream: str, seq: int, stored_at_ns: int, subject: bytes, payload: bytes, *, why: UnreadableError
) -> QuarantineRow:
    """Return the row of a record that could not be read; its node is named where the subject names one."""
    text = subject.decode(errors="replace")
    try:
        node_id = parse_fact(text).node_id
    except InvalidSubjectError:
        node_id = None
    stored_at = from_us(stored_at_ns // 1000)
    return QuarantineRow(stream, seq, stored_at, text, node_id, why.reason, why.field, why.detail, payload)


def _data(raw: bytes) -> str:
    begin = raw.find(_LAST_MEMBER) + len(_LAST_MEMBER) - 1
    if begin >= len(_LAST_MEMBER) and raw.count(b"{", 0, begin) == 1 and raw.count(b"[", 0, begin) == 0:
        data = raw[begin:-1]
        try:
            orjson.loads(data)
            return data.decode()
        except orjson.JSONDecodeError:
            pass
    return _read_again(raw)


def _read_again(raw: bytes) -> str:
    tree: dict[str, Any] = _EXACT.decode(raw.decode())
    return orjson.dumps(tree.get("data") or {}).decode()


def _number(text: str) -> float | orjson.Fragment:
    return float(text) if len(text) <= SHORT else orjson.Fragment(text)


_EXACT = json.JSONDecoder(parse_int=orjson.Fragment, parse_float=_number, parse_constant=orjson.Fragment)
# Python refuses to read an integer of thousands of digits, and a registration's digest is made of all digits.
