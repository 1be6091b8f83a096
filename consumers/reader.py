"""Read a JetStream stream in order, in batches, with proof that nothing is missing (floor 3).

Nothing is acknowledged: whoever folds a batch stores `batch.cursor` in the same transaction as its rows,
and a reader that starts after that cursor goes on exactly there. A *generation* is one throw-away
consumer and one inbox. Any doubt (reconnect, lost delivery, silence, consumer gone, standstill) ends the
generation, and the next one starts after the cursor.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace

import nats.errors
import numpy as np
from nats.aio.client import Client

from consumers.frames import PENDING, STORED_AT_NS, STREAM_SEQ
from consumers.generation import PULL_EXPIRES_S, Generation, GenerationEndedError
from consumers.holes import Hole, holes_in, prove
from consumers.lineage import NO_RECORD_SEEN, check_lineage
from consumers.stream_api import NotAnsweredError, first_record_from, stream_state
from events.errors import BrokerUnavailableError, EpochChangedError, LogGapError, LogRewoundError
from events.log import Batch, Cursor

log = logging.getLogger(__name__)

BATCH = 10_000
LINGER_S = 0.1
PULL = 5_000
# Large enough that the broker seldom waits for the next pull (1,000 cost up to a quarter of the rate on two
# cores), small enough that what lies unread in memory, two of them, is about 3 MB of heartbeats.
STALL_S = 5.0
# For how long nothing may come before the stream's head is asked for. Above a broker's slowest hiccup
# that was seen (2 s of election after SIGTERM), well below the 15 s in which a dead reader has to be
# noticed.
GAP_ATTEMPTS = 3
# A record that the broker holds and skips is read again this often before the reader stops for a person
# to look.
TIMEOUTS_BEFORE_RECONNECT = 2
# nats-py says "connected" after its read loop died of an exception; only that nothing is ever answered
# shows it.
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.025, 2.0

DOUBTS = (GenerationEndedError, NotAnsweredError, LogGapError, nats.errors.Error, TimeoutError)


@dataclass(slots=True)
class ReaderCounts:
    """What happened so far: consumers made, records given out, holes proven, standstills broken."""

    generations: int = 0
    records: int = 0
    holes: int = 0
    stalls: int = 0


class BatchReader:
    """An async iterator of batches, contiguous but for proven holes, in stream order; never ends by itself.

    A batch has at most `batch` records (`batch_behind` where the stream holds more than that many), and comes
    `linger_s` after its first record at the latest.
    Iterating raises EpochChangedError and LogRewoundError before any record of the other log is given
    out, LogGapError where the broker skips a record that it holds, and BrokerUnavailableError once the
    connection is closed for good. While the broker is away it waits and tries again; `ended` says why the
    last generations ended.
    """

    def __init__(
        self,
        nc: Client,
        stream: str,
        *,
        after: Cursor = Cursor(),  # noqa: B008 (a frozen value)
        batch: int = BATCH,
        batch_behind: int = 0,
        linger_s: float = LINGER_S,
        pull: int = PULL,
        stall_s: float = STALL_S,
        expires_s: float = PULL_EXPIRES_S,
    ) -> None:
        self.stream, self.cursor = stream, after
        self.counts = ReaderCounts()
        self.ended: deque[str] = deque(maxlen=20)
        self.head: int | None = None
        self._nc, self._batch, self._linger_s = nc, batch, linger_s
        self._batch_behind = max(batch, batch_behind)
        self._pull, self._stall_s, self._expires_s = pull, stall_s, expires_s
        self._generation: Generation | None = None
        self._owed: Hole | None = None
        self._failures = self._timeouts = self._gaps = 0

    @property
    def waiting(self) -> int:
        """How many records arrived and were not given out."""
        return self._generation.waiting if self._generation is not None else 0

    @property
    def waiting_since(self) -> float | None:
        """The monotonic time since which the oldest of them waits, None where none does."""
        return self._generation.waiting_since if self._generation is not None else None

    @property
    def heard_at(self) -> float | None:
        """The monotonic time of the broker's last sign of life, None while no generation is open."""
        return self._generation.heard_at if self._generation is not None else None

    def __aiter__(self) -> BatchReader:
        return self

    async def __anext__(self) -> Batch:
        while True:
            try:
                generation = self._generation or await self._open()
                batch = await self._next(generation)
            except (EpochChangedError, LogRewoundError):
                await self.close()
                raise
            except DOUBTS as why:
                await self._end(why)
            else:
                self._failures = self._timeouts = self._gaps = 0
                return batch

    async def close(self) -> None:
        """Give the consumer back; the reader may be iterated again and goes on after its cursor."""
        generation, self._generation = self._generation, None
        if generation is not None:
            await generation.close()

    async def _open(self) -> Generation:
        await self._connection()
        generation = Generation(self._nc, self.stream, pull=self._pull, expires_s=self._expires_s)
        self.counts.generations += 1
        async with AsyncExitStack() as undo:
            undo.push_async_callback(generation.close)
            await generation.open(after_seq=self.cursor.seq)
            # Asked after the consumer was made, so that it belongs to this epoch or to none at all.
            state = await stream_state(self._nc, self.stream)
            self.cursor = await check_lineage(self._nc, self.stream, self.cursor, state)
            self.head = state.last_seq
            if state.last_seq > self.cursor.seq:
                self._owed = await self._tail_hole(state.last_seq)
            undo.pop_all()
        self._generation = generation
        return generation

    async def _connection(self) -> None:
        while not self._nc.is_connected:
            if self._nc.is_closed:
                raise BrokerUnavailableError(f"reading {self.stream}", why="the connection is closed")
            await asyncio.sleep(FIRST_PAUSE_S)

    async def _next(self, generation: Generation) -> Batch:
        while self._owed is None and not await generation.arrived(1, within_s=self._stall_s):
            await self._look_for_a_standstill(generation)
        if self._owed is not None:
            return self._cross(self._owed)
        waited_s = time.monotonic() - (generation.waiting_since or 0.0)
        is_behind = (self.head or 0) - self.cursor.seq > self._batch_behind
        largest = self._batch_behind if is_behind else self._batch
        await generation.arrived(largest, within_s=self._linger_s - waited_s)
        numbers, subjects, payloads = generation.take(largest)
        seqs, stored_at_ns = numbers[:, STREAM_SEQ].copy(), numbers[:, STORED_AT_NS].copy()
        try:
            holes = holes_in(seqs, after=self.cursor.seq)
        except ValueError as err:
            raise GenerationEndedError(str(err)) from err
        for hole in holes:
            await prove(self._nc, self.stream, hole)
        self.cursor = replace(self.cursor, seq=int(seqs[-1]), stored_at_ns=int(stored_at_ns[-1]))
        pending = int(numbers[-1, PENDING])
        self.head = max(self.head or 0, self.cursor.seq + pending)
        self.counts.records += len(payloads)
        self.counts.holes += len(holes)
        return Batch(self.stream, seqs, stored_at_ns, subjects, payloads, self.cursor, tuple(holes), pending)

    def _cross(self, hole: Hole) -> Batch:
        """Return a batch without records that carries the cursor over a proven hole."""
        self._owed = None
        stored_at_ns = self.cursor.stored_at_ns or NO_RECORD_SEEN
        self.cursor = replace(self.cursor, seq=hole[1], stored_at_ns=stored_at_ns)
        self.counts.holes += 1
        nothing = np.empty(0, np.int64)
        return Batch(self.stream, nothing, nothing, [], [], self.cursor, holes=(hole,), pending=0)

    async def _tail_hole(self, last_seq: int) -> Hole | None:
        """Return what lies between the cursor and the stream's last sequence if no record of it is left."""
        low = self.cursor.seq + 1
        return (low, last_seq) if await first_record_from(self._nc, self.stream, low) is None else None

    async def _look_for_a_standstill(self, generation: Generation) -> None:
        """Compare the cursor with the stream's head; raise GenerationEndedError where a record waits."""
        state = await stream_state(self._nc, self.stream)
        await check_lineage(self._nc, self.stream, self.cursor, state)
        self.head = state.last_seq
        if state.last_seq <= self.cursor.seq or generation.waiting:
            return
        self._owed = await self._tail_hole(state.last_seq)
        if self._owed is None and not await generation.arrived(1, within_s=1.0):
            self.counts.stalls += 1
            raise GenerationEndedError(
                f"standstill: the stream is at {state.last_seq}, nothing came after {self.cursor.seq}"
            )

    async def _end(self, why: Exception) -> None:
        """End the generation and wait a moment before the next; raise where a person has to look."""
        said = str(why) or type(why).__name__
        self.ended.append(said)
        log.warning(
            "generation ended",
            extra={"stream": self.stream, "why": said, "seq": self.cursor.seq},
        )
        if isinstance(why, LogGapError):
            self._gaps += 1
            if self._gaps >= GAP_ATTEMPTS:
                raise why
        await self.close()
        if isinstance(why, NotAnsweredError) and why.is_timeout:
            self._timeouts += 1
            if self._timeouts % TIMEOUTS_BEFORE_RECONNECT == 0:
                await self._nc.force_reconnect()
        pause_s = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2 ** min(self._failures, 7))
        self._failures += 1
        await asyncio.sleep(pause_s if self._nc.is_connected else 0)
