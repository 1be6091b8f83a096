"""The newest changes in memory, once for all who follow them live (floor 3).

Whoever follows has a position and no queue: it takes what lies after its position in here, and reads from the
tables where that begins later. So a slow reader costs no memory, and one that left costs nothing. The tail
itself only grows while somebody follows, by one question to the tables after a commit that announces.
"""

from __future__ import annotations

import asyncio
import contextlib
from bisect import bisect_right
from typing import TYPE_CHECKING

from api.feed_frames import Frame, in_order
from events.change_cursor import ChangeCursor
from events.errors import StoreError
from events.loops import call_soon
from events.streams import FLEET_NAME
from projections.change_queries import changes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from api.questions import Questions
    from projections.applied import Applied
    from projections.projection import Projection

MOST_FRAMES = 4_096
MOST_BYTES = 8 << 20
# A few seconds of a busy hour. Who is slower than that reads pages of the tables, which costs it more.
PAGE = 1_000
AGAIN_S = 0.25
# After tables that were closed under a question.
NOWHERE = ChangeCursor("", 0)


class Tail:
    """What was announced last, from after `begin` to `end`. All of it is for the API's event loop alone."""

    def __init__(self, projection: Projection, questions: Questions) -> None:
        self._projection, self._questions = projection, questions
        self.grown = asyncio.Event()
        """Set once there is more; whoever waits takes it first, looks then, and waits after that."""
        self.begin = self.end = NOWHERE
        self.is_closed = False
        self.readers = 0
        self._frames: list[Frame] = []
        self._bytes = 0
        self._number: int | None = None
        self._openings = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._committed = asyncio.Event()
        self._following: asyncio.Task[None] | None = None

    @contextlib.contextmanager
    def joined(self) -> Iterator[None]:
        """Follow the projection for as long as anybody is in such a block."""
        self.readers += 1
        try:
            if self._following is None:
                self._loop = asyncio.get_running_loop()
                self._following = asyncio.create_task(self._follow(), name="tail of the changes")
            yield
        finally:
            self.readers -= 1
            if not self.readers and self._following is not None:
                self._following.cancel()
                self._following = None
                self._forget(NOWHERE)

    def since(self, position: ChangeCursor) -> list[Frame] | None:
        """Return what was announced after a position; None where that is not, or not all, in here."""
        now = self._projection.cursors().get(FLEET_NAME)
        if now is None or not now.epoch == position.epoch == self.begin.epoch:
            return None
        if position < self.begin or position.seq > now.seq:
            return None
        return self._frames[bisect_right(self._frames, position, key=_cursor) :]

    def close(self) -> None:
        """Send home all who follow. Closing twice is fine."""
        self.is_closed = True
        self._wake()

    async def _follow(self) -> None:
        unsubscribe = self._projection.subscribe(self._on_commit)
        try:
            while True:
                self._committed.clear()
                try:
                    is_all = await self._read()
                except StoreError:
                    await asyncio.sleep(AGAIN_S)
                    continue
                if is_all:
                    await self._committed.wait()
        finally:
            unsubscribe()

    async def _read(self) -> bool:
        """Take over what was committed; say whether that is all."""
        openings, now = self._projection.openings, self._projection.cursors().get(FLEET_NAME)
        if now is None or now.epoch != self.end.epoch or openings != self._openings:
            self._openings = openings
            self._forget(NOWHERE if now is None else ChangeCursor(now.epoch, now.seq))
            return True
        end, number = self.end, self._number
        page = self._projection.latest.page(after=end, number=number)
        if page is None:
            page = await self._questions.ask(
                lambda cursor: changes(cursor, after=end, number=number, limit=PAGE)
            )
        if (
            page.reached.epoch != end.epoch
            or page.reached.seq < end.seq
            or openings != self._projection.openings
        ):
            self._openings = 0
            return False
        frames = in_order(end.epoch, page.changes, page.holes, after=end)
        self._frames += frames
        self._bytes += sum(len(frame.body) for frame in frames)
        self.end, self._number = page.after, page.number
        self._trim()
        if frames:
            self._wake()
        return page.is_last

    def _trim(self) -> None:
        count = 0
        while len(self._frames) - count > MOST_FRAMES or self._bytes > MOST_BYTES:
            self._bytes -= len(self._frames[count].body)
            count += 1
        if count:
            self.begin = self._frames[count - 1].cursor
            del self._frames[:count]

    def _forget(self, begin: ChangeCursor) -> None:
        """Begin anew at a position; who follows from before it reads the tables."""
        self._frames, self._bytes, self._number = [], 0, None
        self.begin = self.end = begin
        self._wake()

    def _wake(self) -> None:
        grown, self.grown = self.grown, asyncio.Event()
        grown.set()

    def _on_commit(self, applied: Applied) -> None:
        """Called by the writer thread after each commit."""
        is_new = applied.announcements or applied.holes or applied.cursor.epoch != self.end.epoch
        if applied.stream == FLEET_NAME and is_new and self._loop is not None:
            call_soon(self._loop, self._committed.set)


def _cursor(frame: Frame) -> ChangeCursor:
    return frame.cursor
