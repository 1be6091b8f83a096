"""An announcer that is killed at any step leaves nothing out and says nothing twice, on a real server."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from events.ids import NodeId
from events.stream_admin import ensure_streams
from tests.support.announcing import all_at_work, due, messages
from tests.support.brokers import AnyBroker
from tests.support.dying_announcer import POINTS
from tests.support.logs import busy_day
from tests.support.loops import on_a_loop
from tests.support.processes import ROOT, environment
from tests.support.publishing import connected, js_api, nodes, publish_all

FLEET = nodes(40)
OF_ANOTHER_LOG = tuple(point for point in POINTS if "another log" in point)


def crash(url: str, file: Path, *, point: str, nth: int) -> None:
    """Announce the log in a process that dies at this step."""
    ended = subprocess.run(
        [sys.executable, "-m", "tests.support.dying_announcer", url, str(file), point, str(nth)],
        cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert ended.returncode == -signal.SIGKILL, ended.stderr


@pytest.mark.parametrize("point", [point for point in POINTS if point not in OF_ANOTHER_LOG])
def test_an_announcer_killed_at_any_step_leaves_what_one_run_would(
    broker: AnyBroker, tmp_path: Path, point: str
) -> None:
    @on_a_loop
    async def run() -> None:
        async with connected(broker.url) as nc:
            await ensure_streams(nc)
            await publish_all(nc, "FLEET", busy_day(FLEET))
        crash(broker.url, tmp_path / "tables.duckdb", point=point, nth=1)
        if "place" not in point:
            crash(broker.url, tmp_path / "tables.duckdb", point=point, nth=2)
        async with all_at_work(broker.url, tmp_path) as at:
            told = await at.all_told()

            assert [event["id"] for event in told] == due(at.projection)

    run()


@pytest.mark.parametrize("point", OF_ANOTHER_LOG)
def test_another_log_is_announced_once_whoever_is_killed(
    broker: AnyBroker, tmp_path: Path, point: str
) -> None:
    @on_a_loop
    async def run() -> None:
        async with all_at_work(broker.url, tmp_path / "first") as at:
            await publish_all(at.nc, "FLEET", busy_day(FLEET[:8]))
            first = await at.all_told()
            config = (await js_api(at.nc, "STREAM.INFO.FLEET"))["config"]
        async with connected(broker.url) as nc:
            await js_api(nc, "STREAM.DELETE.FLEET")
            await js_api(nc, "STREAM.CREATE.FLEET", config)
            await publish_all(nc, "FLEET", busy_day([NodeId("other")]))
            crash(broker.url, tmp_path / "tables.duckdb", point=point, nth=1)
        async with all_at_work(broker.url, tmp_path) as at:
            await at.all_told()
            told = await messages(at.nc)

            kinds = [event["type"] for event in told]
            assert kinds.count("fleetfold.log.epoch.v1") == 1
            assert kinds.index("fleetfold.log.epoch.v1") == len(first)
            assert [event["id"] for event in told[len(first) + 1 :]] == due(at.projection)

    run()
