"""A zone that falls silent together, on a real broker: one fact for it, and what becomes of its nodes."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

from events.ids import NodeId
from tests.support.brokers import AnyBroker
from tests.support.loops import on_a_loop
from tests.support.projecting import shown
from tests.support.watching import (
    GRACE_S,
    RULES,
    agents,
    all_alive,
    fleet_log,
    later,
    watching,
)

FILE = "t.duckdb"
MEMBERS = 24
# Twice as many as a zone needs at least: where this process stood still for a while, a few agents have beaten
# later than the rest when the zone is cut off, and the rest are enough.
ZONES = {"z1": [f"a{number}" for number in range(MEMBERS)], "z2": [f"b{number}" for number in range(MEMBERS)]}


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
        assert said[2]["members"] == MEMBERS
        assert said[2]["members"] / 2 <= said[2]["count"] <= said[2]["members"]
        assert "missed a beat together" in said[2]["rule"]
        assert outlook.is_suspect
        assert outlook.expected_lost_at is not None
        held_until = datetime.fromisoformat(said[2]["held_until"])
        assert abs(outlook.expected_lost_at - held_until) < timedelta(seconds=1)
        assert watch.count() == {"alive": 2 * MEMBERS, "silent": 1, "recovered": 1}


@on_a_loop
async def test_after_the_hold_the_single_verdicts_follow_even_over_a_restart(
    broker: AnyBroker, tmp_path: Path
) -> None:
    rules = replace(RULES, zone_hold_s=10.0)
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
            assert watch.count() == {"alive": MEMBERS + 1, "silent": 1, "lost": MEMBERS}
            assert watch.first_stored("lost") >= until
            assert min(data["silent_s"] for data in told) >= GRACE_S
