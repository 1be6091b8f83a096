"""The core process wired together: connection, streams, projection, what works on it, API (floor 4).

Everything that is opened here is closed here, in the opposite order. Projector, evaluator and announcer run
on threads of their own; this module and the API share the main thread's event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import logging
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from nats.aio.client import Client

from api.app import create_app
from api.dialects.fuse_secrets import SecretStore
from api.service import Replica, Service
from consumers.announcer import Announcer
from consumers.deliveries import new_client
from consumers.ending import close
from consumers.evaluator import Evaluator
from consumers.hold_ends import HoldEnds
from consumers.projector import Projector
from consumers.retention import Retention
from consumers.settler import Settler
from events.stream_admin import ensure_streams
from events.streams import CHANGES_NAME
from fleetfold.connection import connect
from fleetfold.dialect_settings import dialect_rules, secrets_key
from fleetfold.http_server import HttpServer
from fleetfold.interpreter import tune
from fleetfold.readings import announcing, folded, is_caught_up, readings
from fleetfold.settings import token_of
from fleetfold.version import version
from projections.projection import Projection

if TYPE_CHECKING:
    import socket

    from api.nats_routes import NatsRoutes
    from fleetfold.settings import Settings

log = logging.getLogger(__name__)

BROKER_WITHIN_S = 3.0
# One that was started with us answers in a tenth of it. While it is away, old answers are better than none.


class Core:
    """The core process between `start` and `stop`."""

    def __init__(
        self,
        settings: Settings,
        *,
        nats_url: str,
        tables: Path,
        secrets: Path,
        listener: socket.socket,
        replica: Callable[[], Replica],
    ) -> None:
        self._settings, self._nats_url = settings, nats_url
        self._tables, self._secrets = tables, secrets
        self._listener, self._replica = listener, replica
        self._closing = contextlib.AsyncExitStack()
        self._joining: asyncio.Task[None] | None = None
        self._service: Service | None = None
        self._projector: Projector | None = None
        self._server: HttpServer | None = None

    async def start(self) -> None:
        """Open everything; the API answers from here on, though not yet with the newest state."""
        nc = Client()
        self._joining = asyncio.create_task(self._join_log(nc), name="join the log")
        self._closing.push_async_callback(self._leave_log, nc)
        projection = await asyncio.to_thread(Projection.open, self._tables)
        self._closing.callback(projection.close)
        await asyncio.wait([self._joining], timeout=BROKER_WITHIN_S)
        if self._joining.done():
            self._joining.result()
        else:
            log.warning(
                "the broker does not answer yet: until it does, answers come from the tables as they are"
            )
        if projection.recovered is not None:
            log.warning(
                "the tables begin empty and are built again from the log: %s", projection.recovered.why
            )
        tune()
        self._projector = Projector(projection, self._connect_reader)
        evaluator = Evaluator(projection, self._connect_evaluator, self._settings.liveness.rules())
        self._closing.push_async_callback(self._projector.stop)
        await self._projector.start()
        self._closing.push_async_callback(evaluator.stop)
        await evaluator.start()
        announcer = Announcer(projection, self._connect_announcer)
        self._closing.push_async_callback(announcer.stop)
        await announcer.start()
        hold_ends = HoldEnds(projection, nc)
        self._closing.push_async_callback(hold_ends.stop)
        await hold_ends.start()
        settler = Settler(projection, nc, is_watching=lambda: evaluator.mode() == "watching")
        self._closing.push_async_callback(settler.stop)
        await settler.start()
        retire_after_s = self._settings.liveness.retire_after_s
        if retire_after_s is not None:
            retention = Retention(
                projection,
                nc,
                after=timedelta(seconds=retire_after_s),
                is_watching=lambda: evaluator.mode() == "watching",
            )
            self._closing.push_async_callback(retention.stop)
            await retention.start()
        secrets = SecretStore(self._secrets, key=secrets_key(self._settings))
        self._closing.callback(secrets.close)
        self._service = self._made_service(projection, nc, evaluator, announcer, secrets)
        app = create_app(self._service)
        self._server = HttpServer(app, self._listener)
        self._closing.push_async_callback(self._server.stop)
        self._closing.callback(app.state.feed.close)
        await self._server.start()

    async def answer_on_nats(self) -> None:
        """Answer questions over NATS too. Called when the rest is ready: its import takes half a second."""
        assert self._joining is not None, "answers come after the start"
        await asyncio.shield(self._joining)
        routes = await asyncio.to_thread(importlib.import_module, "api.nats_routes")
        started: NatsRoutes = await routes.start_nats_routes(self._service)
        self._closing.push_async_callback(started.stop)

    def is_ready(self) -> bool:
        """Tell whether all that the log held at the start is folded."""
        return self._projector is not None and is_caught_up(self._projector)

    def folded(self) -> tuple[int, int]:
        """Return how many records are folded, and how many the log held at the start."""
        return (0, 0) if self._projector is None else folded(self._projector)

    async def watch(self) -> None:
        """Return when a part has ended by itself, which none does in good order; raise what ended it."""
        assert self._server is not None, "watched after the start"
        assert self._joining is not None, "watched after the start"
        ending = asyncio.create_task(self._server.ended())
        try:
            await asyncio.wait([ending, self._joining], return_when=asyncio.FIRST_COMPLETED)
            if self._joining.done():
                self._joining.result()  # the streams turned out to be others than declared
            await ending
        finally:
            ending.cancel()

    async def stop(self) -> None:
        """Stop answering, fold what is being folded, close. Stopping twice is fine."""
        await self._closing.aclose()

    async def _join_log(self, nc: Client) -> None:
        """Connect, however long that takes, and see to it that the streams are there."""
        await connect(self._nats_url, name="fleetfold", nc=nc)
        await ensure_streams(nc)

    async def _leave_log(self, nc: Client) -> None:
        if self._joining is not None:
            self._joining.cancel()
            await asyncio.gather(self._joining, return_exceptions=True)
        await close(nc)

    async def _connect_reader(self) -> Client:
        return await connect(self._nats_url, name="fleetfold projector", nc=new_client())

    async def _connect_evaluator(self) -> Client:
        return await connect(self._nats_url, name="fleetfold evaluator")

    async def _connect_announcer(self) -> Client:
        return await connect(self._nats_url, name="fleetfold announcer")

    def _made_service(
        self,
        projection: Projection,
        nc: Client,
        evaluator: Evaluator,
        announcer: Announcer,
        secrets: SecretStore,
    ) -> Service:
        projector = self._projector
        assert projector is not None, "the service shows what is read"
        return Service(
            projection=projection,
            readings=lambda: {**readings(projector), CHANGES_NAME: announcing(announcer)},
            version=version(),
            nats_url=self._nats_url,
            nc=nc,
            admin_token=token_of(self._settings),
            liveness_mode=evaluator.mode,
            liveness_reason=lambda: evaluator.status().reason,
            liveness_counts=lambda: evaluator.status().counts,
            announcer_counts=lambda: announcer.status().counts,
            outlook=evaluator.outlook,
            replica=self._replica,
            dialects=dialect_rules(self._settings),
            secrets=secrets,
        )
