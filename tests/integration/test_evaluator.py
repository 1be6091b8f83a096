"""Verdicts on silence on a real broker: alive, lost, heard again, and nothing said that is not so."""

from __future__ import annotations

import threading
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from consumers.last_beats import LastBeats
from consumers.stream_api import NotAnsweredError
from events.errors import StoreError
from events.ids import NodeId
from events.log import Batch
from events.subjects import fact_subject
from projections.ahead import FoldedAhead
from projections.applied import Applied
from projections.projection import Projection
from tests.support.broker import Broker
from tests.support.brokers import AnyBroker
from tests.support.loops import on_a_loop
from tests.support.projecting import shown
from tests.support.publishing import js_api, stream_reached
from tests.support.watching import (
    GRACE_S,
    INTERVAL_S,
    RULES,
    agents,
    all_alive,
    fleet_log,
    later,
    watching,
)

FILE = "t.duckdb"
FLEET = [f"n{number}" for number in range(8)]


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

    def apply(self, work: Batch | FoldedAhead) -> Applied:
        if isinstance(work, Batch) and work.stream == "BEATS":
            threading.Event().wait(self.stands_still_s)
            self.stands_still_s = 0.0
        return super().apply(work)


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


class Torn(Projection):
    """A projection whose file breaks for good with a batch of heartbeats, when told to."""

    is_torn = False

    def apply(self, batch: Batch) -> Applied:
        if self.is_torn and batch.stream == "BEATS":
            self.is_torn = False
            raise StoreError(str(self.path), why="torn page", is_fatal=True)
        return super().apply(batch)


@on_a_loop
async def test_nobody_is_lost_when_the_tables_are_begun_anew_under_the_evaluator(
    broker: AnyBroker, tmp_path: Path
) -> None:
    tables = Torn.open(tmp_path / FILE)
    assert isinstance(tables, Torn)
    async with (
        fleet_log(broker.url),
        agents(broker.url) as crowd,
        watching(broker.url, tmp_path / FILE, tables=tables) as watch,
    ):
        await all_alive(crowd, watch, FLEET)
        tables.is_torn = True
        await shown(lambda: watch.projector.status().rebuilds == 1)
        await shown(lambda: watch.evaluator.mode() == "waiting")
        await shown(lambda: watch.evaluator.mode() == "watching")
        crowd.beating.remove(NodeId("n0"))
        await watch.says("lost", "n0")

        assert watch.count() == {"alive": len(FLEET), "lost": 1}


@on_a_loop
async def test_a_node_of_which_the_log_holds_only_what_nobody_can_read_is_alive_once(
    broker: AnyBroker, tmp_path: Path
) -> None:
    async with (
        fleet_log(broker.url) as nc,
        agents(broker.url) as crowd,
        watching(broker.url, tmp_path / FILE) as watch,
    ):
        await nc.publish(fact_subject("agent", NodeId("odd"), "registered"), b"{")
        await watch.projector.wait_for("FLEET", 1, timeout_s=20)
        crowd.beating = [NodeId("odd")]
        await watch.says("alive", "odd")
        await shown(later(GRACE_S))

        assert watch.about("odd") == ["alive"]


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
async def test_a_verdict_that_the_log_does_not_take_is_shown_and_said_when_it_does(
    broker: AnyBroker, tmp_path: Path
) -> None:
    async with (
        fleet_log(broker.url) as nc,
        agents(broker.url) as crowd,
        watching(broker.url, tmp_path / FILE) as watch,
    ):
        await all_alive(crowd, watch, FLEET)
        info = await js_api(nc, "STREAM.INFO.FLEET")
        full = {**info["config"], "max_msgs": info["state"]["messages"]}
        await js_api(nc, "STREAM.UPDATE.FLEET", full)
        crowd.beating.remove(NodeId("n0"))
        await shown(lambda: "maximum messages" in watch.evaluator.status().reason)
        mode, liveness = watch.evaluator.mode(), watch.liveness("n0")
        await js_api(nc, "STREAM.UPDATE.FLEET", info["config"])
        await watch.says("lost", "n0")
        await shown(lambda: watch.evaluator.mode() == "watching")

        assert (mode, liveness) == ("degraded", "alive")
        assert watch.count() == {"alive": len(FLEET), "lost": 1}


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
async def test_an_outlook_says_when_a_suspect_node_will_be_lost(broker: AnyBroker, tmp_path: Path) -> None:
    rules = replace(RULES, grace_s=15 * INTERVAL_S)
    async with (
        fleet_log(broker.url),
        agents(broker.url) as crowd,
        watching(broker.url, tmp_path / FILE, rules=rules) as watch,
    ):
        await all_alive(crowd, watch, ["n1"])
        await shown(lambda: not watch.outlook("n1").is_suspect)
        crowd.beating = []
        await shown(lambda: watch.outlook("n1").is_suspect)
        suspect = watch.outlook("n1")
        await watch.says("lost", "n1")
        await shown(lambda: watch.outlook("n1").expected_lost_at is None)
        lost = watch.outlook("n1")
        deadline_at = datetime.fromisoformat(watch.verdicts()[-1][2]["deadline_at"])

        assert (suspect.grace_s, suspect.reason) == (rules.grace_s, "")
        assert suspect.expected_lost_at is not None
        assert abs(suspect.expected_lost_at - deadline_at) < timedelta(seconds=1)
        assert (lost.is_suspect, lost.expected_lost_at) == (False, None)
        assert watch.evaluator.outlook(NodeId("nobody")) is None
