"""Scenarios of broker, delivery, replay and the change feed: on a real broker, over real sockets."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest

from consumers.rebuild import rebuild
from events.errors import StoreError
from events.facts import Allocated
from events.ids import NodeId, node_id
from events.log import Batch, Cursor
from events.streams import BEATS, FLEET, config
from events.subjects import beat_subject, fact_subject
from projections.projection import Projection
from tests.support.announcing import all_at_work, bodies
from tests.support.brokers import AnyBroker
from tests.support.fleet import EPOCH, Fleet, fleet
from tests.support.following import Follower, after
from tests.support.logs import busy_day
from tests.support.loops import on_a_loop
from tests.support.projecting import projecting, shown
from tests.support.publishing import (
    beats,
    connected,
    head,
    js_api,
    nodes,
    publish_all,
    registrations,
    stream_reached,
)
from tests.support.reading import reading_client
from tests.support.scenario.script import scenario
from tests.support.strategies import said
from tests.support.watching import fleet_log
from tests.support.web import serving

FILE = "tables.duckdb"


@pytest.mark.parametrize("order", [*permutations([1, 2, 3])])
def test_b56_reports_in_any_order_end_with_the_highest(tmp_path: Path, order: tuple[int, ...]) -> None:
    script = "\n".join(
        json.dumps({"type": "node.capacity", "node": "o-1", "inc": "1", "seq": seq, "cpu": 96 - 16 * seq})
        for seq in (*order, order[0])
    )
    with scenario(tmp_path, script) as world:
        node = world.state("o-1")
        late = sum(seq < max(order[:at]) for at, seq in enumerate(order) if at) + (order[0] != 3)

        assert node.resources["cpu"].total == 48
        assert (node.duplicates, node.reordered) == (int(order[0] == 3), late)


@on_a_loop
async def test_b58_a_consumer_that_is_gone_is_made_again_and_counted(
    broker: AnyBroker, tmp_path: Path
) -> None:
    async with fleet_log(broker.url) as nc, projecting(broker.url, tmp_path / FILE) as (_, projector):
        await publish_all(nc, "FLEET", registrations(nodes(20)))
        assert await projector.wait_for("FLEET", 20, timeout_s=20)
        before = projector.status().streams["FLEET"].generations
        for name in (await js_api(nc, "CONSUMER.NAMES.FLEET"))["consumers"]:
            await js_api(nc, f"CONSUMER.DELETE.FLEET.{name}")
        await publish_all(nc, "FLEET", registrations(nodes(1_000), seq=2))

        assert await projector.wait_for("FLEET", 1_020, timeout_s=20)
        assert projector.status().streams["FLEET"].generations > before


@on_a_loop
async def test_b59_reading_goes_on_after_the_broker_came_back(own_broker: AnyBroker, tmp_path: Path) -> None:
    async with projecting(own_broker.url, tmp_path / FILE) as (projection, projector):
        async with fleet_log(own_broker.url) as nc:
            await publish_all(nc, "FLEET", registrations(nodes(10)))
            assert await projector.wait_for("FLEET", 10, timeout_s=20)
        for round_ in range(3):
            own_broker.kill()
            own_broker.start()
            async with connected(own_broker.url) as nc:
                last = await publish_all(nc, "FLEET", registrations(nodes(10), seq=2 + round_))
            assert await projector.wait_for("FLEET", last, timeout_s=20)

        assert projection.cursors()["FLEET"].seq == 40
        assert projection.holes()["FLEET"] == 0


@on_a_loop
async def test_b60_large_records_in_a_burst_all_arrive(broker: AnyBroker, tmp_path: Path) -> None:
    async with (
        fleet_log(broker.url) as nc,
        projecting(broker.url, tmp_path / FILE) as (projection, projector),
    ):
        subject = beat_subject(NodeId("big"))
        for seq in range(1, 201):
            body = {"boot_id": "b1", "seq": seq, "filler": "x" * 900_000}
            await nc.publish(subject, json.dumps(body).encode())
        await nc.flush()
        await stream_reached(nc, "BEATS", 200)

        assert await projector.wait_for("BEATS", 200, timeout_s=60)
        assert projection.holes()["BEATS"] == 0
        assert projector.status().streams["BEATS"].generations <= 2


@on_a_loop
async def test_b62_a_stream_that_began_again_is_another_epoch_and_all_of_it_is_applied(
    broker: AnyBroker, tmp_path: Path
) -> None:
    async with (
        fleet_log(broker.url) as nc,
        projecting(broker.url, tmp_path / FILE) as (projection, projector),
    ):
        await publish_all(nc, "FLEET", registrations(nodes(100)))
        assert await projector.wait_for("FLEET", 100, timeout_s=20)
        old = projection.cursors()["FLEET"].epoch
        await js_api(nc, "STREAM.DELETE.FLEET")
        await js_api(nc, "STREAM.CREATE.FLEET", config(FLEET))
        await publish_all(nc, "FLEET", registrations([node_id(f"new{n}") for n in range(5)]))
        await shown(lambda: projection.cursors().get("FLEET") is not None and _epoch(projection) != old)
        await shown(lambda: projection.cursors()["FLEET"].seq == 5)

        assert sorted(projection.count_by_state().items()) == [("pending", 5)]
        assert projection.node(NodeId("n1")) is None


def _epoch(projection: Projection) -> str:
    return projection.cursors()["FLEET"].epoch


def test_b64_a_second_writer_of_the_same_tables_is_fenced_off(tmp_path: Path) -> None:
    with fleet(tmp_path) as first:
        first.registered("n1")
        with pytest.raises(StoreError):
            Projection.open(first.projection.path)
        first.registered("n2")

        assert first.projection.count_by_state() == {"pending": 2}


@on_a_loop
async def test_b67_numbers_proven_deleted_are_recorded_and_crossed(broker: AnyBroker, tmp_path: Path) -> None:
    async with fleet_log(broker.url) as nc:
        await publish_all(nc, "BEATS", beats(nodes(1), rounds=10))
        for seq in (4, 5, 6):
            await js_api(nc, "STREAM.MSG.DELETE.BEATS", {"seq": seq})
        async with projecting(broker.url, tmp_path / FILE) as (projection, projector):
            assert await projector.wait_for("BEATS", 10, timeout_s=20)
            with projection.cursor() as cursor:
                holes = cursor.execute("SELECT stream, low, high FROM main.hole").fetchall()
            beat = projection.heartbeat(NodeId("n0"))

        assert projection.cursors()["BEATS"].seq == 10
        assert holes == [("BEATS", 4, 6)]
        assert beat is not None
        assert (beat.last_seq, beat.missed) == (11, 3)
        assert config(FLEET)["deny_delete"] and config(FLEET)["deny_purge"] and not BEATS.deny_delete


@on_a_loop
async def test_b68_a_record_that_nobody_can_read_stops_no_other_node(
    broker: AnyBroker, tmp_path: Path
) -> None:
    async with (
        fleet_log(broker.url) as nc,
        projecting(broker.url, tmp_path / FILE) as (projection, projector),
    ):
        poison = [
            (fact_subject("agent", NodeId("p-1"), "registered"), body)
            for body in (b'{"resources": 7}', b"\xff\x00", b"[1,2]", b'{"boot_id": null, "seq": 1}')
        ]
        await publish_all(nc, "FLEET", poison)
        await publish_all(nc, "FLEET", registrations([NodeId("p-2")]))
        last = await publish_all(nc, "FLEET", registrations([NodeId("p-1")]))
        assert await projector.wait_for("FLEET", last, timeout_s=20)
        with projection.cursor() as cursor:
            kept = cursor.execute(
                "SELECT seq, node_id, reason, octet_length(body) FROM fleet.quarantine ORDER BY seq"
            ).fetchall()

        assert [(seq, node, size) for seq, node, _, size in kept] == [
            (seq, "p-1", len(body)) for seq, (_, body) in enumerate(poison, 1)
        ]
        assert all(reason for _, _, reason, _ in kept)
        assert projection.node(NodeId("p-2")) is not None
        assert projection.node(NodeId("p-1")) is not None


@on_a_loop
async def test_b70_a_rebuild_announces_nothing(broker: AnyBroker, tmp_path: Path) -> None:
    async with all_at_work(broker.url, tmp_path) as at:
        await publish_all(at.nc, "FLEET", busy_day(nodes(10)))
        await at.all_told()
        before = await bodies(at.nc)
    reader = await reading_client(broker.url)
    try:
        await rebuild(tmp_path / "tables.duckdb", reader, on_progress=lambda _progress: None)
    finally:
        await reader.close()
    async with all_at_work(broker.url, tmp_path) as at:
        assert await at.projector.wait_for("FLEET", await head(at.nc, "FLEET"), timeout_s=20)
        await publish_all(at.nc, "FLEET", registrations([NodeId("later")]))
        told = await at.all_told()
        found = await bodies(at.nc)

        assert found[: len(before)] == before
        assert {event["subject"] for event in told[len(before) :]} == {"later"}


def test_b71_what_is_repeated_after_a_crash_adds_nothing_twice(tmp_path: Path) -> None:
    made = Fleet(tmp_path)
    try:
        made.registered("n1", resources={"cpu": {"total": 64}})
        records = [said(Allocated(workload=f"w{n}", amounts={"cpu": 2}), NodeId("n1")) for n in range(10)]
        made.records([tuple(one) for one in records])
        before = made.projection.capacity()
        path, last = made.projection.path, made._seqs["FLEET"]
    finally:
        made.close()
    again = Fleet(path.parent)
    try:
        again._seqs["FLEET"] = last - 10
        again.records([tuple(one) for one in records])

        assert again.projection.cursors()["FLEET"].seq == last
        assert again.projection.capacity() == before
        assert [one.allocated for one in before if one.resource == "cpu"] == [20]
    finally:
        again.close()


def test_b72_a_slow_subscriber_is_never_cut_off_and_hears_everything(tmp_path: Path) -> None:
    with fleet(tmp_path) as made:
        made.registered("first")
        with serving(made.app) as url:
            try:
                slow = Follower(url)
                thread = threading.Thread(target=_import, args=(made, 5_000))
                thread.start()
                done = slow.read(until=f"{EPOCH}/5001/1")
                thread.join()
            finally:
                made.app.state.feed.close()

        assert done is not None
        assert slow.connections == 1
        assert len(slow.changes) == len(set(slow.changes)) == 2 * 5_001
        assert [event.name for event in slow.events if event.name not in ("change", "caught_up")] == []


def _import(made: Fleet, count: int) -> None:
    for begin in range(0, count, 500):
        made.records(
            [(subject, body) for subject, body in registrations_without_resources(begin, begin + 500)]
        )


def registrations_without_resources(begin: int, end: int) -> list[tuple[str, bytes]]:
    return [
        (fact_subject("agent", NodeId(f"m{n}"), "registered"), b'{"boot_id":"b1","seq":1}')
        for n in range(begin, end)
    ]


def test_b73_after_is_exclusive_now_is_empty_and_every_frame_has_its_cursor(tmp_path: Path) -> None:
    with fleet(tmp_path) as made:
        for n in range(60):
            made.registered(f"n{n}")
        with serving(made.app) as url:
            try:
                resumed, now, start = (
                    Follower(url, query=after(f"{EPOCH}/41/1")),
                    Follower(url, query="?after=now"),
                    Follower(url, query="?after=start"),
                )
                for follower in (resumed, now, start):
                    follower.read()
            finally:
                made.app.state.feed.close()

        assert resumed.changes[0] == f"{EPOCH}/42/0"
        assert now.changes == []
        assert start.changes[0] == f"{EPOCH}/1/0"
        assert all(event.id == event.data["cursor"] for event in start.events)


@pytest.mark.anyio
async def test_b75_a_retirement_in_a_gap_is_in_the_snapshot_after_it(tmp_path: Path) -> None:
    with fleet(tmp_path) as made:
        made.registered("k-1")
        made.registered("k-2")
        made.said("operator", "k-1", "retired", actor="ops", reason="sold")
        _cross_hole(made, low=4, high=8)

        page = (await made.get(f"/changes?after={EPOCH}/3")).json
        (gap,) = page["items"]
        snapshot = (await made.get(gap["snapshot"].removeprefix("/fleet/v1"))).json

        assert gap["frame"] == "gap"
        assert {item["id"]: item["state"] for item in snapshot["items"]} == {
            "k-1": "retired",
            "k-2": "pending",
        }
        assert all(item["retired_at"] for item in snapshot["items"] if item["state"] == "retired")


def _cross_hole(made: Fleet, *, low: int, high: int) -> None:
    nothing, at_ns = np.empty(0, np.int64), made.projection.cursors()["FLEET"].stored_at_ns
    cursor = Cursor(EPOCH, high, at_ns)
    made.projection.apply(Batch("FLEET", nothing, nothing, [], [], cursor, holes=((low, high),)))
    made.readings = {**made.readings, "FLEET": replace(made.readings["FLEET"], head=high)}


def test_b77_an_answer_says_how_stale_it_is(tmp_path: Path) -> None:
    script = """
        {"op": "seed", "nodes": 3}
        {"op": "lag", "for_s": 30}
    """
    with scenario(tmp_path, script) as world:
        world.service.is_folding = False
        world.advance(30)
        stale = world.service.get("/nodes")
        mode = world.service.mode()
        world.service.is_folding = True
        world.advance(40)
        fresh = world.service.get("/nodes")

        assert stale.json["as_of"]["lag_ms"] >= 25_000
        assert fresh.json["as_of"]["lag_ms"] < 1_000
        assert mode == ("degraded", "what the broker stored is not folded yet")
        assert world.told() == {"alive": 3}
