"""Calls into a loop that another thread may close at any moment."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import pytest
import uvloop

from events.loops import call_soon

LOOPS = [asyncio.new_event_loop, uvloop.new_event_loop]


class _ClosedOnceAsked:
    """A loop that is open when it is asked, and closed by its own thread before it is called."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def is_closed(self) -> bool:
        was_closed = self._loop.is_closed()
        self._loop.close()
        return was_closed

    def call_soon_threadsafe(self, callback: Callable[..., object], *arguments: object) -> object:
        self._loop.close()
        return self._loop.call_soon_threadsafe(callback, *arguments)


@pytest.mark.parametrize("new_loop", LOOPS)
def test_a_call_from_another_thread_reaches_an_open_loop(
    new_loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    async def called() -> str:
        loop, heard = asyncio.get_running_loop(), asyncio.Queue[str]()
        threading.Thread(target=call_soon, args=(loop, heard.put_nowait, "here")).start()
        return await heard.get()

    with asyncio.Runner(loop_factory=new_loop) as runner:
        assert runner.run(called()) == "here"


@pytest.mark.parametrize("new_loop", LOOPS)
def test_a_loop_that_closes_just_before_the_call_is_no_error(
    new_loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    loop = new_loop()

    assert not call_soon(_ClosedOnceAsked(loop), lambda: None)  # type: ignore[arg-type]
    assert not call_soon(loop, lambda: None)
