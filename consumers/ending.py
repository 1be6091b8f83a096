"""End tasks and connections that talk to the broker, also to one that does not answer (floor 3)."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nats.aio.client import Client

log = logging.getLogger(__name__)

CANCEL_AGAIN_AFTER_S = 0.2
CLOSE_WITHIN_S = 2.0
# A connection to a broker that works closes within milliseconds; a frozen one keeps its buffers for ever.


async def end(*tasks: asyncio.Task[None]) -> None:
    """Cancel the tasks until each has ended; what they raised is left to whoever awaits them.

    Once is not enough: nats-py takes a cancellation that comes while it writes for a reason to go on.
    """
    running = {task for task in tasks if not task.done()}
    while running:
        for task in running:
            task.cancel()
        _, running = await asyncio.wait(running, timeout=CANCEL_AGAIN_AFTER_S)


async def close(nc: Client) -> None:
    """Close a connection, and give it up where its broker does not take what is still to be sent."""
    closing = asyncio.create_task(nc.close())
    _, unfinished = await asyncio.wait({closing}, timeout=CLOSE_WITHIN_S)
    if unfinished:
        log.warning("a connection was given up: the broker took nothing for %.0f s", CLOSE_WITHIN_S)
        await end(closing)
