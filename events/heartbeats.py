"""Heartbeats as columns (floor 1, pure): a whole batch is decoded at once, without an object per beat.

A beat is compact JSON on `fleet.v1.beat.<node>`: `boot_id`, `seq`, and where the agent says so `sent_at`,
`inventory` and `used`. Each payload is parsed on its own, so that no payload can complete another; all that
follows is done column by column. Whatever looks odd in a cheap check is examined alone by `odd_beats`, and
only that decides what becomes of it: so the cheap checks may err in one direction only, and nothing
depends on which beats share a batch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson

from events.log import Batch, Int64s
from events.moments import EPOCH, to_us
from events.odd_beats import (
    MAX_BEAT_BYTES,
    MAX_INVENTORY_BYTES,
    MAX_NAME_BYTES,
    MAX_SEQ,
    RejectedBeat,
    examine,
    is_beat,
    is_name,
)
from events.reasons import TIME_OUT_OF_RANGE

NOT_SAID = np.iinfo(np.int64).min
"""In `BeatColumns.sent_us`: the beat does not say when it was sent, or says it unreadably."""

_AT_ONCE = 256
# Messages parsed before their objects are dropped: two objects each, fewer than the 700 that make Python's
# collector walk, which costs more than the parsing.
_Types = frozenset[type[Any]]
_NONE: type[Any] = type(None)
_TEXT: _Types = frozenset({str})
_INTEGER: _Types = frozenset({int})
_TEXT_OR_NONE: _Types = frozenset({str, _NONE})
_NUMBER_OR_NONE: _Types = frozenset({int, float, _NONE})
_OBJECT_OR_NONE: _Types = frozenset({dict, _NONE})
_QUOTE, _COLON, _SPACE = 34, 58, 32


@dataclass(frozen=True, slots=True)
class BeatColumns:
    """The readable beats of a batch in stream order; may be empty. `rows` are their positions in the batch.

    The columns from `rows` to `inventories` have one length. `sent_us` is microseconds since 1970 by the
    node's own clock, or NOT_SAID. The samples of all beats follow one another: `sample_beats` are positions
    in `rows`, and a value of NaN is a number that was reported as unknown. `warnings` counts what was read
    with a loss, by reason.
    """

    rows: Int64s
    boot_ids: list[str]
    seqs: Int64s
    sent_us: Int64s
    inventories: list[str | None]
    sample_beats: Int64s
    sample_names: list[str]
    sample_values: npt.NDArray[np.float64]
    rejected: tuple[RejectedBeat, ...]
    warnings: Mapping[str, int]


def decode_beats(batch: Batch, *, known: Container[bytes] = frozenset()) -> BeatColumns:
    """Return the columns of a batch of BEATS, and what of it goes to quarantine. Never raises.

    `known` holds subjects that are spelled rightly; others are parsed. The same record gives the same beat
    in any batch.
    """
    made = _Made()
    for begin in range(0, len(batch), _AT_ONCE):
        end = begin + _AT_ONCE
        _decode(made, begin, batch.subjects[begin:end], batch.payloads[begin:end], known)
    counts = np.array(made.sample_counts, dtype=np.int64)
    return BeatColumns(
        rows=np.array(made.rows, dtype=np.int64),
        boot_ids=made.boot_ids,
        seqs=np.array(made.seqs, dtype=np.int64),
        sent_us=np.array(made.sent_us, dtype=np.int64),
        inventories=made.inventories,
        sample_beats=np.repeat(np.arange(len(counts), dtype=np.int64), counts),
        sample_names=made.sample_names,
        sample_values=np.array(made.sample_values, dtype=np.float64),
        rejected=tuple(made.rejected),
        warnings=made.warnings,
    )


class _Made:
    """The columns while they grow."""

    def __init__(self) -> None:
        self.rows: list[int] = []
        self.boot_ids: list[str] = []
        self.seqs: list[int] = []
        self.sent_us: list[int] = []
        self.inventories: list[str | None] = []
        self.sample_counts: list[int] = []
        self.sample_names: list[str] = []
        self.sample_values: list[float | None] = []
        self.rejected: list[RejectedBeat] = []
        self.warnings: Counter[str] = Counter()


def _decode(
    made: _Made, begin: int, subjects: Sequence[bytes], payloads: Sequence[bytes], known: Container[bytes]
) -> None:
    docs, odd = _parse(payloads)
    rows = list(range(begin, begin + len(docs)))
    _find_odd(docs, subjects, payloads, known, odd)
    if odd:
        examined = {
            row: examine(
                begin + row, subjects[row], payloads[row], rejected=made.rejected, warnings=made.warnings
            )
            for row in sorted(odd)
        }
        kept = [row for row in range(len(docs)) if row not in odd or examined[row] is not None]
        docs = [examined.get(row) or docs[row] for row in kept]
        rows = [begin + row for row in kept]
    useds = [doc.get("used") or {} for doc in docs]
    made.rows += rows
    made.boot_ids += [doc["boot_id"] for doc in docs]
    made.seqs += [doc["seq"] for doc in docs]
    made.sent_us += _sent_us([doc.get("sent_at") for doc in docs], made.warnings)
    made.inventories += [doc.get("inventory") for doc in docs]
    made.sample_counts += map(len, useds)
    made.sample_names += chain.from_iterable(useds)
    made.sample_values += chain.from_iterable(map(dict.values, useds))


def _parse(payloads: Sequence[bytes]) -> tuple[list[Any], set[int]]:
    loads = orjson.loads
    try:
        return list(map(loads, payloads)), set()
    except orjson.JSONDecodeError:
        pass
    docs: list[Any] = []
    odd: set[int] = set()
    for row, payload in enumerate(payloads):
        try:
            docs.append(loads(payload))
        except orjson.JSONDecodeError:
            docs.append({})
            odd.add(row)
    return docs, odd


def _find_odd(
    docs: list[Any],
    subjects: Sequence[bytes],
    payloads: Sequence[bytes],
    known: Container[bytes],
    odd: set[int],
) -> None:
    """Add to `odd` the rows that are not plainly a beat; puts an empty object in place of what is none."""
    if set(map(type, docs)) != {dict}:
        for row, doc in enumerate(docs):
            if type(doc) is not dict:
                docs[row] = {}
                odd.add(row)
    odd.update(row for row, subject in enumerate(subjects) if subject not in known and not is_beat(subject))
    odd.update(row for row, doc in enumerate(docs) if "node_id" in doc)
    _longer(payloads, MAX_BEAT_BYTES, odd)
    boots = _typed(docs, "boot_id", _TEXT, "-", odd)
    _longer(boots, MAX_NAME_BYTES // 4, odd)  # a character has at most 4 bytes
    if "" in boots:
        odd.update(row for row, boot_id in enumerate(boots) if not boot_id)
    seqs = _typed(docs, "seq", _INTEGER, 0, odd)
    if min(seqs) < 0 or max(seqs) > MAX_SEQ:
        odd.update(row for row, seq in enumerate(seqs) if not 0 <= seq <= MAX_SEQ)
    _typed(docs, "sent_at", _TEXT_OR_NONE, None, odd)
    inventories = _typed(docs, "inventory", _TEXT_OR_NONE, None, odd)
    _longer([text or "" for text in inventories], MAX_INVENTORY_BYTES // 4, odd)
    useds = [used or {} for used in _typed(docs, "used", _OBJECT_OR_NONE, None, odd)]
    if not _are_numbers(chain.from_iterable(map(dict.values, useds))):
        odd.update(row for row, used in enumerate(useds) if not _are_numbers(used.values()))
    if not all(map(is_name, set(chain.from_iterable(useds)))):
        odd.update(row for row, used in enumerate(useds) if not all(map(is_name, used)))
    odd.update(_miscounted(payloads, docs, useds))


def _typed(docs: list[Any], member: str, types: _Types, plain: object, odd: set[int]) -> list[Any]:
    """Return one member of all objects; where it has another type, `plain`, and the row is odd."""
    column = [doc.get(member) for doc in docs]
    if not set(map(type, column)) <= types:
        for row, value in enumerate(column):
            if type(value) not in types:
                column[row] = plain
                odd.add(row)
    return column


def _longer(column: Sequence[str | bytes], limit: int, odd: set[int]) -> None:
    if max(map(len, column)) > limit:
        odd.update(row for row, value in enumerate(column) if len(value) > limit)


def _are_numbers(values: Iterable[object]) -> bool:
    return set(map(type, values)) <= _NUMBER_OR_NONE


def _miscounted(
    payloads: Sequence[bytes], docs: list[dict[str, Any]], useds: list[dict[str, Any]]
) -> list[int]:
    """Return the rows that spell another number of keys than their objects have: a key may be there twice.

    The colon of each key follows a quote or white space, so no key is missed; what is counted too much (a
    nested object that is no `used`, such a colon inside a text) only costs an examination.
    """
    text = np.frombuffer(b"\n".join(payloads), dtype=np.uint8)
    colons = np.flatnonzero(text == _COLON)
    before = text[colons - 1]
    keys = colons[(before == _QUOTE) | (before <= _SPACE)]
    ends = np.cumsum(_lengths(payloads) + 1)
    spelled = np.diff(np.searchsorted(keys, ends), prepend=0)
    parsed = _lengths(docs) + _lengths(useds)
    odd: list[int] = np.flatnonzero(spelled != parsed).tolist()
    return odd


def _lengths(column: Sequence[Sized]) -> Int64s:
    return np.fromiter(map(len, column), np.int64, len(column))


def _sent_us(texts: Sequence[str | None], warnings: Counter[str]) -> list[int]:
    parse, epoch = datetime.fromisoformat, EPOCH
    try:
        since = [parse(text) - epoch for text in texts]  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):  # TypeError: none at all, or one without an offset
        return [_sent_us_of(text, warnings) for text in texts]
    return [(delta.days * 86_400 + delta.seconds) * 1_000_000 + delta.microseconds for delta in since]


def _sent_us_of(text: str | None, warnings: Counter[str]) -> int:
    if text is None:
        return NOT_SAID
    try:
        # Only what RFC 3339 allows besides: nothing that is read above may be read otherwise here.
        sent_at = datetime.fromisoformat(text.replace("t", "T").replace("z", "Z"))
        sent_at = sent_at if sent_at.tzinfo is not None else sent_at.replace(tzinfo=UTC)
        return to_us(sent_at)
    except (ValueError, OverflowError):
        warnings[TIME_OUT_OF_RANGE] += 1
        return NOT_SAID
