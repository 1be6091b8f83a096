"""`verify` and `rebuild` at the command line: over a stopped service's tables, with its log."""

from __future__ import annotations

import asyncio
import json
import signal
from pathlib import Path

import duckdb
import pytest

from events.stream_admin import ensure_streams
from fleetfold.broker import EmbeddedBroker
from tests.support.brokers import AnyBroker
from tests.support.processes import fleetfold, running
from tests.support.publishing import connected, head, publish_all, registrations
from tests.support.publishing import nodes as node_ids
from tests.support.waiting import wait_until


def served(folder: Path, url: str) -> None:
    """Run a service over a log of 20 nodes until it has folded them, and stop it."""
    with running("serve", "--nats", url, "--http", "127.0.0.1:0", "--no-sql", cwd=folder) as service:
        api = service.says(r"API +(http://\S+)/fleet/v1/nodes")[1]
        simulated = fleetfold(
            "simulate", "--nodes", "20", "--interval", "0.5", "--duration", "1", "--nats", url, cwd=folder
        )
        assert simulated.returncode == 0, simulated.stderr
        wait_until(
            lambda: len(json.loads(fleetfold("nodes", "--json", "--server", api, cwd=folder).stdout)) == 20
        )
        while_it_runs = fleetfold("verify", "--nats", url, cwd=folder)
        assert while_it_runs.returncode == 1
        assert "is in use by process" in while_it_runs.stderr
        service.send(signal.SIGTERM)
        assert service.ends() == 0


def last_fact(url: str) -> int:
    """The head of the log: registrations, and what was said about nodes that beat."""

    async def ask() -> int:
        async with connected(url) as nc:
            return await head(nc, "FLEET")

    return asyncio.run(ask())


def test_tables_that_tell_what_the_log_says_are_verified_and_others_are_rebuilt(
    tmp_path: Path, broker: AnyBroker
) -> None:
    served(tmp_path, broker.url)

    good = fleetfold("verify", "--nats", broker.url, cwd=tmp_path)
    assert good.returncode == 0, good.stderr
    assert "the tables tell what the log says" in good.stdout

    tables = tmp_path / "fleetfold-data" / "fleetfold.duckdb"
    with duckdb.connect(str(tables)) as connection:
        connection.execute("UPDATE main.node_history SET state = 'retired' WHERE node_id = 'sim-07'")
    bad = fleetfold("verify", "--nats", broker.url, cwd=tmp_path)
    assert bad.returncode == 1
    assert "differs" in bad.stdout
    assert "sim-07" in bad.stdout

    rebuilt = fleetfold("rebuild", "--nats", broker.url, cwd=tmp_path)
    assert rebuilt.returncode == 0, rebuilt.stderr
    assert f"FLEET is folded up to record {last_fact(broker.url)}" in rebuilt.stdout
    assert "the old tables lie in" in rebuilt.stdout
    assert fleetfold("verify", "--nats", broker.url, cwd=tmp_path).returncode == 0


def test_the_log_of_the_embedded_broker_is_enough_to_build_the_tables(tmp_path: Path) -> None:
    data = tmp_path / "fleetfold-data"
    broker = EmbeddedBroker(data / "broker", port=None)
    broker.launch()

    async def publish() -> None:
        async with connected(await broker.ready()) as nc:
            await ensure_streams(nc)
            await publish_all(nc, "FLEET", registrations(node_ids(7)))
        await broker.stop()

    asyncio.run(publish())

    told = fleetfold("rebuild", "--json", cwd=tmp_path)

    assert told.returncode == 0, told.stderr
    assert json.loads(told.stdout)["cursors"]["FLEET"]["seq"] == 7
    assert fleetfold("verify", cwd=tmp_path).returncode == 0


def test_without_a_log_there_is_nothing_to_build_from(tmp_path: Path) -> None:
    (tmp_path / "fleetfold-data").mkdir()

    told = fleetfold("rebuild", cwd=tmp_path)

    assert told.returncode == 1
    assert "there is no log in" in told.stderr
    assert "--nats" in told.stderr


@pytest.mark.parametrize("command", ["rebuild", "verify"])
def test_a_folder_that_is_not_there_is_not_made(tmp_path: Path, command: str) -> None:
    told = fleetfold(command, "--data", str(tmp_path / "typo"), cwd=tmp_path)

    assert (told.returncode, "there is no folder" in told.stderr) == (1, True)
    assert not (tmp_path / "typo").exists()
