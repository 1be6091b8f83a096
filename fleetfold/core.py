"""The core process wired together: broker connection, streams, projection, projector, API (floor 4).

Everything that is opened here is closed here, in the opposite order. The projector reads and folds on threads
of its own; this module and the API share the main thread's event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import uvicorn
from consumers.projector import Projector

from api.app import create_app
from api.service import Replica, Service
from events.stream_admin import ensure_streams
from fleetfold.connection import connect
from fleetfold.readings import Readings
from fleetfold.version import version
from projections.projection import Projection

if TYPE_CHECKING:
    import socket

    from nats.aio.client import Client

    from api.nats_routes import NatsRoutes
    from fleetfold.settings import Settings

log = logging.getLogger(__name__)

DRAIN_WITHIN_S = 3
# Requests that run may end; streams of changes, which never end by themselves, are cut then.
LOOK_EVERY_S = 0.01


class HttpServer(uvicorn.Server):
    """uvicorn without its hands on the process's signals: `fleetfold.up` decides the order of the end."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signals alone."""
        yield


class Core:
    """The core process between `start` and `stop`."""

    def __init__(
        self,
        settings: Settings,
        *,
        nats_url: str,
        tables: Path,
        listener: socket.socket,
        replica: Callable[[], Replica],
    ) -> None:
        self._settings, self._nats_url, self._tables = settings, nats_url, tables
        self._listener, self._replica = listener, replica
        self._closing = contextlib.AsyncExitStack()
        self._service: Service | None = None
        self._readings: Readings | None = None
        self._serving: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Open everything; the API answers from here on, though not yet with the newest state."""
        nc = await connect(self._nats_url, name="fleetfold")
        self._closing.push_async_callback(nc.close)
        await ensure_streams(nc)
        projection = await asyncio.to_thread(Projection.open, self._tables)
        self._closing.callback(projection.close)
        if projection.recovered is not None:
            log.warning("the tables begin empty and are built again from the log: %s", projection.recovered)
        projector = Projector(projection, self._nats_url)
        await projector.start()
        self._closing.push_async_callback(projector.stop)
        self._readings = Readings(projection, projector)
        self._service = self._made_service(projection, nc)
        await self._serve(self._service)

    async def answer_on_nats(self) -> None:
        """Answer questions over NATS too. Called when the rest is ready: its import takes half a second."""
        assert self._service is not None, "answers come after the start"
        routes = await asyncio.to_thread(importlib.import_module, "api.nats_routes")
        started: NatsRoutes = await routes.start_nats_routes(self._service)
        self._closing.push_async_callback(started.stop)

    def is_ready(self) -> bool:
        """Tell whether all that the log held at the start is folded."""
        return self._readings is not None and self._readings.is_caught_up()

    def folded(self) -> tuple[int, int]:
        """Return how many records are folded, and how many the log held at the start."""
        return (0, 0) if self._readings is None else self._readings.folded()

    async def watch(self) -> None:
        """Return when a part has ended by itself, which none does in good order; raise what ended it."""
        assert self._serving is not None, "watched after the start"
        await self._serving

    async def stop(self) -> None:
        """Stop answering, fold what is being folded, close. Stopping twice is fine."""
        await self._closing.aclose()

    async def _serve(self, service: Service) -> None:
        server = HttpServer(
            uvicorn.Config(
                create_app(service),
                http="httptools",
                ws="none",
                lifespan="on",
                log_config=None,
                access_log=False,
                server_header=False,
                timeout_graceful_shutdown=DRAIN_WITHIN_S,
            )
        )
        self._serving = asyncio.create_task(server.serve(sockets=[self._listener]), name="http")
        while not (server.started or self._serving.done()):  # noqa: ASYNC110 - it has no event for this
            await asyncio.sleep(LOOK_EVERY_S)
        if self._serving.done():
            self._serving.result()

        async def drain(serving: asyncio.Task[None]) -> None:
            server.should_exit = True
            await asyncio.wait([serving])

        self._closing.push_async_callback(drain, self._serving)

    def _made_service(self, projection: Projection, nc: Client) -> Service:
        token = self._settings.admin_token
        assert self._readings is not None, "the service shows what is read"
        return Service(
            projection=projection,
            readings=self._readings.now,
            version=version(),
            nats_url=self._nats_url,
            nc=nc,
            admin_token=token.get_secret_value() if token is not None else "",
            replica=self._replica,
        )
