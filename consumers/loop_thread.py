"""A thread with an event loop of its own, on which one coroutine runs until it is told to stop (floor 3)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import uvloop

from consumers.ending import end
from events.loops import call_soon


class LoopThread:
    """Runs `work` between `start` and `stop`. All but these two may be called from any thread.

    `ended` is awaited on the loop once the work has ended, however it did. `failed` is called, as the
    outermost frame of the thread, with what the work raised, which is always a mistake of ours.
    """

    def __init__(
        self,
        name: str,
        work: Callable[[], Coroutine[Any, Any, None]],
        *,
        ended: Callable[[], Awaitable[None]],
        failed: Callable[[Exception], None],
    ) -> None:
        self._work, self._ended, self._failed = work, ended, failed
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._stopping = threading.Event()

    def start(self) -> None:
        """Begin; returns at once."""
        self._thread.start()

    async def stop(self) -> None:
        """Cancel the work and wait for its end; twice is fine."""
        self._stopping.set()
        self.call_soon_set(self._stop)
        if self._thread.ident is not None:
            await asyncio.to_thread(self._thread.join)

    def is_alive(self) -> bool:
        """Tell whether it runs: not before `start`, after `stop`, or after a mistake of ours."""
        return self._thread.is_alive()

    def call_soon_set(self, event: asyncio.Event | None) -> None:
        """Set an event of the loop, from any thread; nothing happens before there is one."""
        loop = self._loop
        if loop is not None and event is not None:
            call_soon(loop, event.set)

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                runner.run(self._until_stopped())
        except Exception as err:  # noqa: BLE001  (the outermost frame of the thread: told, not swallowed)
            self._failed(err)

    async def _until_stopped(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        if self._stopping.is_set():
            return
        working = asyncio.create_task(self._work())
        stopping = asyncio.create_task(_until(self._stop))
        try:
            await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if working.done():
                working.result()
        finally:
            await end(working, stopping)
            await self._ended()


async def _until(event: asyncio.Event) -> None:
    await event.wait()
