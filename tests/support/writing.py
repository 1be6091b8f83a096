"""A writer at work in the background."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from nats.aio.client import Client

from consumers.ending import end
from tests.support.publishing import connected


@asynccontextmanager
async def writing(url: str, *, subject: str = "t.w") -> AsyncIterator[Callable[[], int]]:
    """Publish all the time, each record acknowledged and with an id of its own; give how many are stored."""
    stored = 0

    async def write(nc: Client) -> None:
        nonlocal stored
        js = nc.jetstream(timeout=0.5)
        while True:
            number = stored + 1
            try:
                event_id = {"Nats-Msg-Id": f"{subject} {number}"}
                await js.publish(subject, b"record %d" % number, headers=event_id)
            except Exception:  # noqa: BLE001 (whatever went wrong, the same record is sent again)
                await asyncio.sleep(0.02)
            else:
                stored = number

    async with connected(url) as nc:
        task = asyncio.create_task(write(nc))
        try:
            yield lambda: stored
        finally:
            await end(task)
