"""End tasks that talk to the broker (floor 3)."""

from __future__ import annotations

import asyncio

CANCEL_AGAIN_AFTER_S = 0.2


async def end(*tasks: asyncio.Task[None]) -> None:
    """Cancel the tasks until each has ended; what they raised is left to whoever awaits them.

    Once is not enough: nats-py takes a cancellation that comes while it writes for a reason to go on.
    """
    running = {task for task in tasks if not task.done()}
    while running:
        for task in running:
            task.cancel()
        _, running = await asyncio.wait(running, timeout=CANCEL_AGAIN_AFTER_S)
