"""The newest heartbeats that the broker holds of one node, looked up without a consumer (floor 1, edge).

Each question is a direct get, which any replica answers: the last record of the node's subject, then those
within a span before it, in one batch. What is read is bounded whatever the node does.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import orjson

from events.errors import BrokerUnavailableError
from events.heartbeats import NOT_SAID, decode_beats
from events.ids import NodeId
from events.log import Batch, Cursor
from events.moments import from_us, to_us
from events.streams import BEATS_NAME
from events.subjects import beat_subject

if TYPE_CHECKING:
    from nats.aio.client import Client
    from nats.aio.msg import Msg

QUESTION = f"$JS.API.DIRECT.GET.{BEATS_NAME}"
DOING = "looking up the last heartbeats"
WITHIN_S = 2.0
# For all questions together: somebody waits for the answer, and it is only a part of what they asked for.
AT_ONCE = 128
# Messages of a batch, some 20 KB. A node that beats as it should has ten in the span that is asked for.
NARROWER = 3
# How often the span is cut where it holds more: by the proportion each time, so once does for an even rate.
FOUND_NONE, ENDS = "404", "204"


class StoredBeat(NamedTuple):
    """One record of BEATS. `unreadable` is why it could not be read, "" where it could; else it says nothing.

    `seq` is the position in BEATS, `boot_seq` the node's own count, `sent_at` the time by the node's clock.
    """

    seq: int
    stored_at: datetime
    boot_id: str | None
    boot_seq: int | None
    sent_at: datetime | None
    unreadable: str = ""


class _Record(NamedTuple):
    seq: int
    stored_at: datetime
    payload: bytes
    pending: int


async def newest_beats(nc: Client, node_id: NodeId, *, most: int, span: timedelta) -> list[StoredBeat]:
    """Return the newest records of a node's heartbeats, oldest first, none where the broker holds none.

    There are `most` at most, and the oldest is not older than `span` before the newest. Raises
    BrokerUnavailableError where the broker does not answer.
    """
    import nats.errors  # noqa: PLC0415 (0.15 s that only a process with a connection has to pay)

    if not nc.is_connected:
        raise BrokerUnavailableError(DOING, why="not connected")
    try:
        async with asyncio.timeout(WITHIN_S):
            found = await _newest(nc, beat_subject(node_id), span=span)
    except TimeoutError as err:
        raise BrokerUnavailableError(DOING, why=f"no answer within {WITHIN_S:g} s") from err
    except (nats.errors.Error, OSError) as err:
        raise BrokerUnavailableError(DOING, why=str(err) or type(err).__name__) from err
    return _decoded(beat_subject(node_id), found[-most:])


async def _newest(nc: Client, subject: str, *, span: timedelta) -> list[_Record]:
    last = await _ask(nc, {"last_by_subj": subject}, is_batch=False)
    found = last
    for _ in range(NARROWER):
        if not last:
            return []
        since = (last[0].stored_at - span).isoformat().replace("+00:00", "Z")
        found = await _ask(
            nc, {"next_by_subj": subject, "start_time": since, "batch": AT_ONCE}, is_batch=True
        )
        left = found[-1].pending if found else 0
        if found and not left:
            return found
        span *= AT_ONCE / (AT_ONCE + left) * 0.9
    return last


async def _ask(nc: Client, question: dict[str, object], *, is_batch: bool) -> list[_Record]:
    """Return the records that answer a question; none where there is none."""
    inbox = nc.new_inbox()
    answers = await nc.subscribe(inbox)
    try:
        await nc.publish(QUESTION, orjson.dumps(question), reply=inbox)
        found: list[_Record] = []
        while True:
            answer = await answers.next_msg(timeout=WITHIN_S)
            headers = answer.headers or {}
            status = headers.get("Status", "")
            if status in (FOUND_NONE, ENDS):
                return found
            if status or "Nats-Sequence" not in headers:
                raise BrokerUnavailableError(DOING, why=f"it answered {status or 'without a position'}")
            found.append(_record(answer, headers))
            if not is_batch:
                return found
    finally:
        await answers.unsubscribe()


def _record(answer: Msg, headers: dict[str, str]) -> _Record:
    return _Record(
        seq=int(headers["Nats-Sequence"]),
        stored_at=_moment(headers["Nats-Time-Stamp"]),
        payload=answer.data,
        pending=int(headers.get("Nats-Num-Pending", "0")),
    )


def _moment(text: str) -> datetime:
    """Return a time of the broker's, which has up to nine digits, cut to microseconds."""
    seconds, _, fraction = text.removesuffix("Z").partition(".")
    return datetime.fromisoformat(f"{seconds}.{fraction[:6]:0<6}").replace(tzinfo=UTC)


def _decoded(subject: str, records: list[_Record]) -> list[StoredBeat]:
    stored_at_ns = np.array([to_us(record.stored_at) * 1000 for record in records], dtype=np.int64)
    columns = decode_beats(
        Batch(
            stream=BEATS_NAME,
            seqs=np.array([record.seq for record in records], dtype=np.int64),
            stored_at_ns=stored_at_ns,
            subjects=[subject.encode()] * len(records),
            payloads=[record.payload for record in records],
            cursor=Cursor(),
        )
    )
    made = {
        row: StoredBeat(
            records[row].seq,
            records[row].stored_at,
            columns.boot_ids[at],
            int(columns.seqs[at]),
            None if columns.sent_us[at] == NOT_SAID else from_us(int(columns.sent_us[at])),
        )
        for at, row in enumerate(columns.rows.tolist())
    }
    why = {rejected.row: rejected.reason for rejected in columns.rejected}
    return [
        made.get(row)
        or StoredBeat(record.seq, record.stored_at, None, None, None, why.get(row, "unreadable"))
        for row, record in enumerate(records)
    ]
