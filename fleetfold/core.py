"""The core process wired together: broker connection, streams, projection, projector, API (floor 4).

Everything that is opened here is closed here, in the opposite order. The projector reads and folds on threads
of its own; this module and the API share the main thread's event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import uvicorn
from consumers.projector import Projector
from projections.projection import Projection

from api.app import create_app
from api.service import Replica
from events.stream_admin import ensure_streams
from fleetfold.connection import connect
from fleetfold.data_folder import DataFolder

if TYPE_CHECKING:
    import socket

    from nats.aio.client import Client

    from api.nats_routes import NatsRoutes
    from fleetfold.settings import Settings

log = logging.getLogger(__name__)

DRAIN_WITHIN_S = 3
# Requests that run may end; streams of changes, which never end, are cut then.
LOOK_EVERY_S = 0.02


class HttpServer(uvicorn.Server):
    """uvicorn without its hands on the process's signals: `fleetfold.up` decides the order of the end."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signals alone."""
        yield


class Core:
    """The core process between `start` and `stop`. `failed` is set when a part of it ended by itself."""

    def __init__(
        self,
        settings: Settings,
        *,
        nats_url: str,
        folder: DataFolder,
        listener: socket.socket,
        replica: Callable[[], Replica],
    ) -> None:
        self._settings, self._nats_url, self._folder = settings, nats_url, folder
        self._listener, self._replica = listener, replica
        self._nc: Client | None = None
        self._projection: Projection | None = None
        self._projector: Projector | None = None
        self._server: HttpServer | None = None
        self._serving: asyncio.Task[None] | None = None
        self._nats_routes: NatsRoutes | None = None

    async def start(self) -> None:
        """Open everything; the API answers from here on, though not yet with the newest state."""
        self._nc = await connect(self._nats_url, name="fleetfold")
        await ensure_streams(self._nc)
        self._projection = await asyncio.to_thread(Projection.open, self._folder.tables)
        self._projector = Projector(self._projection, self._nats_url)
        self._projector.start()
        self._server = HttpServer(_http_config(create_app(self.service)))
        self._serving = asyncio.create_task(self._server.serve(sockets=[self._listener]), name="http")
        while not self._server.started and not self._serving.done():
            await asyncio.sleep(LOOK_EVERY_S)
        if self._serving.done():
            self._serving.result()

    async def answer_on_nats(self) -> None:
        """Answer questions over NATS too. Called when the rest is ready, for its import takes half a second."""
        from api.nats_routes import start_nats_routes  # noqa: PLC0415

        self._nats_routes = await start_nats_routes(self.service)
