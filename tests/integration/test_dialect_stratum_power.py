"""Stratum's power actions: asked by people, carried out by hosts, proven by heartbeats."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

from events.facts import AnnotationsSet, Lost
from tests.support.brokers import AnyBroker
from tests.support.facts_said import say
from tests.support.loops import on_a_loop
from tests.support.serving import Serving
from tests.support.spoken import speak, told
from tests.support.stratum import AGENT, NODE, USER, admin, beaten, state_of, stratum


async def _power(served: Serving, action: str) -> dict[str, Any]:
    got = await admin(served, "POST", {"action": action}, below="/power")
    assert got.status == 202, got.body
    power: dict[str, Any] = told(got)["powerAction"]
    return power


async def _lost(served: Serving) -> None:
    await say(served, NODE, Lost(boot_id=state_of(served).boot_id or "", silent_s=180.0, grace_s=180.0))


@on_a_loop
async def test_a_shutdown_goes_off_and_is_done_once_the_node_beats_again(
    broker: AnyBroker, tmp_path: Path
) -> None:
    async with stratum(broker, tmp_path) as served:
        first = await beaten(served)
        asked = await _power(served, "shutdown")
        beat = await beaten(served)
        await _lost(served)
        off = told(await admin(served, "GET"))
        back = await beaten(served)
        later = await beaten(served, totalVCPUs=65)
        state = state_of(served)
        changes = served.projection.cursor().execute("SELECT kind || '.' || detail FROM fleet.changes")
        announced = [row[0] for row in changes.fetchall()]

    assert "powerAction" not in first
    assert datetime.fromisoformat(asked["notBefore"]) > datetime.fromisoformat(first["lastSeenAt"])
    assert {name: asked[name] for name in ("action", "state", "generation", "lastControlPlane")} == {
        "action": "shutdown", "state": "shutting-down", "generation": 1, "lastControlPlane": True,
    }  # fmt: skip
    assert asked["powerOn"] == {"powerButton": True}
    assert (beat["powerAction"]["state"], beat["state"]) == ("shutting-down", "ready")
    assert (off["powerAction"]["state"], off["state"]) == ("off", "unreachable")
    assert (back["powerAction"]["state"], later["powerAction"]["state"]) == ("done", "done")
    gone = {datetime.fromisoformat(record["powerAction"]["offAt"]) for record in (off, back, later)}
    assert len(gone) == 1
    assert (state.boot_id, state.incarnation) == ("stratum-2", 1)
    assert "identity.rebooted" in announced


@on_a_loop
async def test_a_reboot_is_done_after_a_gap_and_a_new_action_is_another_one(
    broker: AnyBroker, tmp_path: Path
) -> None:
    async with stratum(broker, tmp_path) as served:
        await beaten(served)
        await beaten(served, "hv-02")
        asked = await _power(served, "reboot")
        still = await beaten(served)
        await _lost(served)
        gone = told(await admin(served, "GET"))
        done = await beaten(served)
        again = await _power(served, "shutdown")
        boot_id = state_of(served).boot_id

    assert (asked["state"], asked["lastControlPlane"], "powerOn" in asked) == ("rebooting", False, False)
    assert (still["powerAction"]["state"], gone["powerAction"]["state"]) == ("rebooting", "rebooting")
    assert done["powerAction"]["state"] == "done"
    assert "offAt" not in done["powerAction"]
    assert (again["state"], again["generation"], boot_id) == ("shutting-down", 2, "stratum-2")


@on_a_loop
async def test_without_an_action_a_node_that_was_lost_is_back_in_the_same_boot(
    broker: AnyBroker, tmp_path: Path
) -> None:
    async with stratum(broker, tmp_path) as served:
        await beaten(served)
        await _lost(served)
        await beaten(served)
        state = state_of(served)
        seq = await served.fleet_seq()

    assert (state.boot_id, seq) == ("stratum-1", 2)


@on_a_loop
async def test_only_administrators_decide_and_only_agents_report(broker: AnyBroker, tmp_path: Path) -> None:
    node, body = "/v1/compute/nodes/hv-01", {"action": "reboot"}
    calls = [
        ("PUT", f"{node}/heartbeat", {}), ("GET", node, None), ("GET", "/v1/compute/nodes", None),
        ("PATCH", node, {}), ("POST", f"{node}/power", body), ("DELETE", node, None),
    ]  # fmt: skip
    async with stratum(broker, tmp_path) as served:
        await beaten(served)
        statuses = {
            token: [
                (await speak(served.app, method, path, sent, token=token)).status
                for method, path, sent in calls
            ]
            for token in (None, "wrong", "ü", AGENT, USER)
        }
        wrong = await speak(served.app, "GET", node, token="wrong")
        basic = await speak(served.app, "GET", node, headers={"authorization": f"Basic {USER}"})
        seq = await served.fleet_seq()

    assert statuses == {
        None: [401] * 6,
        "wrong": [401] * 6,
        "ü": [401] * 6,
        AGENT: [400, 200, 200, 403, 403, 403],
        USER: [403, 200, 200, 403, 403, 403],
    }
    assert told(wrong)["code"] == "UNAUTHENTICATED"
    assert wrong.headers["www-authenticate"] == "Bearer"
    assert basic.status == 401
    assert seq == 1


@on_a_loop
async def test_an_annotation_that_somebody_else_wrote_is_no_action(broker: AnyBroker, tmp_path: Path) -> None:
    odd = [
        "no JSON", "[]", "{}", '{"action": "explode"}', "[" * 50_000,
        '{"action":"reboot","generation":"1","notBefore":"2026-01-01T00:00:00","after":1,"lastControlPlane":1}',
    ]  # fmt: skip
    async with stratum(broker, tmp_path) as served:
        await beaten(served)
        for text in odd:
            await say(served, NODE, AnnotationsSet(annotations={"stratum/power": text}))
            assert "powerAction" not in await beaten(served)
        asked = await _power(served, "shutdown")

    assert asked["generation"] == 1
