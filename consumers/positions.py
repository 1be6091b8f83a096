"""Wait for a position to be folded, from any event loop (floor 3)."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

from events.loops import call_soon

if TYPE_CHECKING:
    from projections.projection import Applied, Projection


class Positions:
    """Who waits for which position of which stream. One per projection; `close` ends the listening."""

    def __init__(self, projection: Projection) -> None:
        self._projection = projection
        self._lock = threading.Lock()
        self._waiting: dict[str, list[tuple[int, asyncio.AbstractEventLoop, asyncio.Future[None]]]] = {}
        self._unsubscribe = projection.subscribe(self._committed)

    async def wait_for(self, stream: str, seq: int, *, timeout_s: float) -> bool:
        """Return once the record at `seq` is folded and committed, or False after `timeout_s`."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        entry = (seq, loop, future)
        with self._lock:
            if self._reached(stream) >= seq:
                return True
            self._waiting.setdefault(stream, []).append(entry)
        try:
            await asyncio.wait_for(future, timeout_s)
        except TimeoutError:
            return False
        finally:
            with self._lock:
                if entry in self._waiting[stream]:
                    self._waiting[stream].remove(entry)
        return True

    def close(self) -> None:
        """Listen to no more commits."""
        self._unsubscribe()

    def _reached(self, stream: str) -> int:
        cursor = self._projection.cursors().get(stream)
        return cursor.seq if cursor is not None else 0

    def _committed(self, applied: Applied) -> None:
        """Called by the writer thread after each commit."""
        with self._lock:
            waiting = self._waiting.get(applied.stream, [])
            due = [entry for entry in waiting if entry[0] <= applied.cursor.seq]
            if due:
                self._waiting[applied.stream] = [entry for entry in waiting if entry not in due]
        for _, loop, future in due:
            call_soon(loop, _fulfil, future)


def _fulfil(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
