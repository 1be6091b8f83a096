"""What is announced, on a real broker: each announcement once, in order, whatever happens to whom."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from nats.aio.client import Client

from consumers.announcer import REFUSED_AGAIN_S
from events.facts import Cordoned, Lost
from events.ids import node_id
from projections.projection import Projection
from tests.support.announcing import (
    all_at_work,
    announcing,
    bodies,
    due,
    due_payloads,
    messages,
    told_up_to,
)
from tests.support.brokers import AnyBroker
from tests.support.logs import busy_day
from tests.support.loops import on_a_loop
from tests.support.projecting import shown
from tests.support.publishing import connected, head, js_api, nodes, publish_all, registrations
from tests.support.strategies import said

FEW = nodes(10)


@on_a_loop
async def test_what_facts_come_to_is_announced_in_their_order(broker: AnyBroker, tmp_path: Path) -> None:
    async with all_at_work(broker.url, tmp_path) as at:
        await publish_all(at.nc, "FLEET", busy_day(FEW))

        told = await at.all_told()

        assert [event["id"] for event in told] == due(at.projection)
        assert [body for _, body in await bodies(at.nc)] == due_payloads(at.projection)
        assert len({event["id"] for event in told}) == len(told) > 40
        await shown(lambda: at.announcer.status().lag_ms == 0)
        status = at.announcer.status()
        assert (status.seq, status.state) == (len(told), "announcing")
        assert status.counts["announced"] == len(told)


@on_a_loop
async def test_an_announcement_is_a_cloud_event_on_the_subject_of_its_node(
    broker: AnyBroker, tmp_path: Path
) -> None:
    async with all_at_work(broker.url, tmp_path) as at:
        odd = node_id("rack 2/n.2")
        await publish_all(at.nc, "FLEET", registrations([odd]))
        await publish_all(at.nc, "FLEET", [said(Cordoned(owner="ops", actor="ada", reason="disk"), odd)])

        told = await at.all_told()
        subject, _ = (await bodies(at.nc))[-1]

        event = told[-1]
        epoch = (await js_api(at.nc, "STREAM.INFO.FLEET"))["created"]
        assert subject == "fleet.v1.node.rack%202%2Fn%2E2.intent.changed"
        assert (event["specversion"], event["id"]) == ("1.0", f"{epoch}/2/1")
        assert (event["type"], event["source"]) == ("fleetfold.node.intent.changed.v1", "/announcer")
        assert event["subject"] == "rack 2/n.2"
        data = event["data"]
        assert (data["cause_seq"], data["cause_type"]) == (2, "fleetfold.operator.cordoned.v1")
        assert (data["actor"], data["reason"]) == ("ada", "disk")
        assert data["before"]["intent"] == "open"
        assert data["after"]["holds"][0]["reason"] == "disk"


@on_a_loop
async def test_two_announcers_say_nothing_twice(broker: AnyBroker, tmp_path: Path) -> None:
    async with all_at_work(broker.url, tmp_path) as at, announcing(broker.url, at.projection) as second:
        for begin in range(0, 200, 20):
            await publish_all(at.nc, "FLEET", registrations(nodes(200)[begin : begin + 20]))
        told = await at.all_told()

        assert [event["id"] for event in told] == due(at.projection)
        counts = at.announcer.status().counts["announced"], second.status().counts["announced"]
        assert sum(counts) == len(told)


@on_a_loop
async def test_the_second_announcer_goes_on_when_the_first_one_ends(
    broker: AnyBroker, tmp_path: Path
) -> None:
    async with all_at_work(broker.url, tmp_path) as at, announcing(broker.url, at.projection) as second:
        await publish_all(at.nc, "FLEET", registrations(FEW))
        await at.all_told()
        await at.announcer.stop()

        await publish_all(at.nc, "FLEET", [said(Cordoned(owner="ops"), node) for node in FEW])
        told = await at.all_told()

        assert [event["id"] for event in told] == due(at.projection)
        assert second.status().counts["announced"] >= 10


@on_a_loop
async def test_a_broker_that_is_killed_and_comes_back_loses_and_doubles_nothing(
    own_broker: AnyBroker, tmp_path: Path
) -> None:
    async with all_at_work(own_broker.url, tmp_path) as at:
        fleet = nodes(60)
        for begin in range(0, 60, 20):
            async with connected(own_broker.url) as nc:
                await publish_all(nc, "FLEET", registrations(fleet[begin : begin + 20]))
            own_broker.kill()
            own_broker.start()
        async with connected(own_broker.url) as nc:
            assert await at.projector.wait_for("FLEET", await head(nc, "FLEET"), timeout_s=20)
            await told_up_to(nc, due(at.projection))
            told = await messages(nc)

        assert [event["id"] for event in told] == due(at.projection)


@on_a_loop
async def test_a_rebuild_announces_nothing(broker: AnyBroker, tmp_path: Path) -> None:
    """Law 10, on a broker: empty tables are folded again while an announcer looks on."""
    async with all_at_work(broker.url, tmp_path / "one") as at:
        await publish_all(at.nc, "FLEET", busy_day(FEW))
        first = await at.all_told()
    async with all_at_work(broker.url, tmp_path / "two") as at:
        await at.all_told()
        await shown(lambda: at.announcer.status().state == "announcing")
        await publish_all(at.nc, "FLEET", [said(Cordoned(owner="later"), FEW[7])])
        told = await at.all_told()

        assert told[: len(first)] == first
        assert [event["id"] for event in told] == due(at.projection)
        assert at.announcer.status().counts["announced"] == len(told) - len(first)


@on_a_loop
async def test_changes_made_again_is_filled_again_and_holds_each_once(
    broker: AnyBroker, tmp_path: Path
) -> None:
    async with all_at_work(broker.url, tmp_path) as at:
        await publish_all(at.nc, "FLEET", busy_day(FEW))
        first = await at.all_told()

        await js_api(at.nc, "STREAM.DELETE.CHANGES")
        await publish_all(at.nc, "FLEET", [said(Cordoned(owner="later"), FEW[7])])
        assert await at.projector.wait_for("FLEET", await head(at.nc, "FLEET"), timeout_s=20)
        ids = due(at.projection)
        await _stream_is_there(at.nc, "CHANGES")
        await told_up_to(at.nc, ids)
        told = await messages(at.nc)

        assert told[: len(first)] == first
        assert [event["id"] for event in told] == ids


@on_a_loop
async def test_announcements_that_have_expired_are_not_made_again(broker: AnyBroker, tmp_path: Path) -> None:
    async with all_at_work(broker.url, tmp_path) as at:
        await publish_all(at.nc, "FLEET", registrations(FEW))
        first = await at.all_told()
        await at.announcer.stop()
        await js_api(at.nc, "STREAM.PURGE.CHANGES", {"keep": 1})
        async with announcing(broker.url, at.projection):
            await publish_all(at.nc, "FLEET", [said(Cordoned(owner="later"), FEW[7])])
            told = await at.all_told()

        assert [event["id"] for event in told] == [first[-1]["id"], *due(at.projection)[len(first) :]]


@on_a_loop
async def test_another_log_is_announced_before_what_it_says(broker: AnyBroker, tmp_path: Path) -> None:
    async with all_at_work(broker.url, tmp_path) as at:
        await publish_all(at.nc, "FLEET", registrations(FEW))
        first = await at.all_told()
        old = (await js_api(at.nc, "STREAM.INFO.FLEET"))["created"]
        config = (await js_api(at.nc, "STREAM.INFO.FLEET"))["config"]

        await js_api(at.nc, "STREAM.DELETE.FLEET")
        new = (await js_api(at.nc, "STREAM.CREATE.FLEET", config))["created"]
        await publish_all(at.nc, "FLEET", registrations(FEW[:2], boot_id="other"))
        await shown(lambda: _epoch(at.projection) == new)
        told = await at.all_told()
        subject, _ = (await bodies(at.nc))[len(first)]

        assert subject == "fleet.v1.node.~.log.epoch"
        said_of_log = told[len(first)]
        assert said_of_log["type"] == "fleetfold.log.epoch.v1"
        assert said_of_log["data"]["before"]["epoch"] == old
        assert said_of_log["data"]["after"] == {"epoch": new, "cursor": f"{new}/0"}
        assert [event["id"] for event in told[len(first) + 1 :]] == due(at.projection)
        await shown(lambda: at.announcer.status().counts["other_logs"] == 1)


@on_a_loop
async def test_what_others_write_to_changes_is_passed_over(broker: AnyBroker, tmp_path: Path) -> None:
    async with all_at_work(broker.url, tmp_path) as at:
        await publish_all(at.nc, "FLEET", registrations(FEW))
        first = await at.all_told()
        await at.announcer.stop()
        for junk in (b"not json", b"[]", b'{"data":{"cursor":7}}'):
            await at.nc.jetstream().publish("fleet.v1.node.n1.state.ready", junk)
        async with announcing(broker.url, at.projection):
            await publish_all(at.nc, "FLEET", [said(Cordoned(owner="later"), FEW[7])])
            await at.projector.wait_for("FLEET", await head(at.nc, "FLEET"), timeout_s=20)
            await told_up_to(at.nc, due(at.projection))

        ids = [json.loads(body)["id"] for _, body in await bodies(at.nc) if b"specversion" in body]
        assert ids[: len(first)] == [event["id"] for event in first]
        assert ids == due(at.projection)


@on_a_loop
async def test_a_log_that_went_back_is_announced_and_gone_on_with(broker: AnyBroker, tmp_path: Path) -> None:
    async with all_at_work(broker.url, tmp_path) as at:
        await publish_all(at.nc, "FLEET", registrations(FEW))
        first = await at.all_told()
        await at.announcer.stop()
        # What an announcer would have said of a fact that a restored log does not hold.
        lost = {**first[-1], "id": "lost", "data": {**first[-1]["data"], "cause_at": "2020-01-01T00:00:00Z"}}
        await at.nc.jetstream().publish("fleet.v1.node.n1.state.ready", json.dumps(lost).encode())

        async with announcing(broker.url, at.projection) as announcer:
            await shown(lambda: announcer.status().counts.get("other_logs") == 1)
            await publish_all(at.nc, "FLEET", [said(Lost(silent_s=31, grace_s=30), FEW[3])])
            told = await at.all_told()

        rewound = told[len(first) + 1]
        assert rewound["type"] == "fleetfold.log.rewound.v1"
        assert rewound["data"]["cursor"] == first[-1]["id"]
        assert [event["id"] for event in told[len(first) + 2 :]] == due(at.projection)[len(first) :]


def _epoch(projection: Projection) -> str:
    cursor = projection.cursors().get("FLEET")
    return cursor.epoch if cursor else ""


async def _stream_is_there(nc: Client, name: str) -> None:
    async with asyncio.timeout(2 * REFUSED_AGAIN_S + 10):
        while True:
            reply = json.loads((await nc.request(f"$JS.API.STREAM.INFO.{name}", b"", timeout=5)).data)
            if "error" not in reply:
                return
            await asyncio.sleep(0.01)
