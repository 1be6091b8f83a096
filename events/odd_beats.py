"""One beat that a cheap check found odd, examined strictly (floor 1, pure).

This alone decides what becomes of such a beat: all of it may be unreadable, or a member that it may leave
out, which then is rejected alone while the beat still counts as contact. Its bytes alone decide.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import Any

from events.amounts import ExactFloat
from events.body import NAN, read_object
from events.errors import InvalidSubjectError, UnreadableError
from events.ids import NodeId
from events.reasons import (
    BAD_TYPE,
    INVALID_SUBJECT,
    MISSING,
    NOT_REPORTED,
    OVERSIZED,
    SUBJECT_MISMATCH,
    TIME_OUT_OF_RANGE,
)
from events.subjects import parse_beat

MAX_BEAT_BYTES = 4096
# About 25 times a usual beat; what a machine has, its registration says.
MAX_SEQ = 2**63 - 1
MAX_NAME_BYTES = 256
# Of a boot id or a resource: they are kept in memory for each node.
MAX_INVENTORY_BYTES = 64
# A digest has 16 characters; a longer text is none.

_NUMBERS = (int, float, ExactFloat, type(NAN))


@dataclass(frozen=True, slots=True)
class RejectedBeat:
    """What goes to quarantine of the record at position `row` of the batch.

    Nothing of it counts where `row` is not in `BeatColumns.rows`; else only `field` is unreadable.
    """

    row: int
    node_id: NodeId | None
    reason: str
    field: str
    detail: str


def is_beat(subject: bytes) -> bool:
    """Say whether a subject is spelled as a heartbeat's."""
    try:
        _node_of(subject)
    except UnreadableError:
        return False
    return True


def is_name(text: str) -> bool:
    """Say whether a text can be a boot id or the name of a resource."""
    return 0 < len(text) <= MAX_NAME_BYTES and (text.isascii() or len(text.encode()) <= MAX_NAME_BYTES)


def is_digest(text: str) -> bool:
    """Say whether a text can be the digest of an inventory."""
    return len(text) <= MAX_INVENTORY_BYTES and (text.isascii() or len(text.encode()) <= MAX_INVENTORY_BYTES)


def examine(
    row: int, subject: bytes, payload: bytes, *, rejected: list[RejectedBeat], warnings: Counter[str]
) -> dict[str, Any] | None:
    """Return the one beat as a plain one, without what cannot be read; None where all of it is rejected.

    Adds to `rejected` what goes to quarantine, and counts in `warnings` what was read with a loss.
    """
    node: NodeId | None = None
    try:
        node = _node_of(subject)
        if len(payload) > MAX_BEAT_BYTES:
            raise UnreadableError(OVERSIZED, detail=f"{len(payload)} bytes, the limit is {MAX_BEAT_BYTES}")
        doc, _ = read_object(payload)
        if "node_id" in doc and doc["node_id"] != node:
            raise UnreadableError(SUBJECT_MISMATCH, field="node_id", detail=_shown(doc["node_id"]))
        boot_id, seq = _boot_id(doc), _seq(doc)
    except UnreadableError as err:
        rejected.append(RejectedBeat(row, node, err.reason, err.field, err.detail))
        return None
    values = _Values(row, node, rejected, warnings)
    return {
        "boot_id": boot_id,
        "seq": seq,
        "sent_at": values.sent_at(doc.get("sent_at")),
        "inventory": values.inventory(doc.get("inventory")),
        "used": values.used(doc.get("used")),
    }


class _Values:
    """What can be read of the members that a beat may leave out; the rest is rejected alone."""

    def __init__(self, row: int, node: NodeId, rejected: list[RejectedBeat], warnings: Counter[str]) -> None:
        self._row, self._node, self._rejected, self._warnings = row, node, rejected, warnings

    def sent_at(self, value: object) -> str | None:
        if value is None or type(value) is str:
            return value
        self._warnings[TIME_OUT_OF_RANGE] += 1
        return None

    def inventory(self, value: object) -> str | None:
        if value is None or (type(value) is str and is_digest(value)):
            return value
        self._reject(BAD_TYPE, "inventory", _shown(value))
        return None

    def used(self, value: object) -> dict[str, float | None]:
        if value is None:
            return {}
        if type(value) is not dict:
            self._reject(BAD_TYPE, "used", _shown(value))
            return {}
        kept: dict[str, float | None] = {}
        for name, number in value.items():
            field = f"used.{name[:MAX_NAME_BYTES]}"
            if not is_name(name):
                self._reject(OVERSIZED if name else MISSING, field, "the name of a resource")
            elif number is None:
                kept[name] = None
            elif type(number) in _NUMBERS:
                kept[name] = self._finite(number)
            else:
                self._reject(BAD_TYPE, field, _shown(number))
        return kept

    def _finite(self, value: object) -> float | None:
        try:
            number = math.nan if value is NAN else float(value)  # type: ignore[arg-type]
        except OverflowError:
            number = math.inf
        if math.isfinite(number):
            return number
        self._warnings[NOT_REPORTED] += 1
        return None

    def _reject(self, reason: str, field: str, detail: str) -> None:
        self._rejected.append(RejectedBeat(self._row, self._node, reason, field, detail))


def _node_of(subject: bytes) -> NodeId:
    try:
        return parse_beat(subject.decode())
    except (InvalidSubjectError, UnicodeDecodeError) as err:
        raise UnreadableError(INVALID_SUBJECT, detail=str(err)[:200]) from err


def _boot_id(doc: dict[str, Any]) -> str:
    boot_id = doc.get("boot_id")
    if boot_id is None:
        raise UnreadableError(MISSING, field="boot_id")
    if type(boot_id) is not str or not boot_id:
        raise UnreadableError(BAD_TYPE, field="boot_id", detail=_shown(boot_id))
    if not is_name(boot_id):
        raise UnreadableError(OVERSIZED, field="boot_id", detail=f"more than {MAX_NAME_BYTES} bytes")
    return boot_id


def _seq(doc: dict[str, Any]) -> int:
    seq = doc.get("seq")
    if seq is None:
        raise UnreadableError(MISSING, field="seq")
    if type(seq) is not int or not 0 <= seq <= MAX_SEQ:
        raise UnreadableError(BAD_TYPE, field="seq", detail=_shown(seq))
    return seq


def _shown(value: object) -> str:
    """Return a short text of a value for a person."""
    return repr(value)[:200]
