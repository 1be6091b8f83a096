"""Law: crash and repeat equals once. The projecting process is killed at every step, on a real server."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from nats.aio.client import Client

from consumers.rebuild import verify
from events.ids import NodeId
from events.stream_admin import ensure_streams
from projections.damaged import wal_of
from projections.heartbeats import Heartbeat
from projections.projection import Projection
from projections.state import NodeState
from tests.support.brokers import AnyBroker
from tests.support.contents import Rows, contents
from tests.support.crashing import POINTS, SMALL_BATCHES
from tests.support.logs import busy_day
from tests.support.loops import on_a_loop
from tests.support.processes import ROOT, environment
from tests.support.projecting import projecting
from tests.support.publishing import beats, connected, head, nodes, publish_all
from tests.support.reading import reading_client

FLEET = nodes(40)
FILE = "tables.duckdb"
Told = dict[NodeId, tuple[NodeState | None, Heartbeat | None]]


async def fill(nc: Client, *, first_beat: int, boot_id: str = "b1") -> None:
    await publish_all(nc, "FLEET", busy_day(FLEET, boot_id=boot_id))
    await publish_all(nc, "BEATS", beats(FLEET, rounds=10, first_seq=first_beat, boot_id=boot_id))


def crash(url: str, file: Path, *, point: str, nth: int) -> None:
    """Fold the log in a process that dies at this step."""
    ended = subprocess.run(
        [sys.executable, "-m", "tests.support.crashing", url, str(file), point, str(nth)],
        cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert ended.returncode == -signal.SIGKILL, ended.stderr


async def read_to_the_end(nc: Client, url: str, file: Path) -> dict[str, Rows]:
    """Fold what is missing in a file and return all that it holds then."""
    async with projecting(url, file, plans=SMALL_BATCHES) as (tables, projector):
        assert await projector.wait_for("FLEET", await head(nc, "FLEET"), timeout_s=20)
        assert await projector.wait_for("BEATS", await head(nc, "BEATS"), timeout_s=20)
        assert tables.recovered is None
        told = {node_id: (tables.node(node_id), tables.heartbeat(node_id)) for node_id in FLEET}
        held = contents(tables)
    assert_stored(file, told)
    return held


def assert_stored(file: Path, told: Told) -> None:
    """Compare what was answered from memory with what the file gives to one that opens it anew."""
    again = Projection.open(file)
    assert told == {node_id: (again.node(node_id), again.heartbeat(node_id)) for node_id in FLEET}
    again.close()


@on_a_loop
async def test_what_a_killed_process_left_can_be_verified(broker: AnyBroker, tmp_path: Path) -> None:
    async with connected(broker.url) as nc:
        await ensure_streams(nc)
        await fill(nc, first_beat=2)
        crash(broker.url, tmp_path / FILE, point="after commit", nth=6)
        reader = await reading_client(broker.url)

        found = await verify(tmp_path / FILE, reader, on_progress=lambda _progress: None)
        await reader.close()

    assert wal_of(tmp_path / FILE).exists()
    assert found.is_equal
    assert max(view.left_rows for view in found.views) > 0


@pytest.mark.parametrize("point", POINTS)
def test_a_process_killed_at_any_step_leaves_what_one_run_would(
    broker: AnyBroker, tmp_path: Path, point: str
) -> None:
    @on_a_loop
    async def run() -> None:
        async with connected(broker.url) as nc:
            await ensure_streams(nc)
            await fill(nc, first_beat=2)

            crash(broker.url, tmp_path / FILE, point=point, nth=1)
            crash(broker.url, tmp_path / FILE, point=point, nth=4)
            resumed = await read_to_the_end(nc, broker.url, tmp_path / FILE)
            once = await read_to_the_end(nc, broker.url, tmp_path / "once.duckdb")

        assert resumed == once

    run()
