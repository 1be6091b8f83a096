"""Calls into an event loop from another thread (floor 1, edge).

A loop may be closed at any moment by the thread that runs it, so asking first whether it is closed says
nothing about the call after it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable


def call_soon(loop: asyncio.AbstractEventLoop, callback: Callable[..., object], *arguments: object) -> bool:
    """Have a callback called by the loop; say False where the loop is closed and never calls anything again.

    May be called from any thread.
    """
    try:
        loop.call_soon_threadsafe(callback, *arguments)
    except RuntimeError:
        # What asyncio and uvloop raise of a closed loop; of an open one it would be a mistake of ours.
        if not loop.is_closed():
            raise
        return False
    return True
