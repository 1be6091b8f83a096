"""Scenarios of capacity, labels and payloads, on a clock that the test moves."""

from __future__ import annotations

import json
import math
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from events.facts import Registered
from events.ids import NodeId, from_token, token
from events.subjects import beat_subject, fact_subject
from projections.capacity import capacity
from tests.support.folding import life
from tests.support.scenario.script import scenario
from tests.support.scenario.world import world


@pytest.mark.parametrize(
    "numbers", [(64, 0, 1, 100, 64), (64, 4, 1, 100, 60), (64, 4, 2, 121, 120), (10, 1, 0.5, 5, 4.5)]
)
def test_b42_free_is_negative_and_flagged_once_after_the_ratio_fell(
    tmp_path: Path, numbers: tuple[float, ...]
) -> None:
    total, reserved, ratio, given_away, allocatable = numbers
    script = f"""
        {{"type": "node.inventory", "node": "hv-1", "inc": "1", "seq": 1,
          "resources": {{"cpu": {{"total": {total}, "reserved": {reserved}, "ratio": 4.0}}}}}}
        {{"type": "node.allocated", "node": "hv-1", "resources": {{"cpu": {given_away}}}}}
        {{"type": "op.ratio", "node": "hv-1", "cpu": {ratio}}}
        {{"type": "op.ratio", "node": "hv-1", "cpu": {ratio}}}
    """
    with scenario(tmp_path, script) as fleet:
        (cpu,) = capacity(fleet.state("hv-1"))
        (shown,) = fleet.service.get("/nodes/hv-1").json["resources"]
        with fleet.service.projection.cursor() as cursor:
            (free,) = cursor.execute("SELECT free FROM fleet.capacity WHERE node_id = 'hv-1'").fetchall()

        assert (cpu.allocatable, cpu.free) == (
            Decimal(str(allocatable)),
            Decimal(str(allocatable - given_away)),
        )
        assert "overcommitted" in cpu.flags
        assert "overcommitted" in fleet.derived("hv-1").conditions
        assert float(shown["free"]) == float(free[0]) == allocatable - given_away
        assert fleet.changes("hv-1").count("capacity.deficit") == 1


def test_b43_a_shared_name_is_a_condition_and_refuses_nobody(tmp_path: Path) -> None:
    script = """
        {"type": "node.registered", "node": "uuid-1", "inc": "1", "name": "cmp-17", "seq": 1}
        {"type": "node.registered", "node": "uuid-2", "inc": "1", "name": "cmp-17", "seq": 1}
        {"op": "assert", "node": "uuid-1", "state": "pending"}
        {"op": "assert", "node": "uuid-2", "state": "pending"}
    """
    with scenario(tmp_path, script) as fleet:
        shared = [fleet.service.get(f"/nodes/{node}").json["conditions"] for node in ("uuid-1", "uuid-2")]
        fleet.fact("operator", "uuid-1", "retired", actor="ops", reason="replaced")
        fleet.settle()

        assert all("name_shared" in conditions for conditions in shared)
        assert "name_shared" not in fleet.service.get("/nodes/uuid-2").json["conditions"]


def test_b44_a_source_that_is_unavailable_is_not_a_card_less(tmp_path: Path) -> None:
    script = """
        {"type": "node.inventory", "node": "g-1", "inc": "1", "seq": 1, "resources": {"gpu": {"total": 16}}}
        {"type": "node.inventory", "node": "g-1", "inc": "1", "seq": 2,
          "resources": {"gpu": {"total": 0, "source": "error"}}}
        {"op": "assert", "node": "g-1", "gpu": {"total": null, "free": null, "total_last_known": 16}}
        {"type": "node.inventory", "node": "g-1", "inc": "1", "seq": 3,
          "resources": {"gpu": {"source": "error"}}}
        {"op": "assert", "node": "g-1", "gpu": {"total": null, "total_last_known": 16}}
        {"type": "node.inventory", "node": "g-1", "inc": "1", "seq": 4, "resources": {"gpu": {"total": 0}}}
        {"op": "assert", "node": "g-1", "gpu": {"total": 0, "total_last_known": null}}
        {"type": "node.inventory", "node": "g-1", "inc": "1", "seq": 5, "resources": {}}
    """
    with scenario(tmp_path, script) as fleet:
        with fleet.service.projection.cursor() as cursor:
            causes = cursor.execute(
                "SELECT after->'$.gpu' FROM fleet.changes WHERE node_id = 'g-1' AND kind = 'capacity' "
                "ORDER BY cause_seq"
            ).fetchall()
        told = [json.loads(one[0]) for one in causes]

        assert [one and (one["total"], one.get("total_last_known"), one.get("source")) for one in told] == [
            (16, None, None), (None, 16, "error"), (0, None, None), None,
        ]  # fmt: skip


