"""The projector on a real server and a real file: everything folded once, whatever happens around it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from nats.aio.client import Client

from events.errors import StoreError
from events.ids import NodeId
from events.log import Batch
from events.stream_admin import ensure_streams
from projections.ahead import FoldedAhead
from projections.applied import Applied
from projections.projection import Projection
from tests.support.broker import Broker
from tests.support.brokers import AnyBroker
from tests.support.loops import on_a_loop
from tests.support.projecting import at_work, projecting, shown
from tests.support.publishing import beats, connected, js_api, nodes, publish_all, registrations

FLEET = nodes(50)
FILE = "t.duckdb"


@asynccontextmanager
async def fleet_log(url: str) -> AsyncIterator[Client]:
    """A connection to a broker with our streams."""
    async with connected(url) as nc:
        await ensure_streams(nc)
        yield nc


async def all_folded(nc: Client, projector: object) -> None:
    for stream in ("FLEET", "BEATS"):
        last = (await js_api(nc, f"STREAM.INFO.{stream}"))["state"]["last_seq"]
        assert await projector.wait_for(stream, last, timeout_s=20)  # type: ignore[attr-defined]


def node_ids(projection: Projection) -> list[str]:
    with projection.cursor() as cursor:
        return [row[0] for row in cursor.execute("SELECT node_id FROM fleet.nodes ORDER BY 1").fetchall()]


@on_a_loop
async def test_what_is_published_is_folded_and_the_status_says_how_far(
    broker: AnyBroker, tmp_path: Path
) -> None:
    async with fleet_log(broker.url) as nc, projecting(broker.url, tmp_path / FILE) as (tables, projector):
        await publish_all(nc, "FLEET", registrations(FLEET))
        await publish_all(nc, "BEATS", beats(FLEET, rounds=20))
        await all_folded(nc, projector)
        status = projector.status().streams

        assert node_ids(tables) == sorted(FLEET)
        assert tables.heartbeat(NodeId("n7")) is not None
        for stream, count in (("FLEET", 50), ("BEATS", 1_000)):
            now = status[stream]
            assert (now.state, now.seq, now.head) == ("reading", count, count)
            assert (now.pending, now.last_error) == (0, "")
            assert now.lag_ms == 0
            assert now.records == count
            assert now.epoch == tables.cursors()[stream].epoch != ""


@on_a_loop
async def test_a_projector_that_starts_again_reads_nothing_twice(broker: AnyBroker, tmp_path: Path) -> None:
    async with fleet_log(broker.url) as nc:
        await publish_all(nc, "FLEET", registrations(FLEET))
        async with projecting(broker.url, tmp_path / FILE) as (_, projector):
            await all_folded(nc, projector)

        async with projecting(broker.url, tmp_path / FILE) as (tables, projector):
            await publish_all(nc, "FLEET", registrations([NodeId("late")]))
            await all_folded(nc, projector)

            assert projector.status().streams["FLEET"].records == 1
            assert len(node_ids(tables)) == 51


@on_a_loop
async def test_waiting_for_a_position_that_never_comes_ends_in_time(
    broker: AnyBroker, tmp_path: Path
) -> None:
    async with fleet_log(broker.url), projecting(broker.url, tmp_path / FILE) as (_, projector):
        assert not await projector.wait_for("FLEET", 1, timeout_s=0.05)


@on_a_loop
async def test_another_fleet_log_begins_new_tables_and_the_old_ones_lie_aside(
    broker: AnyBroker, tmp_path: Path
) -> None:
    async with fleet_log(broker.url) as nc, projecting(broker.url, tmp_path / FILE) as (tables, projector):
        await publish_all(nc, "FLEET", registrations(FLEET))
        await all_folded(nc, projector)
        known = tables.cursors()["FLEET"].epoch

        await js_api(nc, "STREAM.DELETE.FLEET")
        await ensure_streams(nc)
        await publish_all(nc, "FLEET", registrations([NodeId("other")]))
        await shown(lambda: projector.status().epoch_changes == 1)
        await all_folded(nc, projector)

        assert node_ids(tables) == ["other"]
        assert tables.cursors()["FLEET"].epoch != known
        assert known in projector.status().rebuilt_because
        assert projector.status().rebuilds == 1
    assert [path.name for path in tmp_path.glob(f"{FILE}.damaged-*Z")] != []  # noqa: ASYNC240 (it is over)


@on_a_loop
async def test_another_log_of_heartbeats_is_read_from_its_beginning_into_the_same_tables(
    broker: AnyBroker, tmp_path: Path
) -> None:
    async with fleet_log(broker.url) as nc, projecting(broker.url, tmp_path / FILE) as (tables, projector):
        await publish_all(nc, "FLEET", registrations(FLEET))
        await publish_all(nc, "BEATS", beats(FLEET, rounds=3))
        await all_folded(nc, projector)

        await js_api(nc, "STREAM.DELETE.BEATS")
        await ensure_streams(nc)
        await publish_all(nc, "BEATS", beats(FLEET, first_seq=9))
        await shown(lambda: projector.status().epoch_changes == 1)
        await all_folded(nc, projector)

        assert len(node_ids(tables)) == 50
        assert tables.cursors()["BEATS"].seq == 50
        assert tables.heartbeat(NodeId("n7")).last_seq == 9
        assert projector.status().rebuilds == 0


@on_a_loop
async def test_a_projector_begins_before_its_broker_does(own_broker: Broker, tmp_path: Path) -> None:
    async with fleet_log(own_broker.url) as nc:
        await publish_all(nc, "FLEET", registrations(FLEET))
    own_broker.stop()
    async with projecting(own_broker.url, tmp_path / FILE) as (tables, projector):
        await shown(lambda: projector.status().streams["FLEET"].last_error != "")
        before = projector.status().streams["FLEET"]
        own_broker.start()

        assert await projector.wait_for("FLEET", 50, timeout_s=20)
        assert (before.state, before.head, before.lag_ms) == ("starting", None, None)
        assert len(node_ids(tables)) == 50


@on_a_loop
async def test_a_projector_stops_while_its_broker_is_frozen(own_broker: Broker, tmp_path: Path) -> None:
    async with projecting(own_broker.url, tmp_path / FILE) as (_, projector):
        async with fleet_log(own_broker.url) as nc:
            await publish_all(nc, "FLEET", registrations(FLEET))
            await all_folded(nc, projector)
        own_broker.freeze()
        await shown(lambda: projector.status().streams["FLEET"].state == "waiting")
    own_broker.thaw()

    assert projector.status().streams["FLEET"].seq == 50


@on_a_loop
async def test_while_the_broker_is_away_the_lag_grows_and_then_ends(
    own_broker: Broker, tmp_path: Path
) -> None:
    async with projecting(own_broker.url, tmp_path / FILE) as (_, projector):
        async with fleet_log(own_broker.url) as nc:
            await publish_all(nc, "FLEET", registrations(FLEET))
            await all_folded(nc, projector)
        own_broker.kill()
        await shown(lambda: projector.status().streams["FLEET"].state == "waiting")
        first = projector.status().streams["FLEET"].lag_ms or 0.0
        await shown(lambda: (projector.status().streams["FLEET"].lag_ms or 0.0) > first + 100)
        told = projector.status().streams["FLEET"].last_error
        own_broker.start()
        async with fleet_log(own_broker.url) as nc:
            await publish_all(nc, "FLEET", registrations([NodeId("late")]))
            await all_folded(nc, projector)
        await shown(lambda: projector.status().streams["FLEET"].lag_ms == 0)

        assert told != ""
        assert projector.status().streams["FLEET"].state == "reading"
        await shown(
            lambda: projector.status().streams["FLEET"].last_error == ""
        )  # told just after the commit


class Failing(Projection):
    """A projection that raises what it is given before it folds, or begins a stream again."""

    failures: list[Exception]

    def apply(self, batch: Batch) -> Applied:
        self._fail()
        return super().apply(batch)

    def reset_stream(self, stream: str, epoch: str) -> None:
        self._fail()
        super().reset_stream(stream, epoch)

    def _fail(self) -> None:
        if self.failures:
            raise self.failures.pop(0)


def failing(path: Path, *failures: Exception) -> Failing:
    tables = Failing.open(path)
    assert isinstance(tables, Failing)
    tables.failures = list(failures)
    return tables


@on_a_loop
async def test_a_store_that_cannot_write_for_a_while_loses_nothing(broker: AnyBroker, tmp_path: Path) -> None:
    path = tmp_path / FILE
    tables = failing(path, StoreError(str(path), why="no room"), StoreError(str(path), why="no room"))
    async with fleet_log(broker.url) as nc, at_work(broker.url, tables) as projector:
        await publish_all(nc, "FLEET", registrations(FLEET))
        await shown(lambda: projector.status().streams["FLEET"].state == "stopped")
        told = projector.status().streams["FLEET"].last_error
        await all_folded(nc, projector)

        assert "no room" in told
        await shown(
            lambda: projector.status().streams["FLEET"].last_error == ""
        )  # told just after the commit
        assert len(node_ids(tables)) == 50
        assert projector.status().rebuilds == 0
    tables.close()


@on_a_loop
async def test_a_broken_store_is_moved_aside_and_built_again(broker: AnyBroker, tmp_path: Path) -> None:
    path = tmp_path / FILE
    async with fleet_log(broker.url) as nc:
        await publish_all(nc, "FLEET", registrations(FLEET))
        async with projecting(broker.url, path) as (_, projector):
            await all_folded(nc, projector)
        tables = failing(path, StoreError(str(path), why="torn page", is_fatal=True))
        async with at_work(broker.url, tables) as projector:
            await publish_all(nc, "FLEET", registrations([NodeId("late")]))
            await shown(lambda: projector.status().rebuilds == 1)
            await all_folded(nc, projector)

            assert len(node_ids(tables)) == 51
            assert projector.status().rebuilt_because == "torn page"
        tables.close()


@on_a_loop
async def test_a_stream_that_began_again_after_a_failure_is_read_although_nothing_comes(
    broker: AnyBroker, tmp_path: Path
) -> None:
    path = tmp_path / FILE
    tables = failing(path)
    async with fleet_log(broker.url) as nc, at_work(broker.url, tables) as projector:
        await publish_all(nc, "BEATS", beats(FLEET))
        await all_folded(nc, projector)

        tables.failures.append(StoreError(str(path), why="no room"))
        await js_api(nc, "STREAM.DELETE.BEATS")
        await ensure_streams(nc)
        await shown(lambda: projector.status().streams["BEATS"].state == "stopped")
        await shown(lambda: projector.status().epoch_changes == 1)
        await shown(lambda: projector.status().streams["BEATS"].state == "reading")

        await shown(lambda: projector.status().streams["BEATS"].last_error == "")
    tables.close()


@on_a_loop
async def test_a_mistake_of_ours_stops_the_reading_and_says_so(broker: AnyBroker, tmp_path: Path) -> None:
    tables = failing(tmp_path / FILE, ValueError("a bug"))
    async with fleet_log(broker.url) as nc, at_work(broker.url, tables) as projector:
        await publish_all(nc, "FLEET", registrations(FLEET))
        await shown(lambda: projector.status().streams["FLEET"].state == "stopped")

        assert projector.status().streams["FLEET"].last_error == "internal error: ValueError"
        assert "FLEET" not in tables.cursors()
    tables.close()


@on_a_loop
async def test_a_position_can_be_waited_for_from_several_loops_at_once(
    broker: AnyBroker, tmp_path: Path
) -> None:
    async with fleet_log(broker.url) as nc, projecting(broker.url, tmp_path / FILE) as (_, projector):

        def elsewhere() -> bool:
            return asyncio.run(projector.wait_for("FLEET", 50, timeout_s=20))

        waiting = [asyncio.create_task(asyncio.to_thread(elsewhere)) for _ in range(3)]
        await publish_all(nc, "FLEET", registrations(FLEET))

        assert await asyncio.gather(*waiting) == [True, True, True]


@on_a_loop
async def test_what_comes_during_a_commit_is_one_batch(
    broker: AnyBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    began, may_go_on = threading.Event(), threading.Event()
    sizes: list[int] = []
    apply = Projection.apply

    def held_up(self: Projection, batch: Batch | FoldedAhead) -> Applied:
        began.set()
        assert may_go_on.wait(20)
        applied = apply(self, batch)
        sizes.append(applied.records)
        return applied

    monkeypatch.setattr(Projection, "apply", held_up)
    async with fleet_log(broker.url) as nc, projecting(broker.url, tmp_path / FILE) as (_, projector):
        await publish_all(nc, "FLEET", registrations(FLEET[:1]))
        await asyncio.to_thread(began.wait, 20)
        for node in FLEET[1:]:
            await publish_all(nc, "FLEET", registrations([node]))
        may_go_on.set()
        assert await projector.wait_for("FLEET", len(FLEET), timeout_s=20)

    assert sum(sizes) == len(FLEET)
    assert len(sizes) <= 3  # what was on its way when the commit ended may be the third
