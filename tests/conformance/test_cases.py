"""Every conformance case, against a real broker and a store that is empty when the case begins.

Most cases are refused and leave nothing behind: the next one with the same settings goes on with their
server.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
import uvloop
from nats.aio.client import Client

from consumers.evaluator import Evaluator
from events.streams import ALL
from fleetfold.dialect_settings import dialect_rules
from fleetfold.settings import ENV_PREFIX, token_of
from fleetfold.settings_sources import load
from tests.support.broker import Broker, binary
from tests.support.brokers import AnyBroker, ContainerBroker, OutsideBroker
from tests.support.conformance import Case, HostAgents, Places, Run, cases, environment
from tests.support.publishing import connect
from tests.support.serving import Serving, serving
from tests.support.waiting import until

CASES = cases()


@pytest.fixture(scope="module")
def one_broker(
    outside_broker: OutsideBroker | None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[AnyBroker]:
    """A broker for all cases: each of them leaves it without records."""
    if outside_broker is not None:
        yield outside_broker
        return
    is_here = binary() is not None
    broker = Broker(tmp_path_factory.mktemp("broker")) if is_here else ContainerBroker()
    broker.start()
    try:
        yield broker
    finally:
        broker.kill()
        if isinstance(broker, ContainerBroker):
            broker.remove()


class Server:
    """The application over an empty store, kept from case to case for as long as that is so."""

    def __init__(self, broker: AnyBroker, loop: asyncio.Runner) -> None:
        self.loop = loop
        self._broker = broker
        self._closing: AsyncExitStack | None = None
        self._environment: dict[str, str] = {}
        self._served: Serving | None = None

    async def of(self, given: dict[str, str], folder: Path) -> Serving:
        """Return an application with these settings, which are those of the process now."""
        if self._served is None or given != self._environment or await self._holds_records():
            await self.close()
            self._closing = AsyncExitStack()
            self._served, self._environment = await self._opened(self._closing, folder), given
        return self._served

    async def close(self) -> None:
        """Close it and leave nothing in the broker; twice is fine."""
        if self._closing is not None:
            await self._closing.aclose()
            await self._without_streams()
        self._closing = self._served = None

    async def _opened(self, closing: AsyncExitStack, folder: Path) -> Serving:
        settings = load().settings
        watching: list[Evaluator] = []
        served = await closing.enter_async_context(
            serving(
                self._broker,
                folder,
                admin_token=token_of(settings),
                dialects=dialect_rules(settings),
                liveness_mode=lambda: watching[0].mode() if watching else "off",
            )
        )
        connected: list[Client] = []

        async def connect_evaluator() -> Client:
            connected.append(await connect(self._broker.url))
            return connected[-1]

        evaluator = Evaluator(served.projection, connect_evaluator, settings.liveness.rules())
        closing.push_async_callback(evaluator.stop)
        await evaluator.start()
        # A connection that is given up while it is made is left open.
        await until(lambda: bool(connected), what="the evaluator has a connection")
        watching.append(evaluator)
        return served

    async def _holds_records(self) -> bool:
        assert self._served is not None, "asked of an open one"
        js = self._served.nc.jetstream()
        infos = [await js.stream_info(spec.name) for spec in ALL]
        return any(info.state.last_seq for info in infos)

    async def _without_streams(self) -> None:
        nc = await connect(self._broker.url)
        try:
            await asyncio.gather(*(nc.request(f"$JS.API.STREAM.DELETE.{spec.name}", b"") for spec in ALL))
        finally:
            await nc.close()


@pytest.fixture(scope="module")
def server(one_broker: AnyBroker) -> Iterator[Server]:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as loop:
        made = Server(one_broker, loop)
        yield made
        loop.run(made.close())


@pytest.fixture(scope="module")
def places() -> Iterator[Places]:
    with HostAgents() as found:
        yield found


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_a_case_is_answered_as_its_document_says(
    case: Case, server: Server, places: Places, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in os.environ:
        if name.startswith(ENV_PREFIX):
            monkeypatch.delenv(name)
    given = environment(case)
    for name, text in given.items():
        monkeypatch.setenv(name, text)

    async def run() -> None:
        await Run(await server.of(given, tmp_path), places).run(case)

    server.loop.run(run())
