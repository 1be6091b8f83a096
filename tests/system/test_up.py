"""`fleetfold up` as a person runs it: ready soon, found again, ended in order, never an orphan."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import socket
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.support.brokers import AnyBroker
from tests.support.processes import Program, descendants, fleetfold, is_running, running
from tests.support.publishing import connected, stream_of
from tests.support.waiting import wait_until

READY = r"Fleetfold \S+ is up"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def get(url: str, *, token: str = "") -> dict[str, Any]:
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"} if token else {})
    with urllib.request.urlopen(request, timeout=10) as answer:
        found: dict[str, Any] = json.load(answer)
        return found


def api_of(program: Program) -> str:
    return program.says(r"API +(http://\S+)/fleet/v1/nodes")[1]


def broker_of(program: Program) -> str:
    return program.says(r"broker +(nats://[^\s,]+)")[1]


def nodes_of(api: str) -> dict[str, dict[str, Any]]:
    return {node["id"]: node for node in get(f"{api}/fleet/v1/nodes?limit=1000")["items"]}


def test_an_ephemeral_one_is_ready_and_gone_without_a_trace(tmp_path: Path) -> None:
    port = free_port()
    with running(
        "up", "--ephemeral", "--http", f"127.0.0.1:{port}", cwd=tmp_path, settings={"TMPDIR": str(tmp_path)}
    ) as up:
        up.says(READY)
        assert api_of(up) == f"http://127.0.0.1:{port}"
        assert get(f"http://127.0.0.1:{port}/fleet/v1/readyz")["ready"] is True
        assert nodes_of(api_of(up)) == {}
        assert "speaks for this machine" not in up.out
        below = descendants(up.pid)
        assert below

        up.send(signal.SIGINT)

        assert up.ends() == 0
        assert not any(is_running(pid) for pid in below)
    assert list(tmp_path.iterdir()) == []


def test_two_ephemeral_ones_run_side_by_side(tmp_path: Path) -> None:
    with running("up", "--ephemeral", cwd=tmp_path) as one, running("up", "--ephemeral", cwd=tmp_path) as two:
        assert api_of(one) != api_of(two)
        assert broker_of(one) != broker_of(two)


def test_this_machine_appears_and_the_next_start_knows_it(tmp_path: Path, broker: AnyBroker) -> None:
    arguments = ("up", "--nats", broker.url, "--http", "127.0.0.1:0", "--node", "desk/7", "--no-sql")
    settings = {"FLEETFOLD_LIVENESS__INTERVAL_S": "0.2", "FLEETFOLD_LIVENESS__GRACE_S": "1"}
    with running(*arguments, cwd=tmp_path, settings=settings) as up:
        api = api_of(up)
        wait_until(lambda: (nodes_of(api).get("desk/7") or {}).get("last_heartbeat_at") is not None)
        first = nodes_of(api)["desk/7"]
        assert {resource["resource"] for resource in first["resources"]} >= {"cpu", "memory", "disk"}

        up.send(signal.SIGTERM)
        assert up.ends() == 0

    with running(*arguments, "--no-agent", cwd=tmp_path, settings=settings) as again:
        api = api_of(again)
        seen = nodes_of(api)["desk/7"]
        assert seen["machine_id"] == first["machine_id"]
        facts = get(f"{api}/fleet/v1/status")["fleet_seq"]
        assert facts >= 2  # registered and leaving
        assert (tmp_path / "fleetfold-data" / "fleetfold.duckdb").exists()


def test_the_embedded_broker_keeps_its_store(tmp_path: Path) -> None:
    # On a port of its own: the default one may be taken where tests run.
    with running("up", "--ephemeral", cwd=tmp_path) as up:
        simulated = fleetfold(
            "simulate",
            "--nodes",
            "50",
            "--interval",
            "1",
            "--duration",
            "1",
            "--nats",
            broker_of(up),
            "--json",
            cwd=tmp_path,
        )
        assert simulated.returncode == 0, simulated.stderr
        assert json.loads(simulated.stdout)["registered"] == 50
        api = api_of(up)
        wait_until(lambda: len(nodes_of(api)) == 50)


def test_a_killed_one_leaves_no_orphan(tmp_path: Path) -> None:
    with running("up", "--ephemeral", cwd=tmp_path, settings={"TMPDIR": str(tmp_path)}) as up:
        up.says(READY)
        wait_until(lambda: len(descendants(up.pid)) >= 2, what="broker and replica run")
        below = descendants(up.pid)

        up.send(signal.SIGKILL)
        up.ends()

        wait_until(lambda: not any(is_running(pid) for pid in below), within_s=30)


def test_a_second_one_on_the_same_folder_is_refused(tmp_path: Path, broker: AnyBroker) -> None:
    arguments = ("up", "--nats", broker.url, "--http", "127.0.0.1:0", "--no-agent", "--no-sql")
    with running(*arguments, cwd=tmp_path) as up:
        up.says(READY)

        second = fleetfold(*arguments, cwd=tmp_path)

    assert second.returncode == 1
    assert f"fleetfold-data is in use by process {up.pid}" in second.stderr
    assert "--data" in second.stderr


def test_a_taken_port_is_refused_at_once(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as holder:
        port = holder.getsockname()[1]

        refused = fleetfold("up", "--ephemeral", "--http", f"127.0.0.1:{port}", cwd=tmp_path)

    assert refused.returncode == 1
    assert f"cannot listen on 127.0.0.1:{port}" in refused.stderr


def test_a_second_signal_ends_everything_at_once(tmp_path: Path, own_broker: AnyBroker) -> None:
    arguments = ("up", "--nats", own_broker.url, "--http", "127.0.0.1:0", "--no-sql")
    with running(*arguments, cwd=tmp_path) as up:
        up.says(READY)
        up.says("speaks through")
        own_broker.freeze()  # so that the goodbye takes its whole time

        up.send(signal.SIGINT)
        wait_until(lambda: _interrupted(up))
        own_broker.thaw()

    assert up.ends() in {130, 0}


def _interrupted(up: Program) -> bool:
    if not is_running(up.pid):
        return True
    up.send(signal.SIGINT)
    return False


def test_with_a_token_only_its_holder_is_answered(tmp_path: Path) -> None:
    with running(
        "up", "--ephemeral", "--no-sql", cwd=tmp_path, settings={"FLEETFOLD_ADMIN_TOKEN": "s3cret-token"}
    ) as up:
        api = api_of(up)
        with pytest.raises(urllib.error.HTTPError, match="401"):
            get(f"{api}/fleet/v1/nodes")
        assert get(f"{api}/fleet/v1/nodes", token="s3cret-token")["items"] == []
        refused = fleetfold("nodes", "--server", api, cwd=tmp_path)
        assert refused.returncode == 1
        assert "FLEETFOLD_ADMIN_TOKEN" in refused.stderr
        assert "s3cret" not in up.out + up.err


def test_wrong_settings_are_said_and_nothing_starts(tmp_path: Path) -> None:
    refused = fleetfold("up", "--http", "0.0.0.0:0", cwd=tmp_path)

    assert refused.returncode == 2
    assert "FLEETFOLD_ADMIN_TOKEN" in refused.stderr
    assert not re.search("Traceback", refused.stderr)
    assert list(tmp_path.iterdir()) == []


def test_serve_answers_from_its_tables_while_the_broker_is_away(
    tmp_path: Path, own_broker: AnyBroker
) -> None:
    arguments = ("serve", "--nats", own_broker.url, "--http", "127.0.0.1:0", "--no-sql")
    with running(*arguments, cwd=tmp_path) as first:
        api = api_of(first)
        fleetfold("simulate", "--nodes", "5", "--duration", "0", "--nats", own_broker.url, cwd=tmp_path)
        wait_until(lambda: len(nodes_of(api)) == 5)
        first.send(signal.SIGTERM)
        assert first.ends() == 0
    own_broker.kill()

    port = free_port()
    with running(*arguments[:4], f"127.0.0.1:{port}", "--no-sql", cwd=tmp_path) as again:
        again.says("answers come from the tables as they are")
        api = f"http://127.0.0.1:{port}"
        wait_until(lambda: _answers(port))
        assert len(nodes_of(api)) == 5
        with pytest.raises(urllib.error.HTTPError, match="503"):
            get(f"{api}/fleet/v1/readyz")

        own_broker.start()
        again.says(READY)
        assert get(f"{api}/fleet/v1/readyz")["ready"] is True

        own_broker.kill()
        again.send(signal.SIGTERM)
        assert again.ends() == 0


def _answers(port: int) -> bool:
    try:
        return "live" in get(f"http://127.0.0.1:{port}/fleet/v1/livez")
    except OSError:
        return False


def test_streams_of_another_shape_are_refused_by_name(tmp_path: Path, broker: AnyBroker) -> None:
    async def make() -> None:
        async with connected(broker.url) as nc:
            await stream_of(nc, "BEATS", ["fleet.v1.beat.*"], max_msgs=7)

    asyncio.run(make())

    refused = fleetfold("serve", "--nats", broker.url, "--http", "127.0.0.1:0", "--no-sql", cwd=tmp_path)

    assert refused.returncode == 1
    assert "stream BEATS differs from its declaration" in refused.stderr
    assert "Traceback" not in refused.stderr
