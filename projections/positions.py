"""Waiting until a record is folded, from any event loop (floor 2): what `min_seq` asks for."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

from events.loops import call_soon

if TYPE_CHECKING:
    from datetime import timedelta

    from projections.applied import Applied
    from projections.projection import Projection


class Positions:
    """Who waits for which position of which stream. One per projection; `close` ends the listening.

    The commits happen in the writer thread, which is told nothing and never held up. `commits` counts them
    from here on.
    """

    def __init__(self, projection: Projection) -> None:
        self._projection = projection
        self._lock = threading.Lock()
        self._waiting: dict[str, list[tuple[int, asyncio.AbstractEventLoop, asyncio.Future[None]]]] = {}
        self._unsubscribe = projection.subscribe(self._committed)
        self.commits = 0

    def seq(self, stream: str) -> int:
        """Return the last record of a stream that is folded and committed, 0 before the first."""
        cursor = self._projection.cursors().get(stream)
        return cursor.seq if cursor is not None else 0

    async def wait_for(self, stream: str, seq: int, *, within: timedelta) -> int:
        """Return the position once it is at least `seq`, or the lower one that was reached in time."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        entry = (seq, loop, future)
        with self._lock:
            if (reached := self.seq(stream)) >= seq:
                return reached
            self._waiting.setdefault(stream, []).append(entry)
        try:
            async with asyncio.timeout(within.total_seconds()):
                await future
        except TimeoutError:
            return self.seq(stream)
        finally:
            with self._lock:
                if entry in self._waiting[stream]:
                    self._waiting[stream].remove(entry)
        return self.seq(stream)

    def close(self) -> None:
        """Hear of no more commits; closing twice is fine."""
        self._unsubscribe()

    def _committed(self, applied: Applied) -> None:
        """Called by the writer thread after each commit."""
        self.commits += 1
        with self._lock:
            waiting = self._waiting.get(applied.stream, [])
            due = [entry for entry in waiting if entry[0] <= applied.cursor.seq]
            if due:
                self._waiting[applied.stream] = [entry for entry in waiting if entry[0] > applied.cursor.seq]
        for _, loop, future in due:
            call_soon(loop, _fulfil, future)


def _fulfil(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
