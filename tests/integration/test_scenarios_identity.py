"""Scenarios of identity, registration and deletion, on a clock that the test moves."""

from __future__ import annotations

import json
from datetime import timedelta
from itertools import permutations
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from events.ids import NodeId
from projections.state import MOST_CLAIMS, PREVIOUS_BOOTS
from tests.support.scenario.script import scenario
from tests.support.scenario.world import World, world

DAY_S = 86_400
few = settings(max_examples=6, suppress_health_check=[HealthCheck.too_slow])


def test_b18_a_new_machine_under_an_old_name_is_a_replacement_and_no_recovery(tmp_path: Path) -> None:
    script = """
        {"type": "node.registered", "node": "web-1", "inc": "boot-A", "seq": 1, "machine": "m-1",
            "resources": {"cpu": {"total": 8}}}
        {"type": "node.heartbeat", "node": "web-1", "inc": "boot-A", "seq": 2, "recv": "2026-05-01T12:00:03Z"}
        {"op": "advance", "by_s": 12}
        {"type": "node.registered", "node": "web-1", "inc": "boot-B", "seq": 1, "machine": "m-999",
            "resources": {"cpu": {"total": 32}}}
        {"type": "node.heartbeat", "node": "web-1", "inc": "boot-B", "seq": 2}
        {"op": "advance", "by_s": 5}
        {"op": "assert", "node": "web-1", "state": "ready", "boot": "boot-B", "incarnation": 2}
        {"op": "assert", "node": "web-1", "cpu": {"total": 32}}
    """
    with scenario(tmp_path, script) as fleet:
        with fleet.service.projection.cursor() as cursor:
            bands = cursor.execute(
                "SELECT state, valid_to IS NULL FROM fleet.node_history WHERE node_id = 'web-1' "
                "ORDER BY cause_seq"
            ).fetchall()
        told = fleet.changes("web-1")
        after = told[told.index("identity.replaced") :]

        assert told.count("identity.replaced") == 1
        assert "identity.rebooted" not in told
        assert "state.lost" not in told
        assert "capacity.changed" in after
        assert bands == [("pending", False), ("ready", False), ("pending", False), ("ready", True)]


def test_b18_a_last_beat_of_the_machine_that_was_replaced_changes_nothing(tmp_path: Path) -> None:
    with world(tmp_path) as fleet:
        fleet.seed(1)
        fleet.crowd.reboot(0, boot_id="b2", machine_id="m-other")
        fleet.advance(10)
        before = fleet.state("n0")
        fleet.beat("n0", boot_id="b1", seq=900)
        fleet.advance(1)

        assert fleet.state("n0") == before
        assert fleet.derived("n0").state == "ready"


@pytest.mark.parametrize(
    ("machine", "is_sticky", "stays"),
    [("m-new", False, False), ("m-new", True, True), ("m-old", False, True), ("m-old", True, True)],
)
@pytest.mark.parametrize("verb", ["cordon", "drain", "enter_maintenance"])
def test_b19_intent_stays_with_the_machine_unless_it_was_placed_on_the_name(
    tmp_path: Path, verb: str, machine: str, is_sticky: bool, stays: bool
) -> None:
    script = f"""
        {{"type": "node.registered", "node": "web-2", "inc": "b1", "machine": "m-old", "seq": 1}}
        {{"type": "op.{verb}", "node": "web-2", "by": "ops-a", "reason": "fan",
            "sticky": {str(is_sticky).lower()}}}
        {{"type": "node.registered", "node": "web-2", "inc": "b2", "machine": "{machine}", "seq": 1}}
        {{"op": "assert", "node": "web-2", "holds": {json.dumps(["ops-a"] if stays else [])}}}
    """
    with scenario(tmp_path, script) as fleet:
        told = fleet.changes("web-2")
        became = "identity.rebooted" if machine == "m-old" else "identity.replaced"

        assert told.count("intent.changed") == (1 if stays else 2)
        assert ("intent.changed" in told[told.index(became) :]) == (not stays)
        assert (fleet.derived("web-2").intent == "open") == (not stays)


