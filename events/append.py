"""Append facts to the log, each under the expectation that its writer held (floor 1, edge).

The broker checks an expectation before it looks for a double, so a retry of an append that had succeeded is
told "wrong last sequence". Every such answer is therefore followed by a look for our own event id.
"""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import orjson

from events.codec import encode_fact
from events.envelope import FactEvent
from events.errors import BrokerUnavailableError, ConflictError, OversizedError, RefusedError
from events.ids import StreamSeq
from events.jetstream import ATTEMPT_S, PAUSE_S, NoAnswerError, ask, connected, error_code, request, send
from events.streams import FLEET_NAME, MAX_RECORD_BYTES

if TYPE_CHECKING:
    from nats.aio.client import Client

TIMEOUT_S = 5.0
# Room for two attempts and a short election of a stream leader; below what a caller of the API waits.

MAX_BATCH = 1000
# What the broker takes in one atomic batch.

WALK_RECORDS = 64
# Our own record is the first after the expectation, unless it was once sent under another expectation.

WRONG_LAST_SEQUENCE = 10071
TOO_LARGE = 10054
DOUBLE_IN_BATCH = 10201
BATCH_INCOMPLETE = 10176
MESSAGE_ID = "Nats-Msg-Id"

APPEND_REFUSED = "append_refused"
"""The `reason` of a RefusedError where the broker stores nothing, such as on a full disk."""

APPENDED_BEFORE = "appended_before"
"""The `reason` of a RefusedError where the log already holds an event of the batch, with others about it."""


async def append(
    nc: Client, event: FactEvent, *, expect: int | None, timeout_s: float = TIMEOUT_S
) -> StreamSeq:
    """Return the stream sequence of the event in FLEET, which then holds it exactly once.

    `expect` is the sequence of the last record about the same node or zone: 0 for none, None for whatever it
    is. Waits out a reconnect and a lost answer within `timeout_s`. Raises ConflictError, OversizedError or
    RefusedError where nothing was stored, BrokerUnavailableError where nobody knows: append the same event
    again.
    """
    message = _Message(event, expect)
    attempts = _Attempts(nc, f"appending {message.subject}", timeout_s)
    while True:
        answer = await attempts.request(message)
        if answer is None:
            continue
        if error_code(answer) == WRONG_LAST_SEQUENCE:
            found = await _find(nc, event, after=expect or 0)
            if found is None:
                raise await _conflict(nc, [event], {event.about: expect or 0})
            return found
        _raise_refusal(answer, message)
        return StreamSeq(int(answer["seq"]))


async def append_all(
    nc: Client, events: Sequence[FactEvent], *, expect: Mapping[str, int], timeout_s: float = TIMEOUT_S
) -> list[StreamSeq]:
    """Return the stream sequences of 1 to 1,000 events, stored in this order, all of them or none.

    `expect` says for each node or zone the sequence of its last record, 0 for none; one that it does not name
    is appended to whatever there is. Raises as `append` does.
    """
    if not 1 <= len(events) <= MAX_BATCH:
        raise ValueError(f"a batch has 1 to {MAX_BATCH} events, not {len(events)}")
    first = events[0]
    if len(events) == 1:
        return [await append(nc, first, expect=expect.get(first.about), timeout_s=timeout_s)]
    messages: list[_Message] = []
    named: set[str] = set()
    for event in events:
        # The broker counts what the batch itself writes: only the first record about a node carries the
        # expectation.
        messages.append(_Message(event, None if event.filter in named else expect.get(event.about)))
        named.add(event.filter)
    doing = f"appending {len(events)} facts"
    info = await ask(nc, f"STREAM.INFO.{FLEET_NAME}", doing=doing, timeout_s=timeout_s)
    ended_at = int(info.get("state", {}).get("last_seq", 0))
    attempts = _Attempts(nc, doing, timeout_s)
    while True:
        answer = await attempts.request_all(messages)
        if answer is None or error_code(answer) == BATCH_INCOMPLETE:
            continue
        if error_code(answer) in (WRONG_LAST_SEQUENCE, DOUBLE_IN_BATCH):
            found = await _find(nc, first, after=min(ended_at, expect.get(first.about, ended_at)))
            if found is None or not await _is_last(nc, events, first_seq=found):
                raise await _conflict(nc, events, expect)
            return [StreamSeq(found + at) for at in range(len(events))]
        _raise_refusal(answer, messages[-1])
        return [StreamSeq(int(answer["seq"]) - len(events) + 1 + at) for at in range(len(events))]


class _Message:
    """One event as it goes over the wire; raises OversizedError where the stream would not take it."""

    def __init__(self, event: FactEvent, expect: int | None) -> None:
        self.subject = event.subject
        self.payload = encode_fact(event)
        self.headers = {MESSAGE_ID: event.event_id, "Nats-Expected-Stream": FLEET_NAME}
        if expect is not None:
            self.headers["Nats-Expected-Last-Subject-Sequence"] = str(expect)
            self.headers["Nats-Expected-Last-Subject-Sequence-Subject"] = event.filter
        # The broker counts the headers too; those of a batch are added later and are below 128 bytes.
        lines = sum(len(name) + len(value.encode()) + 4 for name, value in self.headers.items())
        self.size_bytes = len(self.payload) + lines + 128
        if self.size_bytes > MAX_RECORD_BYTES:
            raise OversizedError(self.subject, size_bytes=self.size_bytes, limit_bytes=MAX_RECORD_BYTES)


