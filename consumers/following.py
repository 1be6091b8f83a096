"""One stream on its way into the projection: read on this loop, committed on the writer thread (floor 3).

Facts are folded on a thread of their own, one batch ahead of the writer.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import TYPE_CHECKING

import nats.errors

from consumers.ending import close, end
from consumers.generation import SILENCE_S
from consumers.reader import BatchReader, ReaderCounts
from consumers.stream_status import State, StreamStatus
from events.errors import BrokerUnavailableError, FleetfoldError, LogGapError, StoreError
from events.log import Batch, Cursor
from projections.ahead import FoldedAhead

if TYPE_CHECKING:
    from nats.aio.client import Client

    from projections.projection import Projection

log = logging.getLogger(__name__)

Connect = Callable[[], "Awaitable[Client]"]
"""Gives a connected client that came from `consumers.deliveries.new_client`."""
Work = Batch | FoldedAhead

CONNECT_AGAIN_S = 0.5
STORE_PAUSES_S = (0.5, 1.0, 2.0, 5.0, 10.0)
# A full disk needs a person; the last pause is how long it takes at most until we notice that there was one.
GAP_PAUSE_S = 30.0
FOLDED_AHEAD = 2
# One batch is committed while the next is folded.
BACKLOG = 500
# From so many records on that the broker still holds, batches are read ahead: then the rate counts, and below
# it how soon each of them is there.


@dataclass(frozen=True, slots=True)
class StreamPlan:
    """How one stream is read: the largest batch, and for how long after its first record it may grow.

    `batch_behind` is the largest batch while that many records and more wait, where it is larger: then a
    commit that costs less for each matters more than how soon it comes.
    """

    stream: str
    batch: int
    linger_s: float
    batch_behind: int = 0


class Following:
    """The reading of one stream, over any number of connections, readers and restarts."""

    def __init__(
        self,
        plan: StreamPlan,
        projection: Projection,
        *,
        connect: Connect,
        writer: Executor,
        folder: Executor | None = None,
    ) -> None:
        self.stream = plan.stream
        self.last_error = ""
        self._plan, self._projection, self._connect = plan, projection, connect
        self._writer, self._folder = writer, folder
        self._nc: Client | None = None
        self._connecting_since: float | None = None
        self._reader: BatchReader | None = None
        self._before = ReaderCounts()
        self._is_stopped = False
        self._head: int | None = None
        self._head_at_start: int | None = None
        self._in_hand: list[Batch] = []
        self._is_idle = asyncio.Event()
        self._heard_at = time.monotonic()

    async def run(self) -> None:
        """Read and fold until cancelled.

        Raises what nobody here can decide: EpochChangedError, LogRewoundError, a fatal StoreError, and
        anything that is a mistake of ours.
        """
        while True:
            try:
                await self._read_and_fold(await self._connection())
            except BrokerUnavailableError as err:
                self._failed(err)
                await self.close()
            except LogGapError as err:
                self._failed(err, is_stopped=True)
                await asyncio.sleep(GAP_PAUSE_S)

    async def close(self) -> None:
        """Close the connection; twice is fine."""
        nc, self._nc = self._nc, None
        if nc is not None:
            await close(nc)

    def begin_anew(self) -> None:
        """Forget what was known of the stream: it is another one, or is read from its beginning again.

        Also what had stopped it: a stream on which nothing comes would never show that it is read again.
        """
        self._head = self._head_at_start = None
        self._is_stopped, self.last_error = False, ""

    def stop(self, why: str) -> None:
        """Show that this stream is read no more."""
        self._is_stopped, self.last_error = True, why

    def status(self) -> StreamStatus:
        """Return how it goes now. May be called from any thread."""
        reader, before = self._reader, self._before
        counts = reader.counts if reader is not None else ReaderCounts()
        cursor = self._projection.cursors().get(self.stream, Cursor())
        head, silent_s = self._known_head(reader), self._silent_s(reader)
        return StreamStatus(
            stream=self.stream,
            state=self._state(silent_s),
            epoch=cursor.epoch,
            seq=cursor.seq,
            head=head if head is None else max(head, cursor.seq),
            head_at_start=self._head_at_start,
            pending=max(0, head - cursor.seq) if head is not None else 0,
            lag_ms=None if head is None else 1000 * max(silent_s, self._waited_s(reader, cursor)),
            generations=before.generations + counts.generations,
            stalls=before.stalls + counts.stalls,
            holes=before.holes + counts.holes,
            records=before.records + counts.records,
            last_error=self.last_error or self._why_waiting(reader, silent_s),
        )

    def _why_waiting(self, reader: BatchReader | None, silent_s: float) -> str:
        # Neither a client that connects nor a reader ever gives up, so this is where it shows.
        if self._connecting_since is not None:
            waits_s = time.monotonic() - self._connecting_since
            return "no connection to the broker yet" if waits_s > SILENCE_S else ""
        return reader.ended[-1] if silent_s and reader is not None and reader.ended else ""

    def _state(self, silent_s: float) -> State:
        if self._is_stopped:
            return "stopped"
        if self._head is None:
            return "starting"
        return "waiting" if silent_s else "reading"

    def _known_head(self, reader: BatchReader | None) -> int | None:
        if reader is not None and reader.head is not None:
            self._head = reader.head
            if self._head_at_start is None:
                self._head_at_start = self._head
        return self._head

    def _silent_s(self, reader: BatchReader | None) -> float:
        """Return for how long the broker has not been heard, 0 where that is not too long."""
        if self._in_hand:
            return 0.0  # nothing is asked of it while records wait to be folded
        heard_at = reader.heard_at if reader is not None else None
        if heard_at is not None:
            self._heard_at = max(self._heard_at, heard_at)
        silent_s = time.monotonic() - self._heard_at
        return silent_s if silent_s > SILENCE_S else 0.0

    def _waited_s(self, reader: BatchReader | None, cursor: Cursor) -> float:
        """Return for how long the oldest record that we know of and have not folded has been waiting."""
        for batch in tuple(self._in_hand):
            if len(batch) and batch.cursor.seq > cursor.seq:
                return max(0.0, time.time() - int(batch.stored_at_ns[0]) / 1e9)
        since = reader.waiting_since if reader is not None else None
        return time.monotonic() - since if since is not None else 0.0

    def _failed(self, err: FleetfoldError, *, is_stopped: bool = False) -> None:
        if str(err) != self.last_error:
            log.error("reading interrupted", extra={"stream": self.stream, "why": str(err), "code": err.code})
        self._is_stopped, self.last_error = is_stopped, str(err)

    async def _connection(self) -> Client:
        while self._nc is None:
            self._connecting_since = self._connecting_since or time.monotonic()
            try:
                self._nc = await self._connect()
            except (nats.errors.Error, OSError, TimeoutError, BrokerUnavailableError) as err:
                self._failed(BrokerUnavailableError(f"reading {self.stream}", why=str(err)))
                await asyncio.sleep(CONNECT_AGAIN_S)
        self._connecting_since = None
        return self._nc

    async def _read_and_fold(self, nc: Client) -> None:
        await self._finish_threads()
        reader = BatchReader(
            nc,
            self.stream,
            after=self._projection.cursors().get(self.stream, Cursor()),
            batch=self._plan.batch,
            batch_behind=self._plan.batch_behind,
            linger_s=self._plan.linger_s,
        )
        self._reader = reader
        batches: asyncio.Queue[Batch] = asyncio.Queue(maxsize=1)
        folded: asyncio.Queue[Work] = asyncio.Queue()
        uncommitted = asyncio.Semaphore(FOLDED_AHEAD)
        tasks = [
            asyncio.create_task(self._read(reader, batches)),
            asyncio.create_task(self._fold(batches, folded, uncommitted)),
            asyncio.create_task(self._commit(folded, uncommitted)),
        ]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            await end(*tasks)
            await reader.close()
            self._remember(reader.counts)
            self._in_hand.clear()
            self._is_idle.set()

    async def _read(self, reader: BatchReader, queue: asyncio.Queue[Batch]) -> None:
        async for batch in reader:
            self._known_head(reader)
            self._in_hand.append(batch)
            self._is_idle.clear()
            await queue.put(batch)
            if batch.pending < BACKLOG:
                # What arrives until this is committed makes one batch, instead of several that queue: each
                # costs the same, and the last of them would be as late as all before it take.
                await self._is_idle.wait()

    async def _finish_threads(self) -> None:
        """Wait for what a reader before this one had begun, and forget what it left uncommitted."""
        loop = asyncio.get_running_loop()
        if self._folder is not None:
            await loop.run_in_executor(self._folder, _nothing)
        await loop.run_in_executor(self._writer, _nothing)
        if self._folder is not None:
            self._projection.drop_ahead()

    async def _fold(
        self, batches: asyncio.Queue[Batch], folded: asyncio.Queue[Work], uncommitted: asyncio.Semaphore
    ) -> None:
        loop = asyncio.get_running_loop()
        while True:
            batch = await batches.get()
            await uncommitted.acquire()
            work: Work = batch
            if self._folder is not None:
                work = await loop.run_in_executor(self._folder, self._projection.fold_ahead, batch)
            folded.put_nowait(work)

    async def _commit(self, folded: asyncio.Queue[Work], uncommitted: asyncio.Semaphore) -> None:
        loop, failures = asyncio.get_running_loop(), 0
        while True:
            work = await folded.get()
            while True:
                try:
                    await loop.run_in_executor(self._writer, self._projection.apply, work)
                except StoreError as err:
                    if err.is_fatal:
                        raise
                    self._failed(err, is_stopped=True)
                    await asyncio.sleep(STORE_PAUSES_S[min(failures, len(STORE_PAUSES_S) - 1)])
                    failures += 1
                else:
                    break
            failures = 0
            self._is_stopped, self.last_error = False, ""
            self._heard_at = time.monotonic()
            self._in_hand.pop(0)
            if not self._in_hand:
                self._is_idle.set()
            uncommitted.release()

    def _remember(self, counts: ReaderCounts) -> None:
        before = self._before
        self._reader = None
        self._before = ReaderCounts(
            before.generations + counts.generations,
            before.records + counts.records,
            before.holes + counts.holes,
            before.stalls + counts.stalls,
        )


def _nothing() -> None:
    """A task for the writer thread that is over when everything before it is."""