def test_b20_a_reboot_waits_for_the_gates_again_and_keeps_intent(tmp_path: Path) -> None:
    script = """
        {"type": "node.registered", "node": "gpu-1", "inc": "b1", "machine": "m1", "gates": ["driver",
            "mig"], "seq": 1}
        {"type": "node.heartbeat", "node": "gpu-1", "inc": "b1", "seq": 2}
        {"op": "advance", "by_s": 3}
        {"op": "assert", "node": "gpu-1", "state": "pending", "conditions": ["warming"], "schedulable": false}
        {"type": "node.gate", "node": "gpu-1", "inc": "b1", "gate": "driver", "ok": true, "seq": 3}
        {"op": "assert", "node": "gpu-1", "state": "pending"}
        {"type": "node.gate", "node": "gpu-1", "inc": "b1", "gate": "mig", "ok": true, "seq": 4}
        {"op": "assert", "node": "gpu-1", "state": "ready", "conditions": [], "schedulable": true}
        {"type": "op.cordon", "node": "gpu-1", "by": "ops-b", "reason": "firmware"}
        {"type": "node.registered", "node": "gpu-1", "inc": "b2", "machine": "m1", "gates": ["driver"],
            "seq": 1}
        {"type": "node.heartbeat", "node": "gpu-1", "inc": "b2", "seq": 2}
        {"op": "advance", "by_s": 3}
        {"op": "assert", "node": "gpu-1", "holds": ["ops-b"], "conditions": ["warming"], "schedulable": false}
        {"type": "node.gate", "node": "gpu-1", "inc": "b2", "gate": "driver", "ok": true, "seq": 3}
        {"op": "assert", "node": "gpu-1", "conditions": [], "schedulable": false}
        {"type": "op.uncordon", "node": "gpu-1", "by": "ops-b"}
        {"op": "assert", "node": "gpu-1", "state": "ready", "schedulable": true}
    """
    with scenario(tmp_path, script) as fleet:
        assert "identity.rebooted" in fleet.changes("gpu-1")


def test_b21_a_zombie_does_not_come_back_and_is_told_that_it_is_gone(tmp_path: Path) -> None:
    script = """
        {"type": "node.registered", "node": "old-5", "inc": "q1", "machine": "m-5", "seq": 1}
        {"type": "node.heartbeat", "node": "old-5", "inc": "q1", "seq": 2}
        {"op": "advance", "by_s": 5}
        {"type": "op.deleted", "node": "old-5", "by": "ops-b", "reason": "sold"}
        {"op": "advance", "by_s": 20}
        {"type": "node.heartbeat", "node": "old-5", "inc": "q1", "seq": 900}
        {"op": "advance", "by_s": 5}
        {"op": "assert", "node": "old-5", "state": "retired", "question": "gone", "lost_events": 0}
        {"type": "node.registered", "node": "old-5", "inc": "q1", "machine": "m-5", "seq": 901}
        {"op": "assert", "node": "old-5", "state": "retired"}
        {"op": "advance", "by_s": 300}
        {"op": "assert", "node": "old-5", "state": "retired", "lost_events": 0}
    """
    with scenario(tmp_path, script) as fleet:
        told = fleet.changes("old-5")
        shown = fleet.service.get("/nodes/old-5")

        assert told.count("lifecycle.retired") == 1
        assert told[-1] in ("lifecycle.retired", "state.retired")
        assert fleet.state("old-5").zombies == 1
        assert shown.status == 410
        assert fleet.service.get("/nodes").json["items"] == []
        assert [one["id"] for one in fleet.service.get("/nodes?state=retired").json["items"]] == ["old-5"]


