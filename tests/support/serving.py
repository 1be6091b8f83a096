"""The API over a real broker and a real projector, without a socket: what is written is folded."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from nats.aio.client import Client

from api.answers import Answers
from api.app import create_app
from api.service import Service
from consumers.projector import Projector
from events.stream_admin import ensure_streams
from events.streams import FLEET_NAME
from fleetfold.readings import readings
from projections.projection import Projection
from tests.support.asgi import Got, ask
from tests.support.brokers import AnyBroker
from tests.support.projecting import at_work
from tests.support.publishing import connected


@dataclass(frozen=True)
class Serving:
    """What runs: the application, what it answers from, and the connection that tests publish on."""

    app: FastAPI
    projection: Projection
    projector: Projector
    nc: Client

    @property
    def answers(self) -> Answers:
        """What the routes make their answers of."""
        answers: Answers = self.app.state.answers
        return answers

    async def ask(self, method: str, target: str, **more: Any) -> Got:  # noqa: ANN401
        """Ask for a request target, from the root; return the whole answer."""
        return await ask(self.app, target, method=method, **more)

    async def publish(self, subject: str, payload: bytes) -> int:
        """Publish one record and return its position, once it is folded."""
        acked = await self.nc.jetstream().publish(subject, payload)
        assert await self.projector.wait_for(acked.stream, acked.seq, timeout_s=20)
        return acked.seq

    async def fleet_seq(self) -> int:
        """Return the last position in FLEET, as the broker says it."""
        info = await self.nc.jetstream().stream_info(FLEET_NAME)
        return info.state.last_seq


@asynccontextmanager
async def serving(broker: AnyBroker, folder: Path, **service: Any) -> AsyncIterator[Serving]:  # noqa: ANN401
    """Serve for the length of a block; `service` has more members of `api.service.Service`."""
    projection = Projection.open(folder / "tables.duckdb")
    try:
        async with connected(broker.url) as nc:
            await ensure_streams(nc)
            async with at_work(broker.url, projection) as projector:
                given = {"version": "0.1.0", "nats_url": broker.url, "nc": nc, **service}
                made = Service(projection=projection, readings=lambda: readings(projector), **given)
                app = create_app(made)
                try:
                    yield Serving(app, projection, projector, nc)
                finally:
                    app.state.answers.close()
    finally:
        projection.close()
