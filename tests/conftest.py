"""Fixtures for every folder. A real broker and no stand-in: `NATS_URL`, else the binary, else a container."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.support.broker import Broker, binary
from tests.support.brokers import AnyBroker, ContainerBroker, OutsideBroker

# How long an example takes says how busy the machine is, not whether it is right.
settings.register_profile("fleetfold", deadline=None)
settings.load_profile("fleetfold")


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """What runs a test that is marked `anyio`."""
    return "asyncio"


@pytest.fixture(scope="session")
def outside_broker() -> OutsideBroker | None:
    """The broker that `NATS_URL` names, found empty at the start of the session."""
    url = os.environ.get("NATS_URL", "")
    return OutsideBroker(url).start() if url else None


@pytest.fixture
def broker(outside_broker: OutsideBroker | None, tmp_path: Path) -> Iterator[AnyBroker]:
    """A running broker without streams."""
    if outside_broker is None:
        yield from _broker_of_our_own(tmp_path)
    else:
        yield outside_broker
        outside_broker.clear()


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[AnyBroker]:
    """A running broker without streams that the test may kill, stop, freeze and start again."""
    yield from _broker_of_our_own(tmp_path)


def _broker_of_our_own(folder: Path) -> Iterator[AnyBroker]:
    if binary() is not None:
        process = Broker(folder / "broker").start()
        try:
            yield process
        finally:
            process.kill()
    else:
        container = ContainerBroker().start()
        try:
            yield container
        finally:
            container.remove()