def test_b21_a_new_machine_takes_a_retired_name_and_the_zombie_that_beats_on_does_not_touch_it(
    tmp_path: Path,
) -> None:
    with world(tmp_path) as fleet:
        fleet.seed(1)
        fleet.fact("operator", "n0", "retired", actor="ops", reason="sold")
        fleet.advance(5)
        fleet.crowd.reboot(0, boot_id="b2", machine_id="m-new")
        fleet.advance(20)
        before = fleet.state("n0")
        for seq in range(500, 510):
            fleet.beat("n0", boot_id="b1", seq=seq)
            fleet.advance(5)

        assert fleet.derived("n0").state == "ready"
        assert (before.incarnation, before.boot_id) == (2, "b2")
        assert fleet.state("n0").boot_id == "b2"
        assert fleet.told()["lost"] == 0


@pytest.mark.parametrize("order", [*permutations(["registered", "heartbeat", "heartbeat again"])])
def test_b23_a_heartbeat_before_the_registration_ends_where_the_other_order_does(
    tmp_path: Path, order: tuple[str, ...]
) -> None:
    lines = {
        "registered": '{"type": "node.registered", "node": "sap-1", "inc": "h1", "seq": 1, "name": "sap"}',
        "heartbeat": '{"type": "node.heartbeat", "node": "sap-1", "inc": "h1", "seq": 2}',
        "heartbeat again": '{"type": "node.heartbeat", "node": "sap-1", "inc": "h1", "seq": 3}',
    }
    script = "\n".join(
        [*[f'{lines[one]}\n{{"op": "advance", "by_s": 4}}' for one in order],
         '{"op": "assert", "node": "sap-1", "state": "ready", "schedulable": true, "conditions": []}']
    )  # fmt: skip
    with scenario(tmp_path, script) as fleet:
        asked = [word for _, word in fleet.asked]

        assert fleet.state("sap-1").hostname == "sap"
        assert fleet.about("sap-1") == ["alive"]
        assert asked == ([] if order[0] == "registered" else ["register"])


def test_b25_clones_of_one_image_are_named_and_the_record_does_not_flip(tmp_path: Path) -> None:
    clones, rounds = 20, 12
    with world(tmp_path) as fleet:
        for clone in range(clones):
            _clone_registers(fleet, clone, seq=1)
        flips = set()
        for beat in range(2, 2 + rounds):
            for clone in range(clones):
                fleet.beat("uuid-0", boot_id=f"k{clone}", seq=10 * beat)
            fleet.advance(5)
            if "register" in [word for _, word in fleet.asked]:
                fleet.asked.clear()
                for clone in range(clones):
                    _clone_registers(fleet, clone, seq=10 * beat + 1)
                fleet.advance(1)
            flips.add(fleet.state("uuid-0").boot_id)
        node = fleet.state("uuid-0")

        assert len(flips) == 2
        assert "identity_conflict" in fleet.derived("uuid-0").conditions
        assert len(node.conflict) == MOST_CLAIMS + 1
        assert len(node.previous_boots) == PREVIOUS_BOOTS
        assert len(fleet.changes("uuid-0")) < 3 * clones


def _clone_registers(fleet: World, clone: int, *, seq: int) -> None:
    fleet.fact(
        "agent", "uuid-0", "registered",
        boot_id=f"k{clone}", seq=seq, machine_id="m-image", addresses=[f"192.0.2.{clone + 10}"],
    )  # fmt: skip


@pytest.mark.parametrize("machines", [("m-image", "m-image"), ("m-1", "m-2"), (None, None)])
def test_b25_two_that_beat_in_turn_are_a_conflict_that_names_both(
    tmp_path: Path, machines: tuple[str | None, str | None]
) -> None:
    with world(tmp_path) as fleet:
        for boot, machine in zip(("k1", "k2"), machines, strict=True):
            fleet.fact("agent", "uuid-0", "registered", boot_id=boot, seq=1, machine_id=machine)
        seen, seq = [], 2
        for _ in range(30):
            for boot in ("k1", "k2"):
                fleet.beat("uuid-0", boot_id=boot, seq=seq)
                seq += 1
                fleet.advance(5)
                if ("uuid-0", "register") in fleet.asked:
                    # An ask reaches both, since both listen on the subject of their id.
                    fleet.asked.clear()
                    for other, its in zip(("k1", "k2"), machines, strict=True):
                        fleet.fact("agent", "uuid-0", "registered", boot_id=other, seq=seq, machine_id=its)
                        seq += 1
                seen.append(fleet.state("uuid-0").boot_id)

        assert set(seen) == {"k2"}
        assert set(fleet.state("uuid-0").conflict) == {"k1", "k2"}
        assert fleet.changes("uuid-0").count("identity.conflict") == 1
        assert fleet.derived("uuid-0").state in ("ready", "pending")
        assert fleet.told()["lost"] == 0


