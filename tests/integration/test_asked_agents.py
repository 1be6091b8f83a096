"""What agents are asked on a real broker: to register, to go, to answer; and who gets no verdict."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from events.ids import NodeId
from tests.support.brokers import AnyBroker
from tests.support.loops import on_a_loop
from tests.support.projecting import shown
from tests.support.watching import (
    GRACE_S,
    INTERVAL_S,
    RULES,
    agents,
    all_alive,
    fleet_log,
    later,
    operator_says,
    watching,
)

FILE = "t.duckdb"


@on_a_loop
async def test_a_node_that_beats_unregistered_is_alive_and_asked_to_register_now_and_then(
    broker: AnyBroker, tmp_path: Path
) -> None:
    async with (
        fleet_log(broker.url),
        agents(broker.url) as crowd,
        watching(broker.url, tmp_path / FILE) as watch,
    ):
        await crowd.listen("n1")
        crowd.beating = [NodeId("n1")]
        await watch.says("alive", "n1")
        await shown(lambda: len(crowd.asked) >= 2)
        await crowd.register(["n1"])
        await shown(lambda: watch.projection.node(NodeId("n1")).registered_at is not None)
        asked = len(crowd.asked)
        await shown(later(5 * INTERVAL_S))

        assert crowd.asked == [("n1", "register")] * asked
        assert watch.count() == {"alive": 1}
        assert watch.liveness("n1") == "alive"


@on_a_loop
async def test_another_inventory_or_boot_is_asked_for_and_the_registered_one_is_not(
    broker: AnyBroker, tmp_path: Path
) -> None:
    async with (
        fleet_log(broker.url),
        agents(broker.url) as crowd,
        watching(broker.url, tmp_path / FILE) as watch,
    ):
        await crowd.listen("same", "changed", "rebooted")
        for node in ("same", "changed", "rebooted"):
            await crowd.register([node], resources={"cpu": {"total": 8}})
        digest = crowd.digest_of("same", resources={"cpu": {"total": 8}})
        await shown(lambda: watch.liveness("rebooted") == "pending")
        await crowd.beat(["same"], inventory=digest)
        await crowd.beat(["changed"], inventory="0011223344556677")
        await crowd.beat(["rebooted"], boot_id="b2")
        await shown(lambda: len(crowd.asked) >= 2)
        await watch.says("alive", "same", "changed")
        await crowd.beat(["same"], inventory=digest)
        await shown(later(INTERVAL_S))

        assert set(crowd.asked) == {("changed", "register"), ("rebooted", "register")}


@on_a_loop
async def test_a_retired_node_that_beats_is_told_that_it_is_gone_and_gets_no_verdict(
    broker: AnyBroker, tmp_path: Path
) -> None:
    async with (
        fleet_log(broker.url) as nc,
        agents(broker.url) as crowd,
        watching(broker.url, tmp_path / FILE) as watch,
    ):
        await crowd.listen("n1")
        await all_alive(crowd, watch, ["n1", "n2"])
        await operator_says(nc, "n1", "retired")
        await shown(lambda: ("n1", "gone") in crowd.asked)
        crowd.beating = [NodeId("n2")]
        await shown(later(2 * GRACE_S))

        assert watch.about("n1") == ["alive"]
        assert watch.evaluator.status().counts["asked_gone"] >= 1


@on_a_loop
async def test_a_node_whose_dialect_has_no_heartbeat_gets_no_verdict(
    broker: AnyBroker, tmp_path: Path
) -> None:
    async with (
        fleet_log(broker.url),
        agents(broker.url) as crowd,
        watching(broker.url, tmp_path / FILE) as watch,
    ):
        await crowd.register(["quiet"], dialect={"name": "other", "monitored": False})
        await crowd.register(["mute"])
        await watch.says("lost", "mute")

        assert watch.liveness("quiet") == "unmonitored"
        assert watch.about("quiet") == []


@on_a_loop
async def test_with_probes_on_a_node_that_answers_is_not_lost(broker: AnyBroker, tmp_path: Path) -> None:
    async with (
        fleet_log(broker.url),
        agents(broker.url) as crowd,
        watching(broker.url, tmp_path / FILE, rules=replace(RULES, probe=True)) as watch,
    ):
        await crowd.listen("n1", "n2", probe=lambda node: b'{"node_id":"n1"}' if node == "n1" else None)
        await all_alive(crowd, watch, ["n1", "n2"])
        crowd.beating = []
        await watch.says("lost", "n2")
        await shown(later(GRACE_S))

        assert watch.about("n1") == ["alive"]
        assert {("n1", "probe"), ("n2", "probe")} <= set(crowd.asked)
