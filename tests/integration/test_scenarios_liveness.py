"""Scenarios of clocks and verdicts, on a clock that the test moves; each is named after its number."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from api.node_models import Node
from events.facts import Lost, ZoneRecovered, ZoneSilent
from events.ids import NodeId
from fleetfold.agent.messages import phase
from projections.silence import LivenessRules
from tests.support.scenario.script import scenario
from tests.support.scenario.world import World, world

GRACE = timedelta(seconds=30)
few = settings(max_examples=6, suppress_health_check=[HealthCheck.too_slow])
"""Each example is some minutes of a fleet, and takes a second or two; run with more after a change."""


@pytest.mark.parametrize("skew_s", [-3_600, 90, -86_400 * 400])
def test_b01_a_clock_that_jumps_at_a_node_loses_nobody(tmp_path: Path, skew_s: int) -> None:
    script = """
        {"op": "seed", "nodes": 3}
    """
    with scenario(tmp_path, script) as fleet:
        fleet.crowd.skew_s[0] = 0.0
        fleet.advance(20)
        fleet.crowd.skew_s[0] = skew_s
        fleet.advance(600)
        beat = fleet.service.projection.heartbeat(NodeId("n-0"))
        shown = fleet.service.get("/nodes/n-0").json
        fleet.crowd.skew_s[0] = 0.0
        fleet.advance(120)
        cleared = fleet.service.get("/nodes/n-0").json["conditions"]

        assert fleet.told() == {"alive": 3}
        assert fleet.derived("n-0").state == "ready"
        assert beat is not None
        assert beat.skew_ms is not None
        assert abs(beat.skew_ms - 1000 * skew_s) < 50
        assert (beat.missed, beat.duplicates, beat.reordered) == (0, 0, 0)
        assert shown["heartbeats"]["skew_ms"] == beat.skew_ms
        assert shown["conditions"] == ["clock_skew"]
        assert cleared == []


@pytest.mark.parametrize("by_s", [86_400, -86_400, 31, -3])
@pytest.mark.parametrize("whose", ["service", "broker"])
def test_b02_a_step_of_a_clock_of_ours_or_the_brokers_changes_no_verdict(
    tmp_path: Path, by_s: int, whose: str
) -> None:
    script = f"""
        {{"op": "seed", "nodes": 40}}
        {{"op": "step_{whose}_clock", "by_s": {by_s}}}
        {{"op": "advance", "by_s": 1}}
        {{"op": "assert", "mode": "degraded"}}
    """
    with scenario(tmp_path, script) as fleet:
        _, why = fleet.service.mode()
        fleet.advance(60)
        ended = fleet.service.mode()
        told = fleet.told()
        fleet.power("n-7", is_on=False)
        late_s = fleet.until(lambda: fleet.liveness("n-7") == "lost", within_s=45)

        assert f"{by_s:+.1f} s" in why
        assert ("no verdicts" in why) == (abs(by_s) > GRACE.total_seconds())
        assert ended == ("watching", "")
        assert told == {"alive": 40}
        assert 20 <= late_s <= 31


def test_b02_a_step_longer_than_the_grace_pauses_verdicts_and_then_they_are_said(tmp_path: Path) -> None:
    with world(tmp_path) as fleet:
        fleet.seed(5)
        fleet.power("n3", is_on=False)
        fleet.advance(25)
        fleet.clocks.service_by_s += 7_200
        fleet.advance(20)
        held = fleet.told()
        fleet.advance(30)

        assert held == {"alive": 5}
        assert fleet.about("n3") == ["alive", "lost"]


def test_b04_heartbeat_inventory_and_change_have_times_of_their_own(tmp_path: Path) -> None:
    script = """
        {"type": "node.registered", "node": "vm-3", "inc": "c1", "seq": 1, "recv": "2026-05-01T12:00:00Z"}
        {"type": "node.heartbeat", "node": "vm-3", "inc": "c1", "seq": 2, "recv": "2026-05-01T12:00:04Z"}
        {"type": "node.heartbeat", "node": "vm-3", "inc": "c1", "seq": 3, "recv": "2026-05-01T12:00:25Z"}
    """
    with scenario(tmp_path, script) as fleet:
        shown = fleet.service.get("/nodes/vm-3").json
        members = Node.model_fields

        assert shown["inventory_at"].startswith("2026-05-01T12:00:00")
        assert shown["changed_at"].startswith("2026-05-01T12:00:04")
        assert shown["last_heartbeat_at"].startswith("2026-05-01T12:00:25")
        texts = {members[name].description for name in ("inventory_at", "changed_at", "last_heartbeat_at")}
        assert None not in texts
        assert len(texts) == 3


@pytest.mark.parametrize("away_s", [2, 29, 41, 600])
def test_b06_an_outage_of_the_broker_is_held_against_nobody(tmp_path: Path, away_s: int) -> None:
    script = f"""
        {{"op": "seed", "nodes": 60}}
        {{"op": "broker_down", "for_s": {away_s}}}
        {{"op": "assert", "lost_events": 0, "within_s": 120}}
    """
    with scenario(tmp_path, script) as fleet:
        assert fleet.told() == {"alive": 60}
        assert fleet.service.mode() == ("watching", "")


def test_b06_a_node_that_was_late_before_an_outage_is_lost_that_much_later_and_one_interval(
    tmp_path: Path,
) -> None:
    with world(tmp_path) as fleet:
        fleet.seed(5)
        fleet.power("n2", is_on=False)
        fleet.until(lambda: fleet.is_suspect("n2"), within_s=30)
        at = fleet.clocks.steady
        fleet.outage(41)
        during = fleet.told()
        fleet.until(lambda: fleet.liveness("n2") == "lost", within_s=60)
        (lost,) = [one.data for one in fleet.verdicts() if isinstance(one.data, Lost)]

        assert during == {"alive": 5}
        assert abs(fleet.clocks.steady - at - (15 + 41 + 10)) <= 3
        assert "do not count" in lost.rule
        assert fleet.told() == {"alive": 5, "lost": 1}


@pytest.mark.parametrize("down_s", [3, 35, 600, 86_400])
def test_b07_a_restart_loses_nobody(tmp_path: Path, down_s: int) -> None:
    script = f"""
        {{"op": "seed", "nodes": 30}}
        {{"op": "stop_projector", "for_s": {down_s}}}
        {{"op": "start_projector"}}
        {{"op": "assert", "lost_events": 0, "within_s": 25}}
        {{"op": "assert", "lost_events": 0, "within_s": 120}}
    """
    with scenario(tmp_path, script) as fleet:
        assert fleet.told() == {"alive": 30}


def test_b07_who_died_while_nobody_watched_is_lost_one_grace_after_the_start(tmp_path: Path) -> None:
    with world(tmp_path) as fleet:
        fleet.seed(6)
        fleet.service.stop()
        fleet.advance(60)
        fleet.power("n4", is_on=False)
        fleet.advance(300)
        fleet.service.start()
        took_s = fleet.until(lambda: fleet.liveness("n4") == "lost", within_s=60)

        assert 30 <= took_s <= 32
        assert fleet.told() == {"alive": 6, "lost": 1}


def test_b07_who_never_beat_again_since_before_a_crash_is_lost_and_each_restart_costs_no_second_verdict(
    tmp_path: Path,
) -> None:
    with world(tmp_path) as fleet:
        fleet.seed(6)
        fleet.power("n1", is_on=False)
        for _ in range(8):
            fleet.restart(down_s=7)
            fleet.advance(20)

        assert fleet.about("n1") == ["alive", "lost"]
        assert fleet.told() == {"alive": 6, "lost": 1}


@pytest.mark.parametrize(
    ("interval_s", "grace_s", "down_s"), [(5, 15, 4), (10, 30, 4), (10, 300, 90), (1, 3, 2)]
)
def test_b08_who_was_silent_before_a_restart_is_lost_on_the_old_deadline_and_the_downtime(
    tmp_path: Path, interval_s: int, grace_s: int, down_s: int
) -> None:
    with world(tmp_path, rules=LivenessRules(interval_s=interval_s, grace_s=grace_s)) as fleet:
        fleet.seed(3)
        fleet.power("n2", is_on=False)
        fleet.until(lambda: fleet.is_suspect("n2"), within_s=3 * interval_s + 1)
        fleet.advance(interval_s)
        heard_at = fleet.service.projection.heartbeat(NodeId("n2"))
        fleet.restart(down_s=down_s)
        fleet.until(lambda: fleet.derived("n2").state == "lost", within_s=grace_s + 2 * interval_s)
        assert heard_at is not None
        silent_s = (fleet.clocks.broker_now - heard_at.last_heartbeat_at).total_seconds()

        assert grace_s <= silent_s <= max(grace_s, 2.5 * interval_s) + down_s + 2 * interval_s
        assert fleet.told() == {"alive": 3, "lost": 1}


def test_b11_a_timed_state_ends_without_any_input_once_and_stays_quiet(tmp_path: Path) -> None:
    script = """
        {"type": "node.heartbeat", "node": "edge-9", "inc": "e1", "seq": 1, "recv": "2026-05-01T12:00:00Z"}
        {"op": "advance", "by_s": 5}
        {"op": "assert", "node": "edge-9", "state": "pending"}
        {"op": "advance", "to": "2026-05-01T13:00:00Z"}
        {"op": "assert", "node": "edge-9", "state": "lost", "lost_events": 1}
        {"op": "advance", "by_days": 3}
        {"op": "assert", "node": "edge-9", "state": "lost", "lost_events": 1}
    """
    with scenario(tmp_path, script) as fleet:
        (lost,) = [one for one in fleet.verdicts() if isinstance(one.data, Lost)]
        assert isinstance(lost.data, Lost)
        assert lost.data.last_heartbeat_at is not None
        assert lost.data.deadline_at is not None
        assert abs(lost.data.deadline_at - lost.data.last_heartbeat_at - GRACE) < timedelta(seconds=1)
        assert lost.stored_at - lost.data.deadline_at < timedelta(seconds=2)
        assert [word for _, word in fleet.asked].count("register") <= 3
        assert fleet.about("edge-9") == ["alive", "lost"]


@pytest.mark.parametrize("lives_s", [200, 40])
def test_b11_a_registered_node_that_never_beats_is_lost_once(tmp_path: Path, lives_s: int) -> None:
    with world(tmp_path) as fleet:
        fleet.fact("agent", "mute", "registered", boot_id="b1", seq=1)
        fleet.settle()
        for _ in range(200 // lives_s):
            fleet.restart(down_s=5)
            fleet.advance(lives_s)

        assert fleet.about("mute") == ["lost"]
        assert "never heard" in fleet.verdicts()[0].data.rule  # type: ignore[union-attr]


ZONE_SCRIPT = """
    {"op": "seed", "nodes": %(here)d, "zone": "az-1"}
    {"op": "seed", "nodes": %(there)d, "zone": "az-2"}
    {"op": "silence", "zone": "az-1"}
    {"op": "assert", "event": "zone.silent", "count": %(here)d, "within_s": 60}
    {"op": "assert", "lost_events": 0}
