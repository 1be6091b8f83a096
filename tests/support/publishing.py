"""Put records into streams quickly, and wait for positions."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import nats
from nats.aio.client import Client

from events.ids import NodeId
from events.subjects import beat_subject, fact_subject

Record = tuple[str, bytes]
"""Subject and payload."""


async def connect(url: str) -> Client:
    """Connect as our own processes do: for ever, and soon again."""
    return await nats.connect(
        url,
        max_reconnect_attempts=-1,
        reconnect_time_wait=0.1,
        connect_timeout=2,
        ping_interval=5,
        max_outstanding_pings=1,
        error_cb=_quiet,
        allow_reconnect=True,
    )


async def _quiet(_err: Exception) -> None:
    """Reconnects are part of the test: nats-py's own callback logs a traceback for each."""


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[Client]:
    """A connection that is closed at the end."""
    nc = await connect(url)
    try:
        yield nc
    finally:
        await nc.close()


async def js_api(nc: Client, verb: str, ask: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return what `$JS.API.<verb>` answers; an error of the broker fails the test."""
    reply = await nc.request(f"$JS.API.{verb}", json.dumps(ask).encode() if ask else b"", timeout=10)
    answer: dict[str, Any] = json.loads(reply.data)
    assert "error" not in answer, answer
    return answer


async def stream_of(nc: Client, name: str, subjects: Iterable[str], **settings: object) -> None:
    """Create a stream that is not one of ours."""
    await js_api(nc, f"STREAM.CREATE.{name}", {"name": name, "subjects": list(subjects), **settings})


async def head(nc: Client, stream: str) -> int:
    """Return the last sequence of a stream."""
    return int((await js_api(nc, f"STREAM.INFO.{stream}"))["state"]["last_seq"])


async def reached(position: Callable[[], int], seq: int, *, timeout_s: float = 20) -> None:
    """Wait until a position is at least `seq`; for positions that can only be asked."""
    async with asyncio.timeout(timeout_s):
        while position() < seq:  # noqa: ASYNC110 (what is watched has no event)
            await asyncio.sleep(0.005)


async def stream_reached(nc: Client, stream: str, seq: int, *, timeout_s: float = 20) -> None:
    """Wait until the stream's last sequence is at least `seq`."""
    async with asyncio.timeout(timeout_s):
        while await head(nc, stream) < seq:  # noqa: ASYNC110 (what is watched has no event)
            await asyncio.sleep(0.005)


async def stream_emptied(nc: Client, stream: str, *, timeout_s: float = 20) -> None:
    """Wait until age has taken every record of a stream."""
    async with asyncio.timeout(timeout_s):
        while (await js_api(nc, f"STREAM.INFO.{stream}"))["state"]["messages"]:  # noqa: ASYNC110 (as above)
            await asyncio.sleep(0.02)


async def publish_all(nc: Client, stream: str, records: Iterable[Record], *, at_once: int = 5_000) -> int:
    """Publish without acks and return the stream's head once all are in it, as the stream's only writer."""
    seq, waiting = await head(nc, stream), 0
    for subject, payload in records:
        await nc.publish(subject, payload)
        seq, waiting = seq + 1, waiting + 1
        if waiting == at_once:
            await nc.flush()
            await stream_reached(nc, stream, seq)
            waiting = 0
    await nc.flush()
    await stream_reached(nc, stream, seq)
    return seq


def pour(url: str, records: Iterable[Record], *, at_once: int = 2_000) -> int:
    """Store records over a plain socket, many times quicker than a client; return how many. Blocks.

    One in `at_once` asks for its acknowledgement, which is waited for: it says that all before it are stored,
    and no queue of the broker overflows.
    """
    target, count, frames = urlsplit(url), 0, []
    with socket.create_connection((target.hostname or "127.0.0.1", target.port or 4222), timeout=20) as link:
        lines = link.makefile("rb")
        lines.readline()
        link.sendall(b'CONNECT {"verbose":false,"pedantic":false,"headers":true}\r\nSUB _POUR.ack 1\r\n')

        def push(subject: str, payload: bytes) -> None:
            link.sendall(b"".join([*frames, _pub(subject, payload, reply=b" _POUR.ack")]))
            frames.clear()
            while not (line := lines.readline()).startswith(b"MSG _POUR.ack"):
                assert line.startswith((b"INFO", b"PONG", b"+OK", b"PING")), line
                if line.startswith(b"PING"):
                    link.sendall(b"PONG\r\n")
            assert b'"error"' not in (answer := lines.readline()), answer

        last: Record | None = None
        for record in records:
            if last is not None:
                frames.append(_pub(*last))
            last, count = record, count + 1
            if len(frames) == at_once - 1:
                push(*record)
                last = None
        if last is not None:
            push(*last)
    return count


def _pub(subject: str, payload: bytes, *, reply: bytes = b"") -> bytes:
    return b"PUB %b%b %d\r\n%b\r\n" % (subject.encode(), reply, len(payload), payload)


def nodes(count: int) -> list[NodeId]:
    """Return ids `n0`, `n1`, …"""
    return [NodeId(f"n{number}") for number in range(count)]


def beats(of: list[NodeId], *, rounds: int = 1, first_seq: int = 2, boot_id: str = "b1") -> Iterator[Record]:
    """Yield `rounds` heartbeats of every node, round by round, about 150 bytes each."""
    subjects = [beat_subject(node) for node in of]
    for beat_seq in range(first_seq, first_seq + rounds):
        payload = (
            f'{{"boot_id":"{boot_id}","seq":{beat_seq},"sent_at":"2026-01-01T00:00:00.000000Z",'
            f'"inventory":"00112233445566aa",'
            f'"used":{{"cpu":{beat_seq % 64}.25,"memory":{81604378624 + beat_seq}}}}}'
        ).encode()
        for subject in subjects:
            yield subject, payload


def registrations(
    of: list[NodeId],
    *,
    seq: int = 1,
    boot_id: str = "b1",
    zones: int = 4,
    cpu: int = 64,
    interval_s: float | None = None,
) -> Iterator[Record]:
    """Yield one registration of every node, as bare data."""
    for number, node in enumerate(of):
        body = {
            "boot_id": boot_id, "seq": seq, "machine_id": f"m-{node}", "hostname": f"host-{node}",
            "region": "r1", "zone": f"z{number % zones}", "pool": f"p{number % 3}", "role": "vm",
            "architecture": "x86_64", "labels": {"rack": f"r{number % 40}"},
            "resources": {"cpu": {"total": cpu}, "memory": {"total": 274877906944, "reserved": 4294967296}},
        } | ({} if interval_s is None else {"interval_s": interval_s})  # fmt: skip
        yield fact_subject("agent", node, "registered"), json.dumps(body, separators=(",", ":")).encode()
