"""One HTTP server on a socket that is bound already (floor 4), without its hands on the process's signals."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

import uvicorn

if TYPE_CHECKING:
    import socket

    from starlette.applications import Starlette

DRAIN_WITHIN_S = 3
# Requests that run may end; streams of changes, which never end by themselves, are cut then.
LOOK_EVERY_S = 0.01


class HttpServer(uvicorn.Server):
    """A server between `start` and `stop`; the process decides when it stops, not a signal."""

    def __init__(self, app: Starlette, listener: socket.socket) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http="httptools",
                ws="none",
                lifespan="on",
                log_config=None,
                access_log=False,
                server_header=False,
                timeout_graceful_shutdown=DRAIN_WITHIN_S,
            )
        )
        self._listener = listener
        self._serving: asyncio.Task[None] | None = None

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signals alone."""
        yield

    async def start(self) -> None:
        """Return once requests are answered; raise what kept them from being answered."""
        self._serving = asyncio.create_task(self.serve(sockets=[self._listener]), name="http")
        while not (self.started or self._serving.done()):  # noqa: ASYNC110 - it has no event for this
            await asyncio.sleep(LOOK_EVERY_S)
        if self._serving.done():
            self._serving.result()

    async def ended(self) -> None:
        """Return when it has ended, by `stop` or by itself; raise what ended it."""
        assert self._serving is not None, "ends after it started"
        await asyncio.shield(self._serving)

    async def stop(self) -> None:
        """Take no more requests, let those that run end, and return. Stopping twice is fine."""
        self.should_exit = True
        if self._serving is not None:
            await asyncio.wait([self._serving])
