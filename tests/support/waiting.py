"""Waiting for a condition, never for a time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

LOOK_EVERY_S = 0.01


async def until(condition: Callable[[], bool], *, within_s: float = 20.0, what: str = "") -> None:
    """Return once the condition holds, while the loop goes on; fail where it does not in time."""
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, f"not within {within_s} s: {what or condition}"
        await asyncio.sleep(LOOK_EVERY_S)


def wait_until(condition: Callable[[], bool], *, within_s: float = 20.0, what: str = "") -> None:
    """Return once the condition holds; fail where it does not in time."""
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, f"not within {within_s} s: {what or condition}"
        time.sleep(LOOK_EVERY_S)
