"""The embedded broker: started, restarted, refused, and never an orphan."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import nats
import pytest

from events.errors import BrokerUnavailableError, RefusedError
from fleetfold.broker import EmbeddedBroker
from tests.support.processes import is_running
from tests.support.waiting import until

pytestmark = pytest.mark.anyio


async def _store_one(url: str) -> None:
    nc = await nats.connect(url)
    await nc.jetstream().add_stream(name="S", subjects=["s"])
    await nc.jetstream().publish("s", b"1")
    await nc.close()


async def _stored(url: str) -> int:
    nc = await nats.connect(url)
    info = await nc.jetstream().stream_info("S")
    await nc.close()
    return int(info.state.messages)


async def test_what_was_stored_is_there_after_a_stop_and_a_start(tmp_path: Path) -> None:
    broker = EmbeddedBroker(tmp_path, port=None)
    broker.launch()
    await _store_one(await broker.ready())
    await broker.stop()
    await broker.stop()
    assert broker.pid is None

    again = EmbeddedBroker(tmp_path, port=None)
    again.launch()
    assert await _stored(await again.ready()) == 1
    await again.stop()


async def test_a_broker_that_dies_is_started_again_on_its_port(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    broker = EmbeddedBroker(tmp_path, port=None)
    broker.launch()
    url = await broker.ready()
    await _store_one(url)
    watching = asyncio.create_task(broker.watch())
    first = broker.pid
    assert first is not None

    os.kill(first, signal.SIGKILL)

    await until(lambda: broker.restarts > 0 and broker.pid not in {None, first})
    assert await _stored(await broker.ready()) == 1
    assert broker.url == url
    assert "the broker ended by itself (exit code -9" in caplog.text
    await broker.stop()
    await watching


async def test_a_taken_port_is_refused_and_the_way_to_use_its_broker_is_said(tmp_path: Path) -> None:
    holder = EmbeddedBroker(tmp_path / "holder", port=None)
    holder.launch()
    url = await holder.ready()
    port = int(url.rpartition(":")[2])

    with pytest.raises(RefusedError, match=f"port {port} of the broker is taken.*add --nats {url}"):
        EmbeddedBroker(tmp_path / "late", port=port).launch()
    await holder.stop()


def test_a_port_taken_by_something_else_is_refused_without_that_advice(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as holder:
        port = holder.getsockname()[1]

        with pytest.raises(RefusedError, match=f"port {port} of the broker is taken") as refused:
            EmbeddedBroker(tmp_path, port=port).launch()

    assert "--nats" not in str(refused.value)


async def test_a_broker_that_cannot_start_says_why(tmp_path: Path) -> None:
    (tmp_path / "store").write_text("a file where the store's folder should be")
    broker = EmbeddedBroker(tmp_path, port=None)
    broker.launch()

    with pytest.raises(BrokerUnavailableError, match="storage directory is not a directory"):
        await broker.ready()


def test_the_broker_ends_with_its_parent_even_when_that_is_killed(tmp_path: Path) -> None:
    program = (
        "import asyncio, pathlib, sys\n"
        "from fleetfold.broker import EmbeddedBroker\n"
        "broker = EmbeddedBroker(pathlib.Path(sys.argv[1]), port=None)\n"
        "broker.launch()\n"
        "async def main():\n"
        "    await broker.ready()\n"
        "    print(broker.pid, flush=True)\n"
        "    await asyncio.Event().wait()\n"
        "asyncio.run(main())\n"
    )
    folder = tmp_path / "broker"
    with subprocess.Popen(
        [sys.executable, "-c", program, str(folder)], stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert is_running(pid)

        parent.kill()

    again = EmbeddedBroker(folder, port=None)
    again.launch()  # waits for the old one, which closes its store in order
    assert not is_running(pid)
    asyncio.run(again.ready())
    asyncio.run(again.stop())
