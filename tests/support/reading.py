"""A reader at work in the background, and what it gave out."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from nats.aio.client import Client

from consumers.deliveries import new_client
from consumers.ending import end
from consumers.reader import BatchReader
from events.log import Batch, Cursor

Hole = tuple[int, int]


async def reading_client(url: str) -> Client:
    """Connect a client that readers can use, as our own processes do."""
    nc = new_client()
    await nc.connect(
        url, max_reconnect_attempts=-1, reconnect_time_wait=0.1, connect_timeout=1, ping_interval=5,
        max_outstanding_pings=1, error_cb=_quiet,
    )  # fmt: skip
    return nc


async def _quiet(_err: Exception) -> None:
    """Reconnects are part of the test."""


class Reading:
    """Everything one reader gave out. `failure` is what ended it, if anything did."""

    def __init__(self, reader: BatchReader, client: Client) -> None:
        self.reader, self.client = reader, client
        self.batches: list[Batch] = []
        self.failure: Exception | None = None
        self._moved = asyncio.Event()

    @property
    def seqs(self) -> list[int]:
        return [seq for batch in self.batches for seq in batch.seqs.tolist()]

    @property
    def records(self) -> list[tuple[int, bytes, bytes]]:
        return [
            (int(seq), subject, payload)
            for batch in self.batches
            for seq, subject, payload in zip(batch.seqs, batch.subjects, batch.payloads, strict=True)
        ]

    @property
    def holes(self) -> list[Hole]:
        return [hole for batch in self.batches for hole in batch.holes]

    @property
    def cursor(self) -> Cursor:
        return self.batches[-1].cursor if self.batches else Cursor()

    async def run(self) -> None:
        try:
            async for batch in self.reader:
                self.batches.append(batch)
                self._moved.set()
        except Exception as err:  # noqa: BLE001 (the test looks at it)
            self.failure = err
            self._moved.set()

    async def until(self, done: Callable[[], bool], *, timeout_s: float = 20) -> None:
        """Wait until something about what was given out is true; an error of the reader's fails at once."""
        async with asyncio.timeout(timeout_s):
            while not done():
                if self.failure is not None:
                    raise self.failure
                self._moved.clear()
                await self._moved.wait()

    async def reached(self, seq: int, *, timeout_s: float = 20) -> None:
        await self.until(lambda: self.cursor.seq >= seq, timeout_s=timeout_s)

    async def until_ended(self, why: str, *, timeout_s: float = 20) -> None:
        """Wait until a generation ended for this reason."""
        async with asyncio.timeout(timeout_s):
            while why not in self.reader.ended:  # noqa: ASYNC110 (a reader tells nobody that it starts again)
                await asyncio.sleep(0.005)

    async def failed(self, *, timeout_s: float = 20) -> Exception:
        """Wait for what ends the reader and return it."""
        async with asyncio.timeout(timeout_s):
            while self.failure is None:
                self._moved.clear()
                await self._moved.wait()
        return self.failure


@asynccontextmanager
async def reading(url: str, stream: str, **settings: object) -> AsyncIterator[Reading]:
    """Read a stream in the background for the length of a block."""
    nc = await reading_client(url)
    reader = BatchReader(nc, stream, **settings)  # type: ignore[arg-type]
    found = Reading(reader, nc)
    task = asyncio.create_task(found.run())
    try:
        yield found
    finally:
        await end(task)
        await reader.close()
        await nc.close()