class _Attempts:
    """Requests within one deadline: an attempt without an answer gives None, the last one raises."""

    def __init__(self, nc: Client, doing: str, timeout_s: float) -> None:
        self._nc, self._doing = nc, doing
        self._deadline = time.monotonic() + timeout_s
        self._attempt_s = min(ATTEMPT_S, timeout_s / 2)

    async def request(self, message: _Message) -> dict[str, Any] | None:
        await connected(self._nc, doing=self._doing, deadline=self._deadline)
        left_s = max(self._deadline - time.monotonic(), 0.001)
        try:
            return await request(
                self._nc,
                message.subject,
                message.payload,
                headers=message.headers,
                timeout_s=min(self._attempt_s, left_s),
            )
        except NoAnswerError as err:
            if time.monotonic() + PAUSE_S >= self._deadline:
                raise BrokerUnavailableError(self._doing, why=err.why) from err
        await asyncio.sleep(PAUSE_S)
        return None

    async def request_all(self, messages: Sequence[_Message]) -> dict[str, Any] | None:
        await connected(self._nc, doing=self._doing, deadline=self._deadline)
        batch_id = uuid4().hex
        for at, message in enumerate(messages, 1):
            message.headers["Nats-Batch-Id"] = batch_id
            message.headers["Nats-Batch-Sequence"] = str(at)
        messages[-1].headers["Nats-Batch-Commit"] = "1"
        try:
            for message in messages[:-1]:
                await send(self._nc, message.subject, message.payload, headers=message.headers)
        except NoAnswerError as err:
            if time.monotonic() + PAUSE_S >= self._deadline:
                raise BrokerUnavailableError(self._doing, why=err.why) from err
            await asyncio.sleep(PAUSE_S)
            return None
        return await self.request(messages[-1])


def _raise_refusal(answer: dict[str, Any], message: _Message) -> None:
    code = error_code(answer)
    if not code:
        return
    if code == TOO_LARGE:
        raise OversizedError(message.subject, size_bytes=message.size_bytes, limit_bytes=MAX_RECORD_BYTES)
    said = answer["error"].get("description", "no reason given")
    raise RefusedError(APPEND_REFUSED, f"the broker refuses {message.subject}: {said} (code {code})")


async def _find(nc: Client, event: FactEvent, *, after: int) -> StreamSeq | None:
    """Return where the log holds this very event, looking at the records about its node after a sequence."""
    doing = f"looking for event {event.event_id}"
    seq = after + 1
    for _ in range(WALK_RECORDS):
        record = await _record(nc, {"seq": seq, "next_by_subj": event.filter}, doing=doing)
        if record is None:
            break
        if _event_id_is(record, event.event_id):
            return StreamSeq(int(record["seq"]))
        seq = int(record["seq"]) + 1
    record = await _record(nc, {"last_by_subj": event.subject}, doing=doing)
    if record is not None and _event_id_is(record, event.event_id):
        return StreamSeq(int(record["seq"]))
    return None


async def _is_last(nc: Client, events: Sequence[FactEvent], *, first_seq: int) -> bool:
    """Say whether a batch whose first event is in the log is there whole: the first may be there alone."""
    last = events[-1]
    question = {"seq": first_seq + len(events) - 1}
    record = await _record(nc, question, doing=f"looking for event {last.event_id}")
    return record is not None and _event_id_is(record, last.event_id)


async def _conflict(
    nc: Client, events: Sequence[FactEvent], expect: Mapping[str, int]
) -> ConflictError | RefusedError:
    """Return what to raise of a refused append: the first expectation that does not hold."""
    for event in events:
        expected = expect.get(event.about)
        if expected is None:
            continue
        record = await _record(nc, {"last_by_subj": event.filter}, doing=f"looking at {event.about}")
        found = 0 if record is None else int(record["seq"])
        if found != expected:
            return ConflictError(event.about, expected=expected, found=found)
    return RefusedError(APPENDED_BEFORE, "an event of this batch was appended before, but not the batch")


async def _record(nc: Client, question: dict[str, Any], *, doing: str) -> dict[str, Any] | None:
    answer = await ask(nc, f"STREAM.MSG.GET.{FLEET_NAME}", question, doing=doing)
    record: dict[str, Any] | None = answer.get("message")
    return record


def _event_id_is(record: dict[str, Any], event_id: str) -> bool:
    header = base64.b64decode(record.get("hdrs", "")).decode(errors="replace")
    if f"\r\n{MESSAGE_ID}: {event_id}\r\n" in header:
        return True
    try:
        body = orjson.loads(base64.b64decode(record.get("data", "")))
    except orjson.JSONDecodeError:
        return False
    return isinstance(body, dict) and body.get("id") == event_id