def test_b27_a_registration_loop_is_a_counter(tmp_path: Path) -> None:
    script = """
        {"op": "repeat", "times": 2000, "event": {"type": "node.registered", "node": "loop-1", "inc": "z",
            "seq": 1, "hostname": "h"}}
        {"type": "node.registered", "node": "other", "inc": "z", "seq": 1}
    """
    with scenario(tmp_path, script) as fleet:
        for seq in range(2, 1_002):
            fleet.fact("agent", "loop-1", "registered", boot_id="z", seq=seq, hostname="h")
        fleet.settle()
        node = fleet.state("loop-1")

        assert fleet.changes("loop-1") == ["identity.registered", "state.pending"]
        assert (node.duplicates, node.identical) == (1_999, 1_000)
        assert fleet.derived("other").state == "pending"
        with fleet.service.projection.cursor() as cursor:
            bands = cursor.execute(
                "SELECT count(*) FROM fleet.node_history WHERE node_id = 'loop-1'"
            ).fetchall()
        assert bands == [(1,)]


def test_b27_our_agents_registration_is_stored_once_however_often_it_is_said(tmp_path: Path) -> None:
    with world(tmp_path) as fleet:
        fleet.seed(2)
        for _ in range(10_000):
            fleet.crowd.register(0)

        assert sum(fact.verb == "registered" and fact.node_id == "n0" for fact in fleet.log.facts()) <= 2


def test_b29_another_address_is_told_and_is_no_conflict(tmp_path: Path) -> None:
    script = """
        {"type": "node.registered", "node": "lg-1", "inc": "1", "addr": "192.0.2.108", "seq": 1}
        {"type": "node.registered", "node": "lg-1", "inc": "1", "addr": "192.0.2.177", "seq": 2}
        {"op": "assert", "node": "lg-1", "conditions": [], "boot": "1", "incarnation": 1}
    """
    with scenario(tmp_path, script) as fleet:
        assert fleet.state("lg-1").addresses == ("192.0.2.177",)
        assert fleet.changes("lg-1") == ["identity.registered", "state.pending", "address.changed"]


def test_b31_a_phantom_is_out_of_the_lists_once_it_is_retired_and_stays_in_history(tmp_path: Path) -> None:
    script = """
        {"op": "seed", "nodes": 3, "prefix": "vps-"}
        {"op": "kill_node", "node": "vps-1"}
        {"op": "advance", "by_s": 100}
        {"type": "op.retire", "node": "vps-1", "by": "ops", "reason": "gone for a month"}
        {"op": "restart_projector", "down_s": 5}
        {"op": "advance", "by_s": 100}
        {"op": "assert", "node": "vps-1", "state": "retired", "lost_events": 1}
    """
    with scenario(tmp_path, script) as fleet:
        listed = [one["id"] for one in fleet.service.get("/nodes").json["items"]]
        with fleet.service.projection.cursor() as cursor:
            words = cursor.execute(
                "SELECT state FROM fleet.node_history WHERE node_id = 'vps-1' ORDER BY cause_seq"
            ).fetchall()

        assert listed == ["vps-0", "vps-2"]
        assert words == [("pending",), ("ready",), ("lost",), ("retired",)]
        assert fleet.told() == {"alive": 3, "lost": 1}


