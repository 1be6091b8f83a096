"""Questions about a stream that only the broker can answer (floor 3).

Each is one request on `$JS.API`; a `NotAnsweredError` says that this attempt is lost, never that the stream
is.
"""

from __future__ import annotations

import calendar
import time
from dataclasses import dataclass

import orjson
from nats.aio.client import Client

from events.errors import FleetfoldError
from events.jetstream import NO_SUCH_MESSAGE, NoAnswerError, error_code, request

ANSWER_WITHIN_S = 2.0
# The slowest answer of a broker that works (a consumer made on a stream of 10^7 records) took 0.1 s; above
# that it is starting, electing or frozen, and asking again later is right.


class NotAnsweredError(FleetfoldError):
    """The broker refused a question or did not answer it in time; whoever asked asks again, or says so."""

    code = "not_answered"

    def __init__(self, question: str, *, why: str, is_timeout: bool = False) -> None:
        self.question, self.why, self.is_timeout = question, why, is_timeout
        super().__init__(f"{question.split('.')[1].lower()}: {why}")


@dataclass(frozen=True, slots=True)
class StreamState:
    """A stream as the broker holds it now: its creation time (the epoch), and where it begins and ends."""

    epoch: str
    first_seq: int
    last_seq: int


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """Where a record is, and since when."""

    seq: int
    stored_at_ns: int


async def ask(nc: Client, question: str, body: dict[str, object] | None = None) -> dict[str, object] | None:
    """Return the answer to `$JS.API.<question>`, or None for "no such record"; raise NotAnsweredError."""
    payload = orjson.dumps(body) if body else b""
    try:
        answer = await request(nc, f"$JS.API.{question}", payload, timeout_s=ANSWER_WITHIN_S)
    except NoAnswerError as err:
        raise NotAnsweredError(question, why=err.why, is_timeout=err.may_have_arrived) from err
    if "error" not in answer:
        return answer
    if error_code(answer) == NO_SUCH_MESSAGE:
        return None
    raise NotAnsweredError(question, why=str(answer["error"].get("description", "refused without a reason")))


async def stream_state(nc: Client, stream: str) -> StreamState:
    """Return what the broker says of a stream; raise NotAnsweredError, also where there is no such stream."""
    match await ask(nc, f"STREAM.INFO.{stream}"):
        case {"created": str(epoch), "state": {"first_seq": int(first), "last_seq": int(last)}}:
            return StreamState(epoch, first, last)
        case answer:
            raise NotAnsweredError(f"STREAM.INFO.{stream}", why=f"unknown answer: {str(answer)[:200]}")


async def record_at(nc: Client, stream: str, seq: int) -> StoredRecord | None:
    """Return the record at one sequence, or None where the broker has none."""
    return await _record(nc, stream, {"seq": seq})


async def first_record_from(nc: Client, stream: str, seq: int) -> StoredRecord | None:
    """Return the first record at or after a sequence, or None where the broker has none."""
    return await _record(nc, stream, {"seq": seq, "next_by_subj": ">"})


async def _record(nc: Client, stream: str, which: dict[str, object]) -> StoredRecord | None:
    match await ask(nc, f"STREAM.MSG.GET.{stream}", which):
        case None:
            return None
        case {"message": {"seq": int(seq), "time": str(stored_at)}}:
            return StoredRecord(seq, nanoseconds(stored_at))
        case answer:
            raise NotAnsweredError(f"STREAM.MSG.GET.{stream}", why=f"unknown answer: {str(answer)[:200]}")


def nanoseconds(rfc3339: str) -> int:
    """Return a time of the broker's (UTC, up to nine digits of a second) as nanoseconds since 1970."""
    whole, _, fraction = rfc3339.rstrip("Z").partition(".")
    seconds = calendar.timegm(time.strptime(whole, "%Y-%m-%dT%H:%M:%S"))
    return seconds * 1_000_000_000 + int((fraction + "0" * 9)[:9])
