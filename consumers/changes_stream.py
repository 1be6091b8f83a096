"""The stream CHANGES as its announcer sees it: where it ends, and the one way to make it longer (floor 3).

Every append carries the last sequence of the stream that its announcer read. So of two announcers, of an
append that was given up and of its repetition, one is stored and the other one is refused; whoever is refused
reads again where the stream ends. No window of message ids is leaned on.
"""

from __future__ import annotations

import base64
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from consumers.stream_api import NotAnsweredError, ask, nanoseconds
from events.announcements import Message, Told, read_told
from events.errors import FleetfoldError
from events.jetstream import NoAnswerError, error_code, request, send
from events.moments import from_us
from events.streams import CHANGES_NAME

if TYPE_CHECKING:
    from nats.aio.client import Client

log = logging.getLogger(__name__)

MOST_MESSAGES = 1_000
MOST_BYTES = 4 << 20
# What the broker takes in one atomic batch, and what it should have to hold of one in memory.
STORED_WITHIN_S = 5.0
# Of a thousand messages; the answer to a single one takes a millisecond.
WRONG_LAST_SEQUENCE = frozenset({10071, 10164})


class AppendRefusedError(FleetfoldError):
    """Nothing, or nobody knows what, was stored: whoever wants to append reads first where the stream ends.

    `is_lost_race` says that somebody else's, or our own earlier append stands there.
    """

    code = "append_refused"

    def __init__(self, why: str, *, is_lost_race: bool = False) -> None:
        self.why, self.is_lost_race = why, is_lost_race
        super().__init__(f"announcements were not stored ({why}): the end of {CHANGES_NAME} is read again")


@dataclass(frozen=True, slots=True)
class ChangesEnd:
    """Where CHANGES ends: its epoch, its last sequence (also of records that are gone), its first record.

    `now` is the broker's time, `max_age` how long it keeps records (None: for ever).
    """

    epoch: str
    first_seq: int
    last_seq: int
    records: int
    now: datetime
    max_age: timedelta | None


@dataclass(frozen=True, slots=True)
class Found:
    """A message of CHANGES that an announcer wrote, and its sequence there."""

    record: int
    told: Told


async def changes_end(nc: Client) -> ChangesEnd:
    """Return where the stream ends; raise NotAnsweredError, also where there is no such stream."""
    question = f"STREAM.INFO.{CHANGES_NAME}"
    match await ask(nc, question):
        case {
            "created": str(epoch),
            "ts": str(now),
            "config": {**config},
            "state": {"messages": int(records), "first_seq": int(first), "last_seq": int(last)},
        }:
            age_ns = int(str(config.get("max_age", 0)))
            return ChangesEnd(
                epoch=epoch,
                first_seq=first,
                last_seq=last,
                records=records,
                now=from_us(nanoseconds(now) // 1000),
                max_age=timedelta(microseconds=age_ns // 1000) if age_ns else None,
            )
        case answer:
            raise NotAnsweredError(question, why=f"unknown answer: {str(answer)[:200]}")


async def last_told(nc: Client, end: ChangesEnd, *, before: int) -> Found | None:
    """Return the last message before a sequence that an announcer wrote; None where there is none.

    What somebody else put there is passed over and logged.
    """
    seq = before - 1
    while end.records and seq >= end.first_seq:
        record = await _record(nc, {"last_by_subj": ">"} if seq >= end.last_seq else {"seq": seq})
        if record is not None:
            seq = int(record["seq"])
            told = read_told(base64.b64decode(record.get("data", "")))
            if told is not None:
                return Found(seq, told)
            log.warning(
                "somebody else wrote to the changes", extra={"seq": seq, "subject": record["subject"]}
            )
        seq -= 1
    return None


async def append_changes(nc: Client, messages: Sequence[Message], *, last_seq: int) -> int:
    """Append all messages or none, where the stream still ends at a sequence; return where it ends then.

    1 to `MOST_MESSAGES` of them. Raises AppendRefusedError.
    """
    expected = {"Nats-Expected-Stream": CHANGES_NAME, "Nats-Expected-Last-Sequence": str(last_seq)}
    last, headers = messages[-1], expected
    try:
        if len(messages) > 1:
            headers = {"Nats-Batch-Id": uuid4().hex}
            for at, message in enumerate(messages[:-1], 1):
                first = expected if at == 1 else {}
                await send(
                    nc,
                    message.subject,
                    message.payload,
                    headers={**headers, **first, "Nats-Batch-Sequence": str(at)},
                )
            headers |= {"Nats-Batch-Sequence": str(len(messages)), "Nats-Batch-Commit": "1"}
        answer = await request(nc, last.subject, last.payload, headers=headers, timeout_s=STORED_WITHIN_S)
    except NoAnswerError as err:
        raise AppendRefusedError(err.why) from err
    code = error_code(answer)
    if code:
        why = f"{answer['error'].get('description', 'no reason given')} (code {code})"
        raise AppendRefusedError(why, is_lost_race=code in WRONG_LAST_SEQUENCE)
    return int(answer["seq"])


def batches_of(messages: Sequence[Message]) -> list[list[Message]]:
    """Return the messages in parts that can be appended at once; those of one fact stay together."""
    parts: list[list[Message]] = []
    size_bytes = 0
    for _, of_one_fact in groupby(messages, key=lambda message: message.cursor[:2]):
        told = list(of_one_fact)
        more_bytes = sum(len(message.payload) for message in told)
        is_full = not parts or len(parts[-1]) + len(told) > MOST_MESSAGES
        if is_full or size_bytes + more_bytes > MOST_BYTES:
            parts.append([])
            size_bytes = 0
        parts[-1] += told
        size_bytes += more_bytes
    return parts


async def _record(nc: Client, which: dict[str, object]) -> dict[str, Any] | None:
    answer = await ask(nc, f"STREAM.MSG.GET.{CHANGES_NAME}", which)
    if answer is None:
        return None
    record = answer["message"]
    assert isinstance(record, dict), "the broker answers with a message"
    return record