def test_b31_a_node_that_stays_lost_is_retired_once_and_after_that_it_is_quiet(tmp_path: Path) -> None:
    with world(tmp_path) as fleet:
        fleet.service.retire_after = timedelta(days=30)
        fleet.seed(4, prefix="vps-")
        fleet.fact("operator", "vps-2", "cordoned", actor="ops", owner="ops", reason="evidence")
        fleet.fact("platform", "vps-3", "allocated", workload="w1", amounts={"cpu": 1})
        for number in (1, 2, 3):
            fleet.power(f"vps-{number}", is_on=False)
        fleet.advance(29 * DAY_S, tick_s=3_600)
        early = fleet.derived("vps-1").state
        fleet.advance(3 * DAY_S, tick_s=3_600)
        head = fleet.log.head("FLEET")
        fleet.advance(DAY_S, tick_s=3_600)
        node = fleet.state("vps-1")

        assert early == "lost"
        assert [fleet.derived(f"vps-{n}").state for n in range(4)] == ["ready", "retired", "lost", "lost"]
        assert node.retirement is not None
        assert node.retirement.actor == "fleetfold"
        assert "30 days" in node.retirement.reason
        assert fleet.log.head("FLEET") == head
        assert fleet.changes("vps-1").count("lifecycle.retired") == 1


def test_b34_a_report_about_another_node_is_quarantined_and_a_protected_label_ignored(tmp_path: Path) -> None:
    script = """
        {"type": "node.registered", "node": "node-a", "inc": "1", "seq": 1}
        {"type": "node.inventory", "node": "node-a",
            "raw_json": "{\\"boot_id\\": \\"1\\", \\"seq\\": 2, \\"node_id\\": \\"node-b\\"}"}
        {"type": "node.inventory", "node": "node-a", "inc": "1", "seq": 3,
            "labels": {"fleetfold/tier": "pci", "rack": "r1"}}
        {"op": "assert", "node": "node-a", "labels": {"rack": "r1"}, "conditions": ["report_warnings"]}
    """
    with scenario(tmp_path, script) as fleet:
        with fleet.service.projection.cursor() as cursor:
            kept = cursor.execute("SELECT reason, node_id FROM fleet.quarantine").fetchall()

        assert kept == [("subject_mismatch", "node-a")]
        assert fleet.node("node-b") is None
        assert [one for one in fleet.state("node-a").warnings if one.startswith("protected_label")]


# Operator intent.


def test_b35_what_ends_with_a_shutdown_is_over_when_the_agent_is_back(tmp_path: Path) -> None:
    script = """
        {"type": "node.registered", "node": "w-1", "inc": "b1", "machine": "m", "seq": 1}
        {"type": "node.heartbeat", "node": "w-1", "inc": "b1", "seq": 2}
        {"op": "advance", "by_s": 5}
        {"type": "op.cordon", "node": "w-1", "by": "ops", "owner": "hw-team", "reason": "fan"}
        {"type": "node.leaving", "node": "w-1", "inc": "b1", "seq": 3, "cause": "shutdown"}
        {"op": "assert", "node": "w-1", "holds": ["hw-team"], "conditions": ["leaving"], "schedulable": false}
        {"type": "op.uncordon", "node": "w-1", "by": "ops", "owner": "hw-team"}
        {"op": "assert", "node": "w-1", "holds": [], "schedulable": false}
        {"op": "advance", "by_s": 120}
        {"type": "node.registered", "node": "w-1", "inc": "b2", "machine": "m", "seq": 1}
        {"type": "node.heartbeat", "node": "w-1", "inc": "b2", "seq": 2}
        {"op": "advance", "by_s": 5}
        {"op": "assert", "node": "w-1", "state": "ready", "holds": [], "conditions": [], "schedulable": true}
    """
    with scenario(tmp_path, script) as fleet:
        assert fleet.about("w-1") == ["alive", "lost", "alive"]


def test_b39_a_report_touches_no_label_that_an_operator_declared(tmp_path: Path) -> None:
    script = """
        {"type": "node.registered", "node": "r-1", "inc": "1", "seq": 1, "labels": {"role": "primary"}}
        {"type": "op.label", "node": "r-1", "labels": {"ops/role": "primary", "role": "kept"}}
        {"type": "node.inventory", "node": "r-1", "inc": "1", "seq": 9, "labels": {"role": "replica",
            "ops/role": "mine"}}
        {"op": "assert", "node": "r-1", "labels": {"ops/role": "primary", "role": "kept"}}
        {"type": "op.label", "node": "r-1", "labels": {"role": null}}
        {"op": "assert", "node": "r-1", "labels": {"ops/role": "primary", "role": "replica"}}
    """
    with scenario(tmp_path, script):
        pass


