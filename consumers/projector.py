"""The projector: both streams into the projection, on threads of its own (floor 3).

One thread runs an event loop with a reader and a connection for each stream, another one is the
projection's only writer. So neither reading nor writing ever stands in the way of an API on the main
thread, and a slow disk only makes batches larger: while one is being written, the next one grows.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Callable, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from consumers.ending import end
from consumers.following import STORE_PAUSES_S, Connect, Following, StreamPlan
from consumers.loop_thread import LoopThread
from consumers.stream_status import StreamStatus
from events.errors import EpochChangedError, LogRewoundError, StoreError
from events.log import Cursor
from events.streams import BEATS_NAME, FLEET_NAME
from projections.positions import Positions

if TYPE_CHECKING:
    from projections.projection import Projection

log = logging.getLogger(__name__)

PLANS = (
    # Facts are waited for: a change has to reach its subscribers within 100 ms. Heartbeats come in
    # crowds, and each transaction costs the disk the same whatever is in it.
    StreamPlan(FLEET_NAME, batch=5_000, linger_s=0.01, batch_behind=10_000),
    StreamPlan(BEATS_NAME, batch=20_000, linger_s=0.1),
)


@dataclass(frozen=True, slots=True)
class ProjectorStatus:
    """How the reading goes, by stream; `epoch_changes` counts logs that turned out to be another one,
    `rebuilds` the times that the tables were begun anew, the last time because of `rebuilt_because`.
    """

    streams: Mapping[str, StreamStatus]
    epoch_changes: int
    rebuilds: int
    rebuilt_because: str


class Projector:
    """Reads and folds between `start` and `stop`. All but these two may be called from any thread or loop."""

    def __init__(
        self,
        projection: Projection,
        connect: Connect,
        *,
        plans: tuple[StreamPlan, ...] = PLANS,
    ) -> None:
        self._projection = projection
        self._writer: Executor = ThreadPoolExecutor(1, thread_name_prefix="writer")
        self._folder: Executor = ThreadPoolExecutor(1, thread_name_prefix="folder")
        self._positions = Positions(projection)
        self._followings = {
            plan.stream: Following(
                plan,
                projection,
                connect=connect,
                writer=self._writer,
                folder=self._folder if plan.stream == FLEET_NAME else None,
            )
            for plan in plans
        }
        self._thread = LoopThread("projector", self._follow_all, ended=self._close_all, failed=self._failed)
        self._epoch_changes = self._rebuilds = 0
        self._rebuilt_because = ""

    async def start(self) -> None:
        """Begin to read; returns at once, whether the broker is there or not."""
        self._thread.start()

    async def stop(self) -> None:
        """Stop reading, finish the batch that is being written; twice is fine."""
        await self._thread.stop()
        await asyncio.to_thread(self._folder.shutdown)
        await asyncio.to_thread(self._writer.shutdown)
        self._positions.close()

    def is_running(self) -> bool:
        """Tell whether it still reads: not before `start`, after `stop`, or after a mistake of ours."""
        return self._thread.is_alive()

    def status(self) -> ProjectorStatus:
        """Return how it goes now; costs microseconds."""
        return ProjectorStatus(
            streams={name: following.status() for name, following in self._followings.items()},
            epoch_changes=self._epoch_changes,
            rebuilds=self._rebuilds,
            rebuilt_because=self._rebuilt_because,
        )

    async def wait_for(self, stream: str, seq: int, *, timeout_s: float) -> bool:
        """Return once the record at `seq` is folded and committed, or False after `timeout_s`."""
        reached = await self._positions.wait_for(stream, seq, within=timedelta(seconds=timeout_s))
        return reached >= seq

    def _failed(self, err: Exception) -> None:
        """Show the state as it was: reading stops, and the log says where."""
        positions = {name: cursor.seq for name, cursor in self._projection.cursors().items()}
        log.error("the projector stopped", exc_info=err, extra={"positions": positions})
        for following in self._followings.values():
            following.stop(f"internal error: {type(err).__name__}")

    async def _close_all(self) -> None:
        for each in self._followings.values():
            await each.close()

    async def _follow_all(self) -> None:
        """Follow both streams; where one cannot go on, put that right and follow both again."""
        while True:
            tasks = {asyncio.create_task(each.run()): each for each in self._followings.values()}
            try:
                done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            finally:
                await end(*tasks)
            for task in done:
                try:
                    task.result()
                except (EpochChangedError, LogRewoundError) as err:
                    await self._begin_with_another_log(tasks[task], err)
                except StoreError as err:
                    await self._begin_with_empty_tables(tasks[task], why=err.why)

    async def _begin_with_another_log(
        self, following: Following, err: EpochChangedError | LogRewoundError
    ) -> None:
        match err:
            case EpochChangedError():
                known, found = err.known, err.found
            case LogRewoundError():
                # What the reader had in hand may be all that was ever read of it, and none of it folded.
                known = found = self._projection.cursors().get(err.stream, Cursor()).epoch
        log.error(
            "another log under the same name",
            extra={"stream": err.stream, "code": err.code, "known": known, "found": found, "why": str(err)},
        )
        if err.stream == FLEET_NAME:
            await self._begin_with_empty_tables(following, why=str(err))
        else:
            await self._on_writer(following, self._projection.reset_stream, err.stream, found)
            following.begin_anew()
        self._epoch_changes += 1

    async def _begin_with_empty_tables(self, following: Following, *, why: str) -> None:
        log.error("the tables are begun anew from the log", extra={"why": why})
        await self._on_writer(following, functools.partial(self._projection.reopen, why=why))
        for each in self._followings.values():
            each.begin_anew()
        self._rebuilds += 1
        self._rebuilt_because = why

    async def _on_writer(self, following: Following, work: Callable[..., None], *arguments: str) -> None:
        """Run something in the writer's turn, until it works."""
        loop, failures = asyncio.get_running_loop(), 0
        while True:
            try:
                await loop.run_in_executor(self._writer, work, *arguments)
            except StoreError as err:
                if err.is_fatal and arguments:
                    await self._begin_with_empty_tables(following, why=err.why)
                    return
                following.stop(str(err))
                await asyncio.sleep(STORE_PAUSES_S[min(failures, len(STORE_PAUSES_S) - 1)])
                failures += 1
            else:
                return
