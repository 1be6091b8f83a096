"""smolfleet, as its agents speak it, over a real broker: the life of a node, and who may change what."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from api.dialects import gateway
from events.facts import Allocated, Cordoned, LabelsSet, Lost, MaintenanceEntered
from events.ids import node_id
from projections.state import OWNERS, NodeState
from tests.support.asgi import Got
from tests.support.brokers import AnyBroker
from tests.support.facts_said import say
from tests.support.loops import on_a_loop
from tests.support.serving import Serving, serving
from tests.support.spoken import speak, told

NODE = "smolfleet:node-a"
INFO: dict[str, Any] = {
    "id": "node-a",
    "address": "10.0.0.11:9000",
    "smolvmAddress": "http://10.0.0.11:8080",
    "status": "ready",
    "totalCpus": 64,
    "availableCpus": 60,
    "totalMemoryMb": 262144,
    "availableMemoryMb": 250000,
    "totalDiskGb": 2000,
    "availableDiskGb": 1500,
    "labels": {"arch": "amd64"},
    "registeredAt": "2026-06-01T10:00:00Z",
}


async def _register(served: Serving, **changed: object) -> dict[str, Any]:
    got = await speak(served.app, "POST", "/v1/nodes/register", {**INFO, **changed})
    assert got.status == 200, got.body
    info: dict[str, Any] = told(got)
    return info


async def _beat(served: Serving, body: object = None) -> dict[str, Any]:
    got = await speak(served.app, "POST", "/v1/nodes/node-a/heartbeat", body)
    assert got.status == 200, got.body
    info: dict[str, Any] = told(got)
    return info


async def _get(served: Serving, native_id: str = "node-a") -> Got:
    return await speak(served.app, "GET", f"/v1/nodes/{quote(native_id, safe='')}")


def _state(served: Serving) -> NodeState:
    state = served.projection.node(node_id(NODE))
    assert state is not None
    return state


@on_a_loop
async def test_a_node_lives_from_registration_to_deletion_and_back(broker: AnyBroker, tmp_path: Path) -> None:
    async with serving(broker, tmp_path) as served:
        registered = await _register(served, lastHeartbeatAt=None)
        beat = await _beat(served)
        drained = await speak(served.app, "POST", "/v1/nodes/node-a/drain")
        again = await _register(served, status="ready", registeredAt="2026-09-09T00:00:00Z")
        undrained = await speak(served.app, "POST", "/v1/nodes/node-a/undrain")
        deleted = await speak(served.app, "DELETE", "/v1/nodes/node-a")
        gone, still_beats = await _get(served), await speak(served.app, "POST", "/v1/nodes/node-a/heartbeat")
        back = await _register(served, registeredAt="2026-10-10T00:00:00Z")
        state = _state(served)

    assert registered == {**INFO, "lastHeartbeatAt": None, "runtime": "smolvm"}
    assert beat["status"] == "ready"
    assert beat["lastHeartbeatAt"].endswith("Z")
    assert (drained.status, told(drained)["status"]) == (200, "draining")
    assert (again["status"], again["registeredAt"]) == ("draining", INFO["registeredAt"])
    assert told(undrained)["status"] == "ready"
    assert (deleted.status, deleted.body) == (204, b"")
    assert [(one.status, told(one)["code"]) for one in (gone, still_beats)] == [(404, "missing")] * 2
    assert (back["registeredAt"], back["lastHeartbeatAt"]) == ("2026-10-10T00:00:00Z", None)
    assert (state.incarnation, state.boot_id) == (2, "smolfleet-2")


@on_a_loop
async def test_what_is_said_again_appends_nothing(broker: AnyBroker, tmp_path: Path) -> None:
    async with serving(broker, tmp_path) as served:
        await _register(served)
        first = await served.fleet_seq()
        await _register(served)
        await _beat(served)
        await _beat(served, {"availableCpus": INFO["availableCpus"], "unknown": [1]})
        for _ in range(2):
            await speak(served.app, "POST", "/v1/nodes/node-a/undrain")
        same = await served.fleet_seq()
        changed = await _beat(served, {"availableCpus": 12, "labels": {}})
        last = await served.fleet_seq()
        inventory = _state(served).dialect

    assert (first, same, last) == (1, 1, 2)
    assert (changed["availableCpus"], changed["labels"]) == (12, {})
    assert inventory is not None
    assert inventory["monitored"] is True


@on_a_loop
async def test_used_amounts_are_measured_and_their_absence_is_not_zero(
    broker: AnyBroker, tmp_path: Path
) -> None:
    async with serving(broker, tmp_path) as served:
        registered = await _register(served, usedCpus=60.5)
        measured = await _beat(served, {"usedCpus": 2.25, "usedMemoryMb": 0})
        silent = await _beat(served)
        beat = served.projection.heartbeat(node_id(NODE))
        fresh = await _register(served, totalCpus=65)

    assert (registered["usedCpus"], "usedMemoryMb" in registered) == (60.5, False)
    assert (measured["usedCpus"], measured["usedMemoryMb"], "usedDiskGb" in measured) == (2.25, 0, False)
    assert (silent["usedCpus"], silent["usedMemoryMb"]) == (2.25, 0)
    assert beat is not None
    assert beat.used == {"cpu": 2.25, "memory": 0}
    assert not {"usedCpus", "usedMemoryMb", "usedDiskGb"} & fresh.keys()


@on_a_loop
async def test_a_report_changes_nothing_that_it_does_not_own(broker: AnyBroker, tmp_path: Path) -> None:
    async with serving(broker, tmp_path) as served:
        await _register(served)
        await _beat(served)
        await say(served, NODE, Cordoned(owner="ops", actor="ops", reason="disk"))
        await say(served, NODE, LabelsSet(labels={"arch": "declared", "tier": "gold"}))
        await say(
            served, NODE, Allocated(workload="vm-1", amounts={"cpu": Decimal(4), "memory": Decimal(2**30)})
        )
        before = _state(served)

        again = await _register(served, availableCpus=64, availableMemoryMb=262144, status="ready")
        beat = await _beat(served, {"status": "ready", "availableCpus": 63, "labels": {"arch": "arm64"}})
        after = _state(served)

    kept = [name for owner in ("operator", "platform", "liveness") for name in OWNERS[owner]]
    assert [getattr(after, name) for name in kept] == [getattr(before, name) for name in kept]
    assert after.registered_at == before.registered_at
    for info in (again, beat):
        assert info["status"] == "draining"
        assert info["labels"] == {"arch": "declared", "tier": "gold"}
        assert (info["availableCpus"], info["availableMemoryMb"]) == (60, 262144 - 1024)
        assert info["availableDiskGb"] == INFO["availableDiskGb"]


@on_a_loop
async def test_a_lost_node_that_registers_is_waited_for_anew(broker: AnyBroker, tmp_path: Path) -> None:
    async with serving(broker, tmp_path) as served:
        await _register(served)
        heard = (await _beat(served))["lastHeartbeatAt"]
        await say(served, NODE, Lost(boot_id="smolfleet-1", silent_s=45.0, grace_s=45.0))
        lost = told(await _get(served))
        back = await _register(served, status="starting")
        state = _state(served)
        beat = await _beat(served)

    assert (lost["status"], lost["lastHeartbeatAt"]) == ("unreachable", heard)
    assert (back["status"], back["lastHeartbeatAt"]) == ("starting", heard)
    assert (state.liveness, state.boot_id, state.incarnation) == ("pending", "smolfleet-2", 1)
    assert beat["status"] == "ready"
    assert beat["lastHeartbeatAt"] > heard


@on_a_loop
async def test_a_revoked_credential_ends_reports_and_nothing_else(broker: AnyBroker, tmp_path: Path) -> None:
    async with serving(broker, tmp_path) as served:
        await _register(served)
        revoked = await speak(served.app, "DELETE", "/v1/nodes/node-a/credential")
        refused = [
            await speak(served.app, "POST", "/v1/nodes/register", INFO),
            await speak(served.app, "POST", "/v1/nodes/node-a/heartbeat"),
        ]
        listed = told(await speak(served.app, "GET", "/v1/nodes"))
        seq = await served.fleet_seq()

    assert (revoked.status, revoked.body) == (204, b"")
    assert [(one.status, told(one)["code"]) for one in refused] == [(403, "credential_revoked")] * 2
    assert [one["id"] for one in listed] == ["node-a"]
    assert seq == 2


@on_a_loop
async def test_a_node_that_holds_work_is_not_deleted(broker: AnyBroker, tmp_path: Path) -> None:
    async with serving(broker, tmp_path) as served:
        await _register(served)
        await say(served, NODE, Allocated(workload="vm-1"))
        refused = await speak(served.app, "DELETE", "/v1/nodes/node-a")
        there = await _get(served)

    assert (refused.status, told(refused)["code"]) == (409, "conflict")
    assert there.status == 200


@on_a_loop
async def test_a_drain_of_somebody_else_stands(broker: AnyBroker, tmp_path: Path) -> None:
    async with serving(broker, tmp_path) as served:
        await _register(served)
        await _beat(served)
        await say(served, NODE, MaintenanceEntered(owner="ops"))
        for _ in range(2):
            await speak(served.app, "POST", "/v1/nodes/node-a/drain")
        undrained = told(await speak(served.app, "POST", "/v1/nodes/node-a/undrain"))
        holds = _state(served).standing_holds

    assert undrained["status"] == "draining"
    assert [(hold.kind, hold.owner) for hold in holds] == [("maintenance", "ops")]


@on_a_loop
async def test_registrations_that_meet_lose_nothing(broker: AnyBroker, tmp_path: Path) -> None:
    async with serving(broker, tmp_path) as served:
        answers = await asyncio.gather(
            *(_register(served, totalCpus=n, registeredAt=f"2026-06-{n:02}") for n in range(1, 9)),
            *(speak(served.app, "POST", "/v1/nodes/node-a/drain") for _ in range(4)),
        )
        infos = [one for one in answers if isinstance(one, dict)]
        last, state = told(await _get(served)), _state(served)
        seq = await served.fleet_seq()

    assert len({info["registeredAt"] for info in infos}) == 1
    assert last["registeredAt"] == infos[0]["registeredAt"]
    assert (state.boot_id, state.duplicates, state.reordered) == ("smolfleet-1", 0, 0)
    assert seq == state.version == 8 + len(state.standing_holds)


@pytest.mark.parametrize("native_id", ["a/b", "ü ö", "*.>", "%2F", "a\x00b", "x" * 240, "e\u0301"])
@on_a_loop
async def test_an_id_may_be_any_text(broker: AnyBroker, tmp_path: Path, native_id: str) -> None:
    async with serving(broker, tmp_path) as served:
        registered = await _register(served, id=native_id)
        path = f"/v1/nodes/{quote(native_id, safe='')}"
        beat = await speak(served.app, "POST", f"{path}/heartbeat")
        found = await _get(served, native_id)

    assert registered["id"] == native_id
    assert (beat.status, found.status) == (200, 200)
    assert told(found)["id"] == native_id


@on_a_loop
async def test_an_id_that_fits_nowhere_is_refused(broker: AnyBroker, tmp_path: Path) -> None:
    async with serving(broker, tmp_path) as served:
        got = await speak(served.app, "POST", "/v1/nodes/register", {**INFO, "id": "x" * 241})
        seq = await served.fleet_seq()

    assert (got.status, told(got)["code"], seq) == (422, "invalid", 0)


@on_a_loop
async def test_a_report_that_no_record_can_hold_is_413(broker: AnyBroker, tmp_path: Path) -> None:
    labels = {f"label-{n}": "x" * 900 for n in range(71)}
    async with serving(broker, tmp_path) as served:
        got = await speak(served.app, "POST", "/v1/nodes/register", {**INFO, "labels": labels})

    assert (got.status, told(got)["code"]) == (413, "oversized")


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("totalCpus", True), ("totalCpus", 1.5), ("totalCpus", -1), ("totalCpus", 2**63), ("totalCpus", None),
        ("totalCpus", 5e-324), ("usedMemoryMb", 2.6e-42),
        ("usedCpus", "2"), ("usedCpus", True), ("usedMemoryMb", -1), ("labels", {"a": None}), ("id", ""),
        ("runtime", 1), ("lastHeartbeatAt", 5), ("address", None),
    ],
)  # fmt: skip
@on_a_loop
async def test_nothing_is_coerced(broker: AnyBroker, tmp_path: Path, member: str, value: object) -> None:
    async with serving(broker, tmp_path) as served:
        got = await speak(served.app, "POST", "/v1/nodes/register", {**INFO, member: value})
        seq = await served.fleet_seq()

    assert (got.status, told(got)["code"], seq) == (422, "invalid", 0)
    assert member in told(got)["error"]


@on_a_loop
async def test_another_reader_of_the_log_gives_the_same_answers(broker: AnyBroker, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    async with serving(broker, tmp_path) as served:
        await _register(served, usedCpus=1.5)
        await _beat(served, {"usedDiskGb": 7})
        await speak(served.app, "POST", "/v1/nodes/node-a/drain")
        await _register(served, id="node-b")
        first = await speak(served.app, "GET", "/v1/nodes")
        async with serving(broker, tmp_path / "other") as other:
            for stream, cursor in served.projection.cursors().items():
                assert await other.projector.wait_for(stream, cursor.seq, timeout_s=20)
            second = await speak(other.app, "GET", "/v1/nodes")

    assert first.body == second.body
    assert [one["id"] for one in told(first)] == ["node-a", "node-b"]


@on_a_loop
async def test_while_the_broker_is_away_nothing_is_acknowledged(
    own_broker: AnyBroker, tmp_path: Path
) -> None:
    patched = pytest.MonkeyPatch()
    patched.setattr(gateway, "BEAT_WITHIN_S", 0.2)
    try:
        async with serving(own_broker, tmp_path) as served:
            await _register(served)
            own_broker.kill()
            beat = await speak(served.app, "POST", "/v1/nodes/node-a/heartbeat")
            there = await _get(served)
            own_broker.start()
    finally:
        patched.undo()

    assert (beat.status, told(beat)["code"]) == (503, "unavailable")
    assert there.status == 200
