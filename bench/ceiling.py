"""How quickly one stream can be read on this machine: what the reader is measured against.

`raw_socket` is the ceiling: a plain blocking socket that asks for the same pulls and only counts.
`hand_parser` is the same with every frame cut in plain Python, `fetch` is nats-py's own pull, and
`reader` is ours. Compare figures of one run only: on a shared machine rates move by a factor of two
between runs, their ratios do not.

    python -m bench.ceiling [--url nats://…] [--records 400000]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import nats
import nats.js.api
import uvloop

from consumers.deliveries import new_client
from consumers.reader import BatchReader
from tests.support.broker import Broker
from tests.support.publishing import beats, connected, nodes, pour, stream_of, stream_reached

PULL = 5_000
RECV_BYTES = 256 << 10


@dataclass(frozen=True, slots=True)
class Rate:
    """Records read, in which time, at which cost of this process."""

    records: int
    seconds: float
    cpu_s: float

    @property
    def per_s(self) -> float:
        return self.records / self.seconds

    @property
    def cpu_us(self) -> float:
        return self.cpu_s / self.records * 1e6


def timed(read: Callable[[], int]) -> Rate:
    """Run one way of reading and return its rate."""
    began, cpu_began = time.perf_counter(), time.process_time()
    records = read()
    return Rate(records, time.perf_counter() - began, time.process_time() - cpu_began)


@contextmanager
def _pulling(url: str, stream: str) -> Iterator[tuple[socket.socket, Callable[[], None]]]:
    """Give a socket with a consumer from the stream's beginning, and what asks for one more pull."""
    target, name = urlsplit(url), f"ceiling{time.monotonic_ns()}"
    address = (target.hostname or "127.0.0.1", target.port or 4222)
    with socket.create_connection(address, timeout=20) as link:
        config = {"name": name, "ack_policy": "none", "mem_storage": True, "num_replicas": 1}
        create = json.dumps({"stream_name": stream, "config": config, "action": "create"}).encode()
        ask = json.dumps({"batch": PULL, "expires": 30_000_000_000}).encode()
        subject = f"$JS.API.CONSUMER.CREATE.{stream}.{name}".encode()
        pull = f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{name}".encode()
        link.sendall(
            b'CONNECT {"verbose":false,"pedantic":false,"headers":true}\r\n'
            b"SUB _C.made 1\r\nSUB _C.got 2\r\n" + _pub(subject, b"_C.made", create) + b"PING\r\n"
        )
        seen = b""
        while b"MSG _C.made" not in seen or not seen.endswith(b"\r\n") or b"PONG" not in seen:
            seen += link.recv(65536)
        if b'"error"' in seen:
            raise RuntimeError(seen.decode(errors="replace"))
        yield link, lambda: link.sendall(_pub(pull, b"_C.got", ask))


def _pub(subject: bytes, reply: bytes, payload: bytes) -> bytes:
    return b"PUB %b %b %d\r\n%b\r\n" % (subject, reply, len(payload), payload)


def raw_socket(url: str, stream: str, count: int) -> int:
    """Read `count` records and only count them: the ceiling."""
    with _pulling(url, stream) as (link, ask):
        ask()
        ask()
        got, asked, tail, mark = 0, 2 * PULL, b"", b"$JS.ACK."
        while got < count:
            data = link.recv(RECV_BYTES)
            got += (tail + data).count(mark)
            tail = data[-(len(mark) - 1) :]
            while asked - got <= PULL:
                ask()
                asked += PULL
        return got


def hand_parser(url: str, stream: str, count: int) -> int:
    """Read `count` records and cut each frame into subject, reply and payload."""
    with _pulling(url, stream) as (link, ask):
        ask()
        ask()
        got, asked, buf = 0, 2 * PULL, b""
        while got < count:
            buf += link.recv(RECV_BYTES)
            at, size = 0, len(buf)
            while (eol := buf.find(b"\r\n", at)) >= 0:
                head = buf[at:eol].split(b" ")
                if head[0] != b"MSG":
                    at = eol + 2
                    continue
                end = eol + 2 + int(head[-1])
                if end + 2 > size:
                    break
                _record = (head[1], head[3], buf[eol + 2 : end])
                got += 1
                at = end + 2
            buf = buf[at:]
            while asked - got <= PULL:
                ask()
                asked += PULL
        return got


def fetch(url: str, stream: str, count: int) -> int:
    """Read `count` records with nats-py's `fetch`."""

    async def run() -> int:
        async with connected(url) as nc:
            config = nats.js.api.ConsumerConfig(ack_policy=nats.js.api.AckPolicy.NONE, mem_storage=True)
            pull = await nc.jetstream().pull_subscribe("", stream=stream, config=config)
            got = 0
            while got < count:
                got += len(await pull.fetch(1_000, timeout=5))
            return got

    return uvloop.run(run())


def reader(url: str, stream: str, count: int, *, batch: int = 10_000) -> int:
    """Read `count` records with our reader."""

    async def run() -> int:
        nc = new_client()
        await nc.connect(url)
        got, batches = 0, BatchReader(nc, stream, batch=batch)
        async for records in batches:
            got += len(records)
            if got >= count:
                break
        await batches.close()
        await nc.close()
        return got

    return uvloop.run(run())


async def _fill(url: str, stream: str, records: int) -> int:
    async with connected(url) as nc:
        await stream_of(nc, stream, ["fleet.v1.beat.*"], compression="s2")
        fleet = nodes(min(records, 10_000))
        count = await asyncio.to_thread(pour, url, beats(fleet, rounds=records // len(fleet)))
        await stream_reached(nc, stream, count, timeout_s=120)
        return count


def main() -> None:
    """Fill a stream and print what each way of reading makes of it, two rounds."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--url", default="")
    arguments.add_argument("--records", type=int, default=400_000)
    asked = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        own = None if asked.url else Broker(Path(folder)).start()
        url, stream = own.url if own else asked.url, "CEILING"
        try:
            count = asyncio.run(_fill(url, stream, asked.records))
            for _round in range(2):
                ceiling = timed(lambda: raw_socket(url, stream, count))
                for name, rate in {
                    "raw socket, only counted": ceiling,
                    "raw socket, hand parser": timed(lambda: hand_parser(url, stream, count)),
                    "reader": timed(lambda: reader(url, stream, count)),
                    "nats-py fetch (a tenth)": timed(lambda: fetch(url, stream, count // 10)),
                }.items():
                    share = rate.per_s / ceiling.per_s
                    print(f"{name:26} {rate.per_s:10,.0f}/s  {share:4.2f}  {rate.cpu_us:6.2f} µs")
        finally:
            if own:
                own.kill()


if __name__ == "__main__":
    main()
