"""Waiting until a record is folded: what `min_seq` asks for (floor 3)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from events.loops import call_soon

if TYPE_CHECKING:
    from datetime import timedelta

    from projections.projection import Applied, Projection


class Positions:
    """Wakes the requests that wait for a position, after each commit of the projection.

    One event loop waits (the API's); the commits happen in the writer thread, which is told nothing and never
    held up. `commits` counts them from here on.
    """

    def __init__(self, projection: Projection) -> None:
        self._projection = projection
        self._loop: asyncio.AbstractEventLoop | None = None
        self._committed = asyncio.Event()
        self._waiting = 0
        self.commits = 0
        self._end = projection.subscribe(self._on_commit)

    def seq(self, stream: str) -> int:
        """Return the last record of a stream that is folded and committed, 0 before the first."""
        cursor = self._projection.cursors().get(stream)
        return cursor.seq if cursor else 0

    async def wait_for(self, stream: str, seq: int, *, within: timedelta) -> int:
        """Return the position once it is at least `seq`, or the lower one that was reached in time."""
        self._loop = asyncio.get_running_loop()
        self._waiting += 1
        try:
            async with asyncio.timeout(within.total_seconds()):
                while (reached := self.seq(stream)) < seq:
                    self._committed.clear()
                    if self.seq(stream) < seq:  # a commit between the look and the clearing is not missed
                        await self._committed.wait()
        except TimeoutError:
            return self.seq(stream)
        finally:
            self._waiting -= 1
        return reached

    def close(self) -> None:
        """Hear of no more commits; closing twice is fine."""
        self._end()

    def _on_commit(self, _applied: Applied) -> None:
        self.commits += 1
        loop = self._loop
        if self._waiting and loop is not None:
            call_soon(loop, self._committed.set)