"""


@pytest.mark.parametrize(("here", "there"), [(400, 400), (10, 3), (25, 0)])
def test_b13_a_silent_zone_is_one_fact_that_names_its_rule_and_holds_the_verdicts(
    tmp_path: Path, here: int, there: int
) -> None:
    script = ZONE_SCRIPT % {"here": here, "there": max(there, 1)}
    with scenario(tmp_path, script) as fleet:
        (silent,) = [one for one in fleet.verdicts() if isinstance(one.data, ZoneSilent)]
        assert isinstance(silent.data, ZoneSilent)
        suspects = sum(fleet.is_suspect(f"az-1-{number}") for number in range(here))
        fleet.advance(200)
        held = fleet.told()["lost"]
        fleet.advance(130)

        assert (str(silent.zone), silent.data.members) == ("az-1", here)
        assert (
            f"from {fleet.rules.zone_min} nodes and a share of {fleet.rules.zone_share:g}" in silent.data.rule
        )
        assert "held for 300 s" in silent.data.rule
        assert suspects == here
        assert held == 0
        assert fleet.told()["lost"] == here
        assert fleet.told()["silent"] == 1


def test_b13_a_zone_that_speaks_again_loses_nobody(tmp_path: Path) -> None:
    with scenario(tmp_path, ZONE_SCRIPT % {"here": 30, "there": 30}) as fleet:
        fleet.advance(100)
        fleet.link(zone="az-1", is_up=True)
        fleet.advance(400)
        (back,) = [one.data for one in fleet.verdicts() if isinstance(one.data, ZoneRecovered)]

        assert isinstance(back, ZoneRecovered)
        assert back.count >= 15
        assert fleet.told() == {"alive": 60, "silent": 1, "recovered": 1}


def test_b13_a_few_silent_nodes_of_a_zone_are_lost_one_by_one(tmp_path: Path) -> None:
    with world(tmp_path) as fleet:
        fleet.seed(40, zone="az-1")
        for number in range(9):
            fleet.power(f"n{number}", is_on=False)
        fleet.advance(45)

        assert fleet.told() == {"alive": 40, "lost": 9}


def test_b13_a_node_retired_by_an_operator_leaves_a_held_zone(tmp_path: Path) -> None:
    with scenario(tmp_path, ZONE_SCRIPT % {"here": 20, "there": 5}) as fleet:
        fleet.fact("operator", "az-1-3", "retired", actor="ops", reason="burnt")
        fleet.advance(400)

        assert fleet.derived("az-1-3").state == "retired"
        assert fleet.about("az-1-3") == ["alive"]
        assert fleet.told()["lost"] == 19


def test_b15_a_flapping_node_keeps_its_history_and_spares_its_subscribers(tmp_path: Path) -> None:
    script = """
        {"op": "rules", "interval_s": 5, "grace_s": 15}
        {"op": "seed", "nodes": 2, "prefix": "edge-"}
        {"op": "flap", "node": "edge-1", "period_s": 30, "cycles": 40}
    """
    with scenario(tmp_path, script) as fleet:
        with fleet.service.projection.cursor() as cursor:
            bands = cursor.execute(
                "SELECT count(*) FROM fleet.node_history WHERE node_id = 'edge-1'"
            ).fetchall()[0][0]
        verdicts = fleet.about("edge-1")
        flapping = list(fleet.derived("edge-1").conditions)
        told = fleet.changes("edge-1")

        assert len(verdicts) >= 78
        assert bands >= 78
        assert flapping == ["flapping"]
        assert len(told) <= 10
        assert fleet.about("edge-0") == ["alive"]


def test_b16_a_node_whose_beats_stop_stays_listed_as_lost_with_its_time(tmp_path: Path) -> None:
    script = """
        {"op": "seed", "nodes": 3, "prefix": "vm-"}
        {"op": "kill_node", "node": "vm-2"}
        {"op": "advance", "by_s": 86400}
        {"op": "assert", "node": "vm-2", "listed": true, "state": "lost", "lost_events": 1}
    """
    with scenario(tmp_path, script) as fleet:
        shown = fleet.service.get("/nodes/vm-2").json
        listed = [one["id"] for one in fleet.service.get("/nodes?state=lost").json["items"]]
        nobody = fleet.service.get("/nodes/vm-9")

        assert listed == ["vm-2"]
        assert shown["liveness_since"].startswith("2026-05-01T12:01")
        assert nobody.status == 404
        assert fleet.told() == {"alive": 3, "lost": 1}


def test_b17_agents_that_come_back_after_an_outage_register_nothing_anew(tmp_path: Path) -> None:
    script = """
        {"op": "seed", "nodes": 300}
        {"op": "broker_down", "for_s": 60}
        {"op": "assert", "lost_events": 0, "within_s": 120}
    """
    with scenario(tmp_path, script) as fleet:
        lag_ms = fleet.service.get("/status").json["lag_ms"]

        assert lag_ms < 1_000
        assert sum(fact.verb == "registered" for fact in fleet.log.facts()) == 300
        assert fleet.asked == []


def test_b17_agents_that_register_again_at_once_announce_nothing(tmp_path: Path) -> None:
    with world(tmp_path) as fleet:
        fleet.seed(50)
        told = len(fleet.service.changes())
        fleet.outage(180)
        for number in range(50):
            fleet.crowd.register(number)
        fleet.advance(60)

        assert sum(fact.verb == "registered" for fact in fleet.log.facts()) == 100
        assert len(fleet.service.changes()) == told
        assert fleet.state("n7").identical == 1


# Of the same kinds, with any numbers.

troubles = st.lists(
    st.tuples(
        st.sampled_from(["outage", "restart", "stand_still", "lag", "service_step", "broker_step"]),
        st.sampled_from([1, 4, 20, 41, 70, 200]),
        st.sampled_from([3, 20, 60]),
    ),
    min_size=1,
    max_size=4,
)


@few
@given(troubles)
def test_no_trouble_of_ours_loses_a_node_that_beats_and_none_saves_one_that_does_not(
    found: list[tuple[str, int, int]],
) -> None:
    with TemporaryDirectory() as folder, world(Path(folder)) as fleet:
        fleet.seed(12)
        fleet.power("n0", is_on=False)
        for kind, long_s, after_s in found:
            _suffer(fleet, kind, long_s)
            fleet.advance(after_s)
        fleet.advance(150)

        assert fleet.about("n0") == ["alive", "lost"]
        assert fleet.told() == {"alive": 12, "lost": 1}


def _suffer(fleet: World, kind: str, long_s: int) -> None:
    match kind:
        case "outage":
            fleet.outage(long_s)
        case "restart":
            fleet.restart(down_s=long_s)
        case "stand_still":
            fleet.stand_still(long_s)
        case "lag":
            fleet.lag(long_s)
        case "service_step":
            fleet.clocks.service_by_s += 400 * long_s
        case _:
            fleet.clocks.broker_by_s -= 400 * long_s


@few
@given(st.sampled_from([2.0, 10.0, 60.0]), st.integers(3, 9), st.integers(0, 100), st.booleans())
def test_a_node_that_dies_at_any_time_is_lost_one_grace_after_its_last_beat(
    interval_s: float, times: int, after_s: int, is_late: bool
) -> None:
    rules = LivenessRules(interval_s=interval_s, grace_s=times * interval_s)
    with TemporaryDirectory() as folder, world(Path(folder), rules=rules) as fleet:
        fleet.seed(3)
        fleet.advance(after_s)
        fleet.power("n1", is_on=False)
        if is_late:
            fleet.advance(2 * interval_s)
        fleet.until(lambda: fleet.liveness("n1") == "lost", within_s=(times + 1) * interval_s + 2)
        beat = fleet.service.projection.heartbeat(NodeId("n1"))
        assert beat is not None
        silent_s = (fleet.clocks.broker_now - beat.last_heartbeat_at).total_seconds()

        assert rules.grace_s <= silent_s <= rules.grace_s + 0.11 * interval_s


def test_two_services_that_judge_one_fleet_say_each_verdict_once(tmp_path: Path) -> None:
    with world(tmp_path) as fleet:
        other = fleet.add_service()
        fleet.seed(30, zone="az-1")
        fleet.power("n4", is_on=False)
        fleet.advance(60)
        fleet.link(zone="az-1", is_up=False)
        fleet.advance(60)

        assert fleet.told() == {"alive": 30, "lost": 1, "silent": 1}
        assert other.projection.node(NodeId("n4")) == fleet.state("n4")


def test_a_log_that_ended_a_year_ago_is_folded_to_what_it_said_then(tmp_path: Path) -> None:
    with world(tmp_path) as fleet:
        ids = fleet.seed(6)
        for node in ids:
            fleet.power(node, is_on=False)
        fleet.advance(60)
        then, said = [fleet.state(node).liveness_since for node in ids], fleet.log.head("FLEET")
        fleet.service.stop()
        fleet.advance(365 * 86_400, tick_s=86_400)
        fleet.service.path.unlink()
        fleet.service.start()
        fleet.advance(120)

        assert {fleet.liveness(node) for node in ids} == {"lost"}
        assert [fleet.state(node).liveness_since for node in ids] == then
        assert fleet.log.head("FLEET") == said
        assert fleet.told() == {"alive": 6, "lost": 6}


def test_agents_that_start_together_beat_evenly_over_an_interval() -> None:
    counts = [0] * 20
    for number in range(10_000):
        counts[int(phase(NodeId(f"host-{number}")) * 20)] += 1

    assert min(counts) > 400
    assert max(counts) < 600
