"""Every conformance case, against a real broker and a store of its own that begins empty."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from nats.aio.client import Client

from api.dialects import mounted
from consumers.evaluator import Evaluator
from events.streams import ALL
from fleetfold.dialect_settings import dialect_rules
from fleetfold.settings import ENV_PREFIX, token_of
from fleetfold.settings_sources import load
from tests.support.broker import Broker, binary
from tests.support.brokers import AnyBroker, ContainerBroker, OutsideBroker
from tests.support.conformance import Case, HostAgents, Places, Run, cases, environment
from tests.support.loops import on_a_loop
from tests.support.publishing import connect
from tests.support.serving import serving
from tests.support.waiting import until

SERVED = [case for case in cases() if case["system"].replace("-", "_") in vars(mounted)]


@pytest.fixture(scope="module")
def one_broker(
    outside_broker: OutsideBroker | None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[AnyBroker]:
    """A broker for all cases: each of them leaves it without streams."""
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


@pytest.fixture(scope="module")
def places() -> Iterator[Places]:
    with HostAgents() as found:
        yield found


@pytest.mark.parametrize("case", SERVED, ids=[case["name"] for case in SERVED])
def test_a_case_is_answered_as_its_document_says(
    case: Case, one_broker: AnyBroker, places: Places, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in os.environ:
        if name.startswith(ENV_PREFIX):
            monkeypatch.delenv(name)
    for name, text in environment(case).items():
        monkeypatch.setenv(name, text)

    _run(case, one_broker, places, tmp_path)


@on_a_loop
async def _run(case: Case, broker: AnyBroker, places: Places, folder: Path) -> None:
    settings = load().settings
    given = {"admin_token": token_of(settings), "dialects": dialect_rules(settings)}
    watching: list[Evaluator] = []
    given["liveness_mode"] = lambda: watching[0].mode() if watching else "off"
    async with serving(broker, folder, **given) as served:
        connected: list[Client] = []

        async def connect_evaluator() -> Client:
            connected.append(await connect(broker.url))
            return connected[-1]

        evaluator = Evaluator(served.projection, connect_evaluator, settings.liveness.rules())
        await evaluator.start()
        watching.append(evaluator)
        try:
            # A connection that is given up while it is made is left open.
            await until(lambda: bool(connected), what="the evaluator has a connection")
            await Run(served, places).run(case)
        finally:
            await evaluator.stop()
    await _without_streams(broker)


async def _without_streams(broker: AnyBroker) -> None:
    nc = await connect(broker.url)
    try:
        await asyncio.gather(*(nc.request(f"$JS.API.STREAM.DELETE.{spec.name}", b"") for spec in ALL))
    finally:
        await nc.close()
