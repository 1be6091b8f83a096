"""Verdicts on silence on a real broker: alive, lost, heard again, and nothing said that is not so."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from nats.aio.client import Client

from consumers.last_beats import LastBeats
from consumers.stream_api import NotAnsweredError
from events.ids import NodeId
from events.log import Batch
from events.stream_admin import ensure_streams
from projections.projection import Applied, Projection
from tests.support.broker import Broker
from tests.support.brokers import AnyBroker
from tests.support.loops import on_a_loop
from tests.support.projecting import shown
from tests.support.publishing import connected, js_api, stream_reached
from tests.support.watching import (
    GRACE_S,
    INTERVAL_S,
    RULES,
    Agents,
    Watching,
    agents,
    later,
    operator_says,
    watching,
)

FILE = "t.duckdb"
FLEET = [f"n{number}" for number in range(8)]
ZONES = {"z1": [f"a{number}" for number in range(12)], "z2": [f"b{number}" for number in range(12)]}


@asynccontextmanager
async def fleet_log(url: str) -> AsyncIterator[Client]:
    """A connection to a broker with our streams."""
    async with connected(url) as nc:
        await ensure_streams(nc)
        yield nc


async def all_alive(crowd: Agents, watch: Watching, nodes: list[str], **said: object) -> None:
    """Register nodes and let them beat until each is alive."""
    await crowd.register(nodes, **said)
    crowd.beating += [NodeId(node) for node in nodes]
    await watch.says("alive", *nodes)


@on_a_loop
async def test_a_node_is_alive_with_its_first_beat_lost_when_it_falls_silent_and_alive_again(
    broker: AnyBroker, tmp_path: Path
) -> None:
    async with (
        fleet_log(broker.url),
        agents(broker.url) as crowd,
        watching(broker.url, tmp_path / FILE) as watch,
    ):
        await crowd.register(["n1", "n2"])
        await watch.says("pending", "n1", "n2")
        crowd.beating = [NodeId("n1"), NodeId("n2")]
        await watch.says("alive", "n1", "n2")
        crowd.beating = [NodeId("n2")]
        await watch.says("lost", "n1")
        crowd.beating = [NodeId("n1"), NodeId("n2")]
        await watch.says("alive", "n1")
        lost = next(data for about, verb, data in watch.verdicts() if (about, verb) == ("n1", "lost"))

        assert watch.about("n1") == ["alive", "lost", "alive"]
        assert watch.about("n2") == ["alive"]
        assert lost["grace_s"] == GRACE_S
        assert lost["silent_s"] >= GRACE_S
        assert lost["boot_id"] == "b1"
        assert lost["beat_seq"] > 0
        assert lost["last_heartbeat_at"] < lost["deadline_at"]
        assert "silent since its last heartbeat" in lost["rule"]


@on_a_loop
async def test_a_node_that_registers_and_never_beats_is_lost_once(broker: AnyBroker, tmp_path: Path) -> None:
    async with (
        fleet_log(broker.url),
        agents(broker.url) as crowd,
        watching(broker.url, tmp_path / FILE) as watch,
    ):
        await all_alive(crowd, watch, ["n1"])
        await crowd.register(["mute"])
        await watch.says("lost", "mute")
        await shown(later(2 * GRACE_S))

        assert watch.about("mute") == ["lost"]
        assert watch.about("n1") == ["alive"]


@on_a_loop
async def test_nobody_is_lost_by_an_outage_of_the_broker_longer_than_the_grace(
    own_broker: Broker, tmp_path: Path
) -> None:
    async with (
        fleet_log(own_broker.url),
        agents(own_broker.url) as crowd,
        watching(own_broker.url, tmp_path / FILE) as watch,
    ):
        await all_alive(crowd, watch, FLEET)
        own_broker.kill()
        await shown(lambda: watch.evaluator.mode() == "degraded")
        await shown(later(2 * GRACE_S))
        own_broker.start()
        await shown(lambda: watch.evaluator.mode() == "watching")
        crowd.beating.remove(NodeId("n0"))
        await watch.says("lost", "n0")

        assert watch.count() == {"alive": len(FLEET), "lost": 1}


@on_a_loop
async def test_nobody_is_lost_by_a_broker_that_hangs(own_broker: Broker, tmp_path: Path) -> None:
    async with (
        fleet_log(own_broker.url),
        agents(own_broker.url) as crowd,
        watching(own_broker.url, tmp_path / FILE) as watch,
    ):
        await all_alive(crowd, watch, FLEET)
        own_broker.freeze()
        await shown(later(3 * GRACE_S))
        own_broker.thaw()
        await shown(lambda: watch.evaluator.mode() == "watching")
        crowd.beating.remove(NodeId("n0"))
        await watch.says("lost", "n0")

        assert watch.count() == {"alive": len(FLEET), "lost": 1}


class Slow(Projection):
    """A projection that stands still for longer than the grace before it folds heartbeats, when told to."""

    stands_still_s = 0.0

    def apply(self, batch: Batch) -> Applied:
        if batch.stream == "BEATS":
            threading.Event().wait(self.stands_still_s)
            self.stands_still_s = 0.0
        return super().apply(batch)


@on_a_loop
async def test_nobody_is_lost_whose_heartbeats_wait_to_be_folded(broker: AnyBroker, tmp_path: Path) -> None:
    tables = Slow.open(tmp_path / FILE)
    assert isinstance(tables, Slow)
    async with (
        fleet_log(broker.url),
        agents(broker.url) as crowd,
        watching(broker.url, tmp_path / FILE, tables=tables) as watch,
    ):
        await all_alive(crowd, watch, FLEET)
        await shown(lambda: watch.evaluator.mode() == "watching")
        for _ in range(3):
            tables.stands_still_s = 1.6 * GRACE_S
            await shown(lambda: tables.stands_still_s == 0)
            await shown(later(GRACE_S))
        crowd.beating.remove(NodeId("n0"))
        await watch.says("lost", "n0")

        assert watch.count() == {"alive": len(FLEET), "lost": 1}


@on_a_loop
async def test_the_last_heartbeats_are_asked_for_all_at_once(broker: AnyBroker) -> None:
    async with fleet_log(broker.url) as nc, agents(broker.url) as crowd:
        await crowd.beat(["n0", "n1", "n0", "a.b"])
        await stream_reached(nc, "BEATS", 4)
        asked = LastBeats()
        await asked.open(nc)
        known = [NodeId(node) for node in ("n1", "nobody", "a.b", "n0")]

        assert (await asked.seqs(known)).tolist() == [2, 0, 4, 3]
        assert (await asked.seqs(known * 250)).tolist() == [2, 0, 4, 3] * 250
        await js_api(nc, "STREAM.DELETE.BEATS")
        with pytest.raises(NotAnsweredError, match="stream not found"):
            await asked.seqs(known)
        await asked.close()


@on_a_loop
async def test_a_restart_loses_who_was_silent_before_it_and_nobody_else(
    broker: AnyBroker, tmp_path: Path
) -> None:
    rules = replace(RULES, grace_s=10 * INTERVAL_S)
    async with fleet_log(broker.url), agents(broker.url) as crowd:
        async with watching(broker.url, tmp_path / FILE, rules=rules) as watch:
            await all_alive(crowd, watch, FLEET)
            crowd.beating.remove(NodeId("n0"))
            await shown(lambda: watch.outlook("n0").is_suspect)
            before = watch.outlook("n0")
        await shown(later(3 * GRACE_S))
        async with watching(broker.url, tmp_path / FILE, rules=rules) as watch:
            await watch.says("lost", "n0")
            silent_s = next(data for about, verb, data in watch.verdicts() if verb == "lost")["silent_s"]

            assert watch.count() == {"alive": len(FLEET), "lost": 1}
            assert before.silent_s < rules.grace_s
            # What it was silent before the restart counts, the time in between does not.
            assert rules.grace_s <= silent_s < rules.grace_s + 3 * GRACE_S


@on_a_loop
async def test_tables_folded_anew_from_the_log_make_no_verdict(broker: AnyBroker, tmp_path: Path) -> None:
    async with fleet_log(broker.url), agents(broker.url) as crowd:
        async with watching(broker.url, tmp_path / FILE) as watch:
            await all_alive(crowd, watch, FLEET)
            crowd.beating.remove(NodeId("n0"))
            await watch.says("lost", "n0")
        async with watching(broker.url, tmp_path / "other.duckdb") as watch:
            await shown(lambda: watch.evaluator.mode() == "watching")
            await shown(later(2 * GRACE_S))

            assert watch.count() == {"alive": len(FLEET), "lost": 1}
            assert watch.liveness("n0") == "lost"


@on_a_loop
async def test_of_two_evaluators_each_verdict_is_stored_once(broker: AnyBroker, tmp_path: Path) -> None:
    async with (
        fleet_log(broker.url),
        agents(broker.url) as crowd,
        watching(broker.url, tmp_path / FILE) as watch,
        watching(broker.url, tmp_path / "other.duckdb") as other,
    ):
        await all_alive(crowd, watch, FLEET)
        await other.says("alive", *FLEET)
        crowd.beating = crowd.beating[4:]
        await watch.says("lost", *FLEET[:4])
        await other.says("lost", *FLEET[:4])
        await shown(later(GRACE_S))

        assert watch.count() == {"alive": len(FLEET), "lost": 4}
        assert watch.verdicts() == other.verdicts()


@on_a_loop
async def test_a_zone_that_goes_silent_is_one_fact_and_so_is_its_return(
    broker: AnyBroker, tmp_path: Path
) -> None:
    async with (
        fleet_log(broker.url),
        agents(broker.url) as crowd,
        watching(broker.url, tmp_path / FILE) as watch,
    ):
        for zone, nodes in ZONES.items():
            await all_alive(crowd, watch, nodes, zone=zone)
        beating = list(crowd.beating)
        crowd.beating = [node for node in beating if node in ZONES["z2"]]
        await shown(lambda: watch.count()["silent"] == 1)
        await shown(later(2 * GRACE_S))
        held, said = watch.count()["lost"], watch.verdicts()[-1]
        outlook = watch.outlook("a3")
        crowd.beating = beating
        await shown(lambda: watch.count()["recovered"] == 1)
        await shown(later(2 * GRACE_S))

        assert held == 0
        assert said[:2] == ("z1", "silent")
        assert (said[2]["count"], said[2]["members"]) == (12, 12)
        assert "missed a beat together" in said[2]["rule"]
        assert outlook.is_suspect
        assert outlook.expected_lost_at is not None
        held_until = datetime.fromisoformat(said[2]["held_until"])
        assert abs(outlook.expected_lost_at - held_until) < timedelta(seconds=1)
        assert watch.count() == {"alive": 24, "silent": 1, "recovered": 1}


@on_a_loop
async def test_after_the_hold_the_single_verdicts_follow_even_over_a_restart(
    broker: AnyBroker, tmp_path: Path
) -> None:
    rules = replace(RULES, zone_hold_s=4.0)
    async with fleet_log(broker.url), agents(broker.url) as crowd:
        async with watching(broker.url, tmp_path / FILE, rules=rules) as watch:
            await all_alive(crowd, watch, ZONES["z1"], zone="z1")
            await all_alive(crowd, watch, ["n1"])
            crowd.beating = [NodeId("n1")]
            await shown(lambda: watch.count()["silent"] == 1)
        async with watching(broker.url, tmp_path / FILE, rules=rules) as watch:
            await shown(lambda: watch.evaluator.mode() == "watching")
            held = watch.count()["lost"]
            await watch.says("lost", *ZONES["z1"])
            told = [data for _, verb, data in watch.verdicts() if verb == "lost"]
            until = next(data for _, verb, data in watch.verdicts() if verb == "silent")["held_until"]

            assert held == 0
            assert watch.count() == {"alive": 13, "silent": 1, "lost": 12}
            assert watch.first_stored("lost") >= until
            assert min(data["silent_s"] for data in told) >= GRACE_S


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


@on_a_loop
async def test_an_outlook_says_when_a_suspect_node_will_be_lost(broker: AnyBroker, tmp_path: Path) -> None:
    rules = replace(RULES, grace_s=15 * INTERVAL_S)
    async with (
        fleet_log(broker.url),
        agents(broker.url) as crowd,
        watching(broker.url, tmp_path / FILE, rules=rules) as watch,
    ):
        await all_alive(crowd, watch, ["n1"])
        well = watch.outlook("n1")
        crowd.beating = []
        await shown(lambda: watch.outlook("n1").is_suspect)
        suspect = watch.outlook("n1")
        await watch.says("lost", "n1")
        await shown(lambda: watch.outlook("n1").expected_lost_at is None)
        lost = watch.outlook("n1")
        deadline_at = datetime.fromisoformat(watch.verdicts()[-1][2]["deadline_at"])

        assert not well.is_suspect
        assert (suspect.grace_s, suspect.reason) == (rules.grace_s, "")
        assert suspect.expected_lost_at is not None
        assert abs(suspect.expected_lost_at - deadline_at) < timedelta(seconds=1)
        assert (lost.is_suspect, lost.expected_lost_at) == (False, None)
        assert watch.evaluator.outlook(NodeId("nobody")) is None
