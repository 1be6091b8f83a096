"""What operators do at the command line, against a running service: tables, JSON, exit codes."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.processes import environment, fleetfold, running
from tests.support.publishing import connected
from tests.support.waiting import wait_until

NODES = ["cn121", "cn122", "cn123", "idle"]


@dataclass(frozen=True)
class Service:
    """A service that knows four nodes."""

    api: str
    broker: str
    folder: Path

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        return fleetfold(*arguments, "--server", self.api, cwd=self.folder)

    def node(self, node: str) -> Any:  # noqa: ANN401 (JSON)
        """What the service says of a node."""
        return json.loads(self.run("show", node, "--json").stdout)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("service")
    with running("up", "--ephemeral", "--no-sql", cwd=folder) as up:
        api = up.says(r"API +(http://\S+)/fleet/v1/nodes")[1]
        broker = up.says(r"broker +(nats://[^\s,]+)")[1]
        asyncio.run(_register(broker, *NODES))
        made = Service(api, broker, folder)
        wait_until(lambda: len(json.loads(made.run("nodes", "--json").stdout)) == len(NODES))
        yield made


async def _register(broker: str, *nodes: str) -> None:
    async with connected(broker) as nc:
        for node in nodes:
            said = {"boot_id": "b1", "seq": 1, "zone": "z1" if node != "idle" else "z2"}
            await nc.jetstream().publish(f"fleet.v1.agent.{node}.registered", json.dumps(said).encode())


def test_holds_are_placed_and_ended_by_name(service: Service) -> None:
    held = service.run("drain", "cn121", "cn122", "--reason", "firmware", "--actor", "ada", "--until", "2h")
    assert held.returncode == 0, held.stderr
    assert "pending → draining" in held.stdout
    assert "2 nodes: 2 done" in held.stdout
    assert [hold["actor"] for hold in service.node("cn121")["holds"]] == ["ada"]

    again = service.run("drain", "cn121", "--reason", "firmware", "--actor", "ada", "--json")
    assert (again.returncode, json.loads(again.stdout)["counts"]) == (0, {"done": 1})  # without an end now

    wrong = service.run("uncordon", "cn121")
    assert wrong.returncode == 1
    assert "use undrain" in wrong.stdout

    ended = service.run("undrain", "cn121", "cn122")
    assert ended.returncode == 0
    assert service.node("cn121")["holds"] == []


def test_a_selection_is_looked_at_before_it_is_acted_on_and_spares_what_others_hold(service: Service) -> None:
    for node, owner in (("cn121", "ops"), ("cn122", "ops"), ("cn123", "hw-team")):
        assert service.run("cordon", node, "--owner", owner, "-r", "segfaults").returncode == 0

    unsure = service.run("uncordon", "--selector", "zone=z1", "--owner", "ops")
    assert unsure.returncode == 2
    assert "--dry-run" in unsure.stderr

    would = service.run("uncordon", "--selector", "zone=z1", "--owner", "ops", "--dry-run")
    assert would.returncode == 1
    assert "would be skipped" in would.stdout
    assert len(service.node("cn121")["holds"]) == 1

    did = service.run("uncordon", "--selector", "zone=z1", "--owner", "ops", "--yes", "--json")
    assert did.returncode == 1
    assert json.loads(did.stdout)["counts"] == {"done": 2, "skipped": 1}
    assert [hold["owner"] for hold in service.node("cn123")["holds"]] == ["hw-team"]

    forced = service.run("uncordon", "cn123", "--force")
    assert (forced.returncode, service.node("cn123")["holds"]) == (0, [])


def test_maintenance_retirement_and_labels(service: Service) -> None:
    assert service.run("maintenance", "enter", "idle", "-r", "fans").returncode == 0
    assert service.node("idle")["state"] == "maintenance"
    assert service.run("maintenance", "leave", "idle").returncode == 0

    told = service.run("label", "idle", "tier=gold", "rack=7")
    assert told.returncode == 0
    assert "rack=7, tier=gold" in told.stdout
    taken = service.run("label", "idle", "rack-", "--json")
    assert json.loads(taken.stdout)["labels"] == {"tier": "gold"}
    assert service.run("label", "idle", "fleetfold/x=1").returncode == 1

    assert service.run("retire", "idle", "nobody", "-r", "sold").returncode == 1
    assert service.run("show", "idle").returncode == 1
    assert service.run("restore", "idle").returncode == 0
    assert service.node("idle")["labels"] == {"tier": "gold"}


def test_a_service_that_is_not_there_ends_with_three(tmp_path: Path) -> None:
    told = fleetfold("cordon", "n1", "--server", "http://127.0.0.1:9", cwd=tmp_path)

    assert told.returncode == 3
    assert "does not answer" in told.stderr


@contextmanager
def _at_a_terminal(service: Service, *command: str) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    near, far = pty.openpty()
    asking = subprocess.Popen(
        [sys.executable, "-m", "fleetfold", *command, "--server", service.api],
        stdin=far,
        stdout=far,
        stderr=far,
        cwd=service.folder,
        env=environment(),
    )
    os.close(far)
    try:
        yield asking, near
    finally:
        asking.kill()
        asking.wait()
        os.close(near)


def _read(near: int, until: bytes = b"") -> bytes:
    """Return what is shown up to a text, else to the end."""
    shown = b""
    with suppress(OSError):  # what a terminal says once nobody is at its other end
        while not (until and until in shown) and (told := os.read(near, 65_536)):
            shown += told
    return shown


def test_what_was_shown_is_what_is_done_once_it_is_confirmed(service: Service) -> None:
    command = ("cordon", "--selector", "zone=z1", "--owner", "shown", "--reason", "test")
    with _at_a_terminal(service, *command) as (asking, near):
        shown = _read(near, until=b"Do it?")
        asyncio.run(_register(service.broker, "cn129"))
        wait_until(lambda: service.run("show", "cn129").returncode == 0)
        os.write(near, b"y\n")
        shown += _read(near)
        assert asking.wait(timeout=30) == 0, shown

    owners = {node: {hold["owner"] for hold in service.node(node)["holds"]} for node in ("cn121", "cn129")}
    assert "shown" in owners["cn121"]
    assert owners["cn129"] == set()


def test_a_selection_that_fits_nothing_is_not_asked_about(service: Service) -> None:
    with _at_a_terminal(service, "cordon", "--selector", "zone=nowhere", "--reason", "test") as (
        asking,
        near,
    ):
        shown = _read(near)

        assert asking.wait(timeout=30) == 0
    assert b"0 nodes" in shown
    assert b"Do it?" not in shown