def test_b40_a_service_that_lost_its_tables_asks_nobody_what_the_log_still_says(tmp_path: Path) -> None:
    script = """
        {"op": "seed", "nodes": 5}
        {"op": "wipe_projection"}
        {"op": "assert", "lost_events": 0, "within_s": 60}
    """
    with scenario(tmp_path, script) as fleet:
        assert {fleet.liveness(f"n-{number}") for number in range(5)} == {"alive"}
        assert fleet.asked == []


def test_b40_a_log_that_was_lost_is_repaired_by_its_agents_within_two_intervals(tmp_path: Path) -> None:
    with world(tmp_path) as fleet:
        fleet.crowd.tells_digest = True
        ids = fleet.seed(8, hostname="h")
        fleet.lose_the_log()
        fleet.advance(2 * fleet.rules.interval_s + 5)

        assert {fleet.derived(node).state for node in ids} == {"ready"}
        assert {fleet.state(node).hostname for node in ids} == {"h"}
        assert {word for _, word in fleet.asked} == {"register"}
        assert len(fleet.asked) <= 2 * len(ids)


def test_b40_another_inventory_than_the_registered_one_is_asked_for(tmp_path: Path) -> None:
    with world(tmp_path) as fleet:
        fleet.crowd.tells_digest = True
        fleet.seed(3)
        fleet.crowd.said[1]["hostname"] = "renamed"
        fleet.advance(2 * fleet.rules.interval_s)

        assert fleet.asked == [(NodeId("n1"), "register")]
        assert fleet.state("n1").hostname == "renamed"


# Of the same kinds, in any order.

steps = st.lists(
    st.one_of(
        st.tuples(st.just("boot"), st.integers(2, 6)),
        st.tuples(st.just("beat"), st.integers(1, 6)),
        st.tuples(st.just("retire"), st.just(0)),
        st.tuples(st.just("restore"), st.just(0)),
        st.tuples(st.just("cordon"), st.just(0)),
        st.tuples(st.just("wait"), st.sampled_from([3, 40])),
        st.tuples(st.just("restart"), st.sampled_from([1, 40])),
    ),
    max_size=8,
)


@few
@given(steps)
def test_whatever_happens_to_an_identity_a_retired_node_is_silent_and_the_rest_is_answered(
    found: list[tuple[str, int]],
) -> None:
    with TemporaryDirectory() as folder, world(Path(folder)) as fleet:
        fleet.seed(2)
        seq = 1_000
        for kind, number in found:
            seq += 1
            match kind:
                case "boot":
                    machine = f"m{number % 2}"
                    fleet.fact("agent", "n0", "registered", boot_id=f"b{number}", seq=seq, machine_id=machine)
                case "beat":
                    fleet.beat("n0", boot_id=f"b{number}", seq=seq)
                case "retire":
                    fleet.fact("operator", "n0", "retired", actor="ops")
                case "restore":
                    fleet.fact("operator", "n0", "restored", actor="ops")
                case "cordon":
                    fleet.fact("operator", "n0", "cordoned", actor="ops", owner="ops")
                case "wait":
                    fleet.advance(number)
                case _:
                    fleet.restart(down_s=number)
            fleet.settle()
            _check_retired_is_silent(fleet)
        fleet.advance(100)
        _check_retired_is_silent(fleet)

        assert fleet.about("n1") == ["alive"]


def _check_retired_is_silent(fleet: World) -> None:
    node = fleet.state("n0")
    if node.retired_at is not None:
        told = fleet.changes("n0")
        assert fleet.derived("n0").state == "retired"
        after = told[len(told) - 1 - told[::-1].index("lifecycle.retired") :]
        assert "state.lost" not in after
        assert "state.ready" not in after