@given(
    st.lists(st.sampled_from([("total", n) for n in (0, 4, 8)] + [("error", 0), ("error", 9)]), min_size=1)
)
@settings(max_examples=40)
def test_b44_whatever_came_before_the_last_good_value_is_kept(said: list[tuple[str, int]]) -> None:
    node, good = life(), None
    for seq, (kind, total) in enumerate(said, 1):
        gpu = {"total": total, **({"source": "error"} if kind == "error" else {})}
        node.tell(Registered.model_validate({"boot_id": "b1", "seq": seq, "resources": {"gpu": gpu}}))
        good = total if kind == "total" else good
    (found,) = capacity(node.state)

    assert found.total == (good if said[-1][0] == "total" else None)
    assert (found.total if said[-1][0] == "total" else found.last_known) == good


def test_b46_five_numbers_and_what_they_mean(tmp_path: Path) -> None:
    script = """
        {"type": "node.inventory", "node": "g-3", "inc": "1", "seq": 1, "resources": {"gpu": {"total": 1}}}
        {"type": "node.allocated", "node": "g-3", "resources": {"gpu": 1}}
        {"op": "assert", "node": "g-3",
          "gpu": {"total": 1, "reserved": null, "allocatable": 1, "allocated": 1, "free": 0}}
        {"type": "node.released", "node": "g-3"}
        {"op": "assert", "node": "g-3", "gpu": {"allocatable": 1, "allocated": 0, "free": 1}}
    """
    with scenario(tmp_path, script) as fleet:
        with fleet.service.projection.cursor() as cursor:
            told = cursor.execute(
                "SELECT column_name, comment FROM duckdb_columns() WHERE schema_name = 'fleet' AND "
                "table_name = 'capacity' AND column_name IN "
                "('total', 'reserved', 'allocatable', 'allocated', 'free')"
            ).fetchall()

        assert len(told) == 5
        assert all(comment for _, comment in told)


@pytest.mark.parametrize("odd", ["NaN", "Infinity", "-Infinity", '"N/A"', "null", '"NaN"'])
def test_b47_a_number_that_is_none_breaks_no_answer(tmp_path: Path, odd: str) -> None:
    with world(tmp_path) as fleet:
        fleet.seed(1)
        subject = beat_subject(NodeId("n0")).encode()
        body = f'{{"boot_id":"b1","seq":900,"used":{{"cpu":{odd},"memory":5}}}}'.encode()
        fleet.log.append_beat(subject, body, at_s=fleet.clocks.broker_s(fleet.clocks.steady))
        fleet.settle()
        got = fleet.service.get("/nodes/n0")
        beat = fleet.service.projection.heartbeat(NodeId("n0"))
        with fleet.service.projection.cursor() as cursor:
            nans = cursor.execute("SELECT count(*) FROM fleet.usage WHERE isnan(used)").fetchall()
            kept = cursor.execute("SELECT node_id, field FROM fleet.quarantine").fetchall()

        assert got.status == 200
        assert got.json["id"] == "n0"
        assert beat is not None
        assert (beat.last_seq, beat.used["memory"]) == (900, 5.0)
        assert beat.used.get("cpu") is None
        assert kept == ([("n0", "used.cpu")] if odd.startswith('"') else [])
        assert nans == [(0,)]


