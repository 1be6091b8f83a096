"""Node ids, zones and the subject token of each (floor 1, pure).

A node id is any text of 1 to 250 bytes of UTF-8 in NFC. Its token keeps `[A-Za-z0-9_-]` and percent-encodes
every other byte in upper case, so a token is one subject token, never a wildcard, and names exactly one id.
A zone's token begins with `~`, which no node token can, so that no filter about a node matches a zone's facts
(docs/adr/0009-zone-tokens.md).
"""

from __future__ import annotations

import re
import unicodedata
from typing import NewType
from urllib.parse import quote_from_bytes, unquote_to_bytes

from events.errors import InvalidNodeIdError, InvalidSubjectError

NodeId = NewType("NodeId", str)
Zone = NewType("Zone", str)
StreamSeq = NewType("StreamSeq", int)
"""The position of a record in its stream, from 1."""
NodeVersion = NewType("NodeVersion", int)
"""The stream sequence of the last record about a node: what a conditional append expects."""

MAX_NODE_ID_BYTES = 250
# A token is at most three times as long; with the rest of a subject it stays far below the broker's control
# line of 4 KiB. UUIDs and practically all DNS names fit.

ZONE_MARK = "~"
_TOKEN = re.compile(r"(?:[A-Za-z0-9_-]|%[0-9A-F]{2})+\Z")
_PLAIN = re.compile(r"[A-Za-z0-9_-]+\Z")
_KEPT_BY_QUOTE = ".~"  # what urllib leaves alone although a token may not hold it


def node_id(text: str) -> NodeId:
    """Return the text as a node id, in NFC; raise InvalidNodeIdError where it cannot be one."""
    text = unicodedata.normalize("NFC", text)
    try:
        size_bytes = len(text.encode())
    except UnicodeEncodeError as err:
        raise InvalidNodeIdError(text, why="it is not valid Unicode") from err
    if not 1 <= size_bytes <= MAX_NODE_ID_BYTES:
        why = f"it has {size_bytes} bytes of UTF-8, allowed are 1 to {MAX_NODE_ID_BYTES}"
        raise InvalidNodeIdError(text, why=why)
    return NodeId(text)


def zone(text: str) -> Zone:
    """Return the text as a zone name, in NFC; raise InvalidNodeIdError where it cannot be one."""
    return Zone(str(node_id(text)))


def token(node: NodeId) -> str:
    """Return the one subject token of a node id."""
    return _encode(node)


def zone_token(name: Zone) -> str:
    """Return the one subject token of a zone."""
    return ZONE_MARK + _encode(name)


def from_token(text: str) -> NodeId:
    """Return the node id behind a token; raise InvalidSubjectError for a text that `token` never makes."""
    return node_id(_decode(text))


def zone_from_token(text: str) -> Zone:
    """Return the zone behind a token; raise InvalidSubjectError for a text that `zone_token` never makes."""
    if not text.startswith(ZONE_MARK):
        raise InvalidSubjectError(text, why=f"a zone's token begins with {ZONE_MARK}")
    return zone(_decode(text[len(ZONE_MARK) :]))


def _encode(text: str) -> str:
    if _PLAIN.match(text):
        return text
    quoted = quote_from_bytes(text.encode(), safe="")
    for kept in _KEPT_BY_QUOTE:
        quoted = quoted.replace(kept, f"%{ord(kept):02X}")
    return quoted


def _decode(text: str) -> str:
    if not _TOKEN.match(text):
        raise InvalidSubjectError(text, why="a token holds letters, digits, _, - and %XX in upper case only")
    if "%" not in text:
        return text
    try:
        decoded = unquote_to_bytes(text).decode()
    except UnicodeDecodeError as err:
        raise InvalidSubjectError(text, why="its bytes are not UTF-8") from err
    if unicodedata.normalize("NFC", decoded) != decoded or _encode(decoded) != text:
        raise InvalidSubjectError(text, why="it is not the one spelling of its id")
    return decoded
