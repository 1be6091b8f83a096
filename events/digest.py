"""The digest of a registration (floor 1, pure): how a heartbeat says which inventory it belongs to.

The digest is the first 16 hex digits of SHA-256 over canonical JSON of the registration's data as its sender
wrote it, without the members `boot_id`, `seq` and `sent_at`. Canonical JSON here:

- UTF-8; object members sorted by the code points of their names; no white space; null members are kept;
- texts escaped as little as JSON allows: quote and backslash, the five controls that have a letter of their
  own, and `\\u00xx` for other controls;
- numbers in plain decimals without exponent, without a plus, without zeros that change nothing, so that 8,
  8.0 and 0.8e1 are the same; what a float cannot tell from zero is 0, what is beyond a float is null.

From a shell, where whole numbers are written as such:
`jq -jcS 'del(.boot_id,.seq,.sent_at)' registration.json | sha256sum | cut -c1-16`.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import orjson

from events.amounts import ExactFloat, plain
from events.body import NAN, read_object

LEFT_OUT = frozenset({"boot_id", "seq", "sent_at"})
DIGITS = 16
# 64 bits: two inventories of one node meet by chance once in billions of years.

_OPTIONS = orjson.OPT_SORT_KEYS
_MAYBE_NOT_CANONICAL = re.compile(rb"-0|\.\d*0(?!\d)|\d[eE]")
# Also matches inside texts, where it costs a slower way to the same bytes and nothing else.


def inventory_digest(registration: Mapping[str, Any]) -> str:
    """Return the digest of a registration's data, a mapping of JSON values (numbers may be Decimal)."""
    told = {name: value for name, value in registration.items() if name not in LEFT_OUT}
    try:
        text = orjson.dumps(told, option=_OPTIONS)
        is_canonical = not _MAYBE_NOT_CANONICAL.search(text)
    except orjson.JSONEncodeError:
        is_canonical = False
    if not is_canonical:
        text = orjson.dumps(_canonical(told), option=_OPTIONS)
    return hashlib.sha256(text).hexdigest()[:DIGITS]


def payload_digest(payload: bytes) -> str:
    """Return the digest of a stored registration, with or without an envelope; raise UnreadableError."""
    tree, _ = read_object(payload)
    data = tree.get("data") if "specversion" in tree else tree
    return inventory_digest(data if isinstance(data, dict) else {})


def _canonical(value: object) -> object:
    if isinstance(value, Mapping):
        return {name: _canonical(member) for name, member in value.items()}
    if isinstance(value, list | tuple):
        return [_canonical(member) for member in value]
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return value
    if value is NAN:
        return None
    if isinstance(value, int | float | Decimal):
        return _number(value)
    raise TypeError(f"{type(value).__name__} is not a JSON value")


def _number(value: float | Decimal) -> orjson.Fragment | None:
    size = float(value)
    if not math.isfinite(size):
        return None
    if size == 0:
        return orjson.Fragment(b"0")
    if isinstance(value, float):
        value = Decimal(value.text if isinstance(value, ExactFloat) else repr(value))
    return orjson.Fragment((plain(value) if isinstance(value, Decimal) else str(value)).encode())
