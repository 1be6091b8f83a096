"""Nodes that stay lost are retired by a fact, on a real broker: once, and nobody who is needed."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from consumers.retention import Retention
from events.facts import Alive, Allocated, Cordoned, FactData, Lost, Registered
from events.ids import node_id
from tests.support.announcing import all_at_work
from tests.support.brokers import AnyBroker
from tests.support.loops import on_a_loop
from tests.support.projecting import shown
from tests.support.publishing import head, publish_all
from tests.support.strategies import said

SOON = timedelta(milliseconds=20)
LOST: list[FactData] = [
    Registered(boot_id="b1", seq=1),
    Alive(boot_id="b1"),
    Lost(boot_id="b1", silent_s=31, grace_s=30),
]


@on_a_loop
async def test_of_two_services_one_retires_who_stays_lost_and_nobody_who_is_needed(
    broker: AnyBroker, tmp_path: Path
) -> None:
    async with all_at_work(broker.url, tmp_path) as at:
        told = {
            "gone": LOST,
            "held": [*LOST, Cordoned(owner="ops")],
            "busy": [*LOST, Allocated(workload="w1")],
            "back": [*LOST, Alive(boot_id="b1")],
        }
        records = [said(fact, node_id(node)) for node, facts in told.items() for fact in facts]
        await publish_all(at.nc, "FLEET", records)
        found = [
            Retention(at.projection, at.nc, after=SOON, is_watching=lambda: True, look_every=SOON)
            for _ in range(2)
        ]
        for one in found:
            await one.start()
        await shown(lambda: at.projection.count_by_state().get("retired") == 1)
        last = await head(at.nc, "FLEET")
        await publish_all(at.nc, "FLEET", [said(fact, node_id("also")) for fact in LOST])
        await shown(lambda: at.projection.count_by_state().get("retired") == 2)
        for one in found:
            await one.stop()
            await one.stop()

        assert last == len(records) + 1
        assert await head(at.nc, "FLEET") == last + len(LOST) + 1
        assert at.projection.count_by_state() == {"lost": 2, "ready": 1, "retired": 2}


@on_a_loop
async def test_nobody_is_retired_while_nobody_watches(broker: AnyBroker, tmp_path: Path) -> None:
    async with all_at_work(broker.url, tmp_path) as at:
        await publish_all(at.nc, "FLEET", [said(fact, node_id("gone")) for fact in LOST])
        looks = 0

        def is_watching() -> bool:
            nonlocal looks
            looks += 1
            return False

        retention = Retention(at.projection, at.nc, after=SOON, is_watching=is_watching, look_every=SOON)
        await retention.start()
        await shown(lambda: looks > 5)
        await retention.stop()

        assert await head(at.nc, "FLEET") == len(LOST)
        assert retention.counts["retired"] == 0
