"""Stratum, as its hypervisor agent and its administrators speak it, over a real broker."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from api.dialects.rules import HostReservation
from events.facts import Allocated, Cordoned, LabelsSet, Lost
from events.ids import node_id
from projections.state import OWNERS
from tests.support.brokers import AnyBroker
from tests.support.facts_said import say
from tests.support.loops import on_a_loop
from tests.support.spoken import speak, told
from tests.support.stratum import AGENT, BEAT, CAPACITY, NODE, USER, admin, beaten, state_of, stratum


@on_a_loop
async def test_a_node_lives_from_its_first_heartbeat_to_its_deletion_and_back(
    broker: AnyBroker, tmp_path: Path
) -> None:
    async with stratum(broker, tmp_path) as served:
        first = await beaten(served)
        named = told(await admin(served, "PATCH", {"displayName": "rack 7, top", "state": "maintenance"}))
        beat = await beaten(served, role="hypervisor", hostname="stratum-01.local")
        released = told(await admin(served, "PATCH", {"displayName": None, "state": "ready"}))
        listed = told(await speak(served.app, "GET", "/v1/compute/nodes", token=USER))
        deleted = await admin(served, "DELETE")
        gone = await admin(served, "GET")
        back = await beaten(served)
        state = state_of(served)

    assert {name: value for name, value in first.items() if name not in ("lastSeenAt", "createdAt")} == {
        "id": "hv-01",
        "hostname": "stratum-01",
        "role": "hybrid",
        "region": "eu-1",
        "availabilityZone": "eu-1a",
        "architecture": "amd64",
        "state": "ready",
        "reservedVCPUs": 4,
        "committableVCPUs": 240,
        "reservedMemoryBytes": 8589934592,
        "committableMemoryBytes": (274877906944 - 8589934592) * 3 // 2,
        "reservationSource": "reported",
        "capacity": CAPACITY,
        "capabilities": {**BEAT["capabilities"], "topology.az": "eu-1a"},
    }
    assert (named["displayName"], named["state"]) == ("rack 7, top", "maintenance")
    assert (beat["displayName"], beat["state"]) == ("rack 7, top", "maintenance")
    assert (beat["role"], beat["hostname"]) == ("hypervisor", "stratum-01.local")
    assert (released["state"], "displayName" in released) == ("ready", False)
    assert [one["id"] for one in listed["nodes"]] == ["hv-01"]
    assert (deleted.status, deleted.body) == (204, b"")
    assert (gone.status, told(gone)["code"]) == (404, "NODE_NOT_FOUND")
    assert (back["state"], state.incarnation, state.boot_id) == ("ready", 2, "stratum-2")
    assert back["createdAt"] > first["createdAt"]


@on_a_loop
async def test_a_heartbeat_that_says_nothing_new_appends_nothing(broker: AnyBroker, tmp_path: Path) -> None:
    async with stratum(broker, tmp_path) as served:
        first = await beaten(served)
        moved = await beaten(
            served, committedVCPUs=11, committedMemoryBytes=0, sampledAt="2026-04-15T12:01:00Z"
        )
        same = await served.fleet_seq()
        await beaten(served, capabilities=None, sampledAt="2026-04-15T12:02:00+00:00")
        still = await served.fleet_seq()
        changed = await beaten(served, totalVCPUs=128, sampledAt="2026-04-15T12:03:00Z")
        last = await served.fleet_seq()

    assert (same, still, last) == (1, 1, 2)
    assert moved["capacity"]["committedVCPUs"] == 11
    assert moved["capacity"]["committedMemoryBytes"] == 0
    assert moved["capacity"]["sampledAt"] == "2026-04-15T12:01:00Z"
    kept = {name: value for name, value in moved.items() if name not in ("lastSeenAt", "capacity")}
    assert kept == {name: first[name] for name in kept}
    assert changed["committableVCPUs"] == 496


@on_a_loop
async def test_a_heartbeat_sampled_earlier_never_overwrites_a_newer_one(
    broker: AnyBroker, tmp_path: Path
) -> None:
    async with stratum(broker, tmp_path) as served:
        await beaten(served)
        newest = await beaten(served, sampledAt="2026-04-15T12:05:00.250Z")
        seq = await served.fleet_seq()
        late = await beaten(served, sampledAt="2026-04-15T12:04:59Z", totalVCPUs=2, committedVCPUs=1)
        same = await beaten(served, sampledAt="2026-04-15T14:05:00.25+02:00", totalVCPUs=96)

    assert _differing(late, newest) == ["lastSeenAt"]
    assert late["lastSeenAt"] > newest["lastSeenAt"]
    assert seq == 1
    assert same["capacity"]["totalVCPUs"] == 96


def _differing(one: dict[str, Any], other: dict[str, Any]) -> list[str]:
    """Return which members differ."""
    return sorted(name for name in {**one, **other} if one.get(name) != other.get(name))


@on_a_loop
async def test_a_clock_that_is_ahead_does_not_shut_later_heartbeats_out(
    broker: AnyBroker, tmp_path: Path
) -> None:
    ahead = (datetime.now(UTC) + timedelta(days=400)).isoformat()
    async with stratum(broker, tmp_path) as served:
        await beaten(served, sampledAt=ahead)
        now = datetime.now(UTC).isoformat()
        after = await beaten(served, sampledAt=now, totalVCPUs=65)
        unset = await beaten(served, sampledAt="0001-01-01T00:00:00Z", totalVCPUs=66)

    assert (after["capacity"]["totalVCPUs"], unset["capacity"]["totalVCPUs"]) == (65, 66)


@on_a_loop
async def test_a_report_changes_nothing_that_it_does_not_own(broker: AnyBroker, tmp_path: Path) -> None:
    async with stratum(broker, tmp_path) as served:
        await beaten(served)
        await admin(served, "PATCH", {"displayName": "mine", "reservedVCPUs": 8})
        await admin(served, "POST", {"action": "reboot"}, below="/power")
        await say(served, NODE, Cordoned(owner="ops", actor="ops", reason="disk"))
        await say(served, NODE, LabelsSet(labels={"topology.rack": "r1", "capability.sec.tpm": "true"}))
        await say(
            served, NODE, Allocated(workload="vm-1", amounts={"cpu": Decimal(4), "net.sriov_vfs": Decimal(2)})
        )
        before = state_of(served)

        forged = await beaten(
            served,
            reservedVCPUs=0,
            reservedMemoryBytes=0,
            capabilities={
                "topology.rack": "r9",
                "topology.az": "moon",
                "capability.sec.tpm": "false",
                "capability.net.sriov_vfs": "4",
                "committedCapabilities": "0",
            },
            state="ready",
            displayName="theirs",
            powerAction=None,
            committedCapabilities={"capability.net.sriov_vfs": 0},
            createdAt="2020-01-01T00:00:00Z",
        )
        after = state_of(served)

    kept = [name for owner in ("operator", "platform", "liveness") for name in OWNERS[owner]]
    assert [getattr(after, name) for name in kept] == [getattr(before, name) for name in kept]
    assert after.registered_at == before.registered_at
    assert (forged["state"], forged["displayName"]) == ("maintenance", "mine")
    assert (forged["reservedVCPUs"], forged["reservedMemoryBytes"]) == (8, 8589934592)
    assert forged["reservationSource"] == "operator"
    assert forged["capabilities"]["topology.rack"] == "r1"
    assert forged["capabilities"]["topology.az"] == "eu-1a"
    assert forged["capabilities"]["capability.sec.tpm"] == "true"
    assert forged["committedCapabilities"] == {"capability.net.sriov_vfs": 2}
    assert forged["powerAction"]["state"] == "rebooting"


@on_a_loop
async def test_what_a_node_cannot_have_costs_it_the_key_and_not_its_life(
    broker: AnyBroker, tmp_path: Path
) -> None:
    odd = {
        "capability.net.sriov_vfs": "-1",
        "capability.gpu.nvidia-a100": "1.5",
        "capability.accel.x": "",
        "capability.gpu.nvidia-l4": "007",
        "capability.gpu.present": "yes",
        "capability.cpu.threads": "many",
        "hasGpu": "true",
    }
    async with stratum(broker, tmp_path) as served:
        first = await beaten(served, capabilities=odd)
        findings = (state_of(served).dialect or {})["attributes"]["findings"]
        kept = await beaten(served, capabilities=None)
        unchanged = await served.fleet_seq()
        none = await beaten(served, capabilities={})

    published = {
        "capability.gpu.nvidia-l4": "007", "capability.cpu.threads": "many", "topology.az": "eu-1a"
    }  # fmt: skip
    assert first["capabilities"] == kept["capabilities"] == published
    assert [finding.partition(":")[0] for finding in findings] == [
        "capability.accel.x", "capability.gpu.nvidia-a100", "capability.gpu.present",
        "capability.net.sriov_vfs",
    ]  # fmt: skip
    assert unchanged == 1
    assert none["capabilities"] == {"topology.az": "eu-1a"}


@on_a_loop
async def test_what_is_left_out_has_the_defaults_of_the_installation(
    broker: AnyBroker, tmp_path: Path
) -> None:
    least = {
        "hostname": "h", "role": "storage", "architecture": "arm64",
        "capacity": {"totalVCPUs": 7, "totalMemoryBytes": 1},
    }  # fmt: skip
    async with stratum(broker, tmp_path, default_region="r0", default_availability_zone="z0") as served:
        got = await speak(served.app, "PUT", "/v1/compute/nodes/hv-01/heartbeat", least, token=AGENT)
        empty = await beaten(served, "hv-02", region="", availabilityZone="")
        columns = served.projection.cursor().execute(
            "SELECT region, zone, role FROM fleet.nodes WHERE node_id = $id", {"id": NODE}
        )
        row = columns.fetchone()

    record = told(got)
    assert (record["region"], record["availabilityZone"]) == ("r0", "z0")
    assert (empty["region"], empty["availabilityZone"]) == ("r0", "z0")
    assert row == ("r0", "z0", "storage")
    assert record["capacity"].keys() == {"totalVCPUs", "totalMemoryBytes", "sampledAt"}
    assert "reservedVCPUs" not in record
    assert record["committableVCPUs"] == 7


@on_a_loop
async def test_an_installations_reservation_is_the_operators(broker: AnyBroker, tmp_path: Path) -> None:
    kept = HostReservation(Decimal(10), 0)
    async with stratum(broker, tmp_path, is_single_node=True, host_reservation=kept) as served:
        first = await beaten(served)
        again = await beaten(served, totalVCPUs=200, totalMemoryBytes=2**40)
        given_back = told(await admin(served, "PATCH", {"reservedVCPUs": None}))
        await beaten(served)
        later = await beaten(served, totalVCPUs=200, totalMemoryBytes=2**40)

    computed = -(-274877906944 // 10)
    for record in (first, again):
        assert (record["reservedVCPUs"], record["reservationSource"]) == (10, "operator")
        assert record["reservedMemoryBytes"] == computed
    assert (given_back["reservedVCPUs"], given_back["reservationSource"]) == (12, "computed")
    assert (later["reservedVCPUs"], later["reservationSource"]) == (12, "computed")


@on_a_loop
async def test_a_state_that_others_hold_is_not_ended_here(broker: AnyBroker, tmp_path: Path) -> None:
    async with stratum(broker, tmp_path) as served:
        await beaten(served)
        await say(served, NODE, Cordoned(owner="ops", actor="ops", reason="disk"))
        refused = await admin(served, "PATCH", {"state": "ready", "displayName": "x"})
        record = told(await admin(served, "GET"))
        await say(served, NODE, Allocated(workload="vm-1"))
        kept = await admin(served, "DELETE")
        await say(served, NODE, Lost(boot_id="stratum-1", silent_s=180.0, grace_s=180.0))
        lost = told(await admin(served, "GET"))
        dead = await admin(served, "POST", {"action": "shutdown"}, below="/power")

    assert (refused.status, told(refused)["code"]) == (409, "NODE_HELD")
    assert "displayName" not in record
    assert (kept.status, dead.status) == (409, 409)
    assert lost["state"] == "unreachable"


@pytest.mark.parametrize("at_once", [12])
@on_a_loop
async def test_heartbeats_at_once_are_one_node(broker: AnyBroker, tmp_path: Path, at_once: int) -> None:
    async with stratum(broker, tmp_path) as served:
        records = await asyncio.gather(*(beaten(served) for _ in range(at_once)))
        seq = await served.fleet_seq()
        beat = served.projection.heartbeat(node_id(NODE))

    assert {record["id"] for record in records} == {"hv-01"}
    assert seq == 1
    assert beat is not None
    assert (beat.last_seq, beat.missed, beat.duplicates) == (at_once, 0, 0)