def test_b48_one_bad_value_costs_no_other_row(tmp_path: Path) -> None:
    with world(tmp_path) as fleet:
        at_s = fleet.clocks.broker_s(0)
        rows = {"a": b'{"boot_id":"b","seq":1,"used":{"cpu":0.5}}', "b": b'{"boot_id":"b","seq":"x"}',
                "c": b'{"boot_id":"b","seq":1,"used":{"cpu":0.7}}'}  # fmt: skip
        for node, body in rows.items():
            fleet.log.append_beat(beat_subject(NodeId(node)).encode(), body, at_s=at_s)
        fleet.settle()
        with fleet.service.projection.cursor() as cursor:
            used = cursor.execute("SELECT node_id, used FROM fleet.usage ORDER BY node_id").fetchall()
            kept = cursor.execute("SELECT node_id, field, reason FROM fleet.quarantine").fetchall()

        assert used == [("a", 0.5), ("c", 0.7)]
        assert [(node, field) for node, field, _ in kept] == [("b", "seq")]


@pytest.mark.parametrize("zone", ["中文", "Default Group", "é", "e\u0301", "a.b *>", "x" * 200])
def test_b50_a_zone_has_any_name(tmp_path: Path, zone: str) -> None:
    with world(tmp_path) as fleet:
        fleet.seed(12, zone=zone)
        fleet.link(zone=zone, is_up=False)
        fleet.advance(60)
        shown = {item["zone"] for item in fleet.service.get("/nodes").json["items"]}

        assert {fleet.derived(f"n{n}").state for n in range(12)} == {"ready"}
        assert len(shown) == 1
        assert fleet.told() == {"alive": 12, "silent": 1}


def test_b51_a_very_long_label_is_cut_with_a_warning_and_the_node_registers(tmp_path: Path) -> None:
    long, longest = "g" * 5_000, "h" * 1_024
    with world(tmp_path) as fleet:
        fleet.seed(1, labels={"group": long, "fits": longest})
        node = fleet.state("n0")

        assert fleet.derived("n0").state == "ready"
        assert node.labels["fits"] == longest
        assert len(node.labels["group"].encode()) <= 1_024
        assert node.labels["group"].startswith("g" * 900)
        assert node.labels["group"] != "g" * len(node.labels["group"])
        assert [one for one in node.warnings if "group" in one]


NAMES = ["a.b *>:~ c", "a..b", "a.b", "*", ">", "a b", "%2E", "a%2Eb", "fleet.v1.>", "ü/ö", "-", "x" * 250]


def test_b52_no_name_widens_a_subscription_and_every_one_comes_back(tmp_path: Path) -> None:
    with world(tmp_path) as fleet:
        for name in NAMES:
            fleet.fact("agent", name, "registered", boot_id="b1", seq=1)
        fleet.settle()
        subjects = [fact_subject("agent", NodeId(name), "registered") for name in NAMES]

        assert len(set(subjects)) == len(NAMES)
        assert {len(subject.split(".")) for subject in subjects} == {5}
        assert not any(character in token(NodeId(name)) for name in NAMES for character in "*> .")
        assert [from_token(token(NodeId(name))) for name in NAMES] == NAMES
        listed = {item["id"] for item in fleet.service.get("/nodes?limit=100").json["items"]}
        assert listed == set(NAMES)


def test_b54_an_inventory_that_is_too_large_costs_no_heartbeat(tmp_path: Path) -> None:
    devices = [{"id": f"d{n}", "kind": "nic", "reason": "x" * 150} for n in range(1_000)]
    with world(tmp_path) as fleet:
        fleet.seed(1, devices=devices[:300])
        fleet.advance(60)

        assert fleet.derived("n0").state == "ready"
        assert len(fleet.state("n0").devices) == 300
        assert math.isfinite(fleet.service.picture.roster.spoke[0])
