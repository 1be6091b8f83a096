"""Aria PIN, as its node agent speaks it, over a real broker: the life of an agent, and whose it is."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from pathlib import Path

from events.facts import Allocated, Cordoned, LabelsSet, Lost
from projections.state import OWNERS
from tests.support.aria_pin import (
    GPU,
    OTHER,
    TOKEN,
    agents,
    aria_pin,
    beat,
    register,
    registered,
    state_of,
)
from tests.support.brokers import AnyBroker
from tests.support.facts_said import say
from tests.support.loops import on_a_loop
from tests.support.spoken import speak, told


@on_a_loop
async def test_an_agent_lives_from_registration_to_removal_and_back(
    broker: AnyBroker, tmp_path: Path
) -> None:
    async with aria_pin(broker, tmp_path) as served:
        first = await registered(served)
        heard = told(await beat(served, id=first["id"]))
        used = {"index": 0, "mem_used_gb": 12.345, "used_slots": 1}
        busy = told(await beat(served, id=first["id"], gpus=[used], status="training"))
        silent = told(await beat(served, id=first["id"]))
        shown = told(await speak(served.app, "GET", f"/v1/agents/{first['id']}", token=TOKEN))
        removed = await speak(served.app, "DELETE", f"/v1/agents/{first['id']}", token=TOKEN)
        gone = [
            await beat(served, id=first["id"]),
            await speak(served.app, "GET", f"/v1/agents/{first['id']}", token=TOKEN),
        ]
        listed = await agents(served)
        back = await registered(served)
        state = state_of(served, first["id"])

    assert first == heard == {
        "id": first["id"], "name": "gpu-node-01", "gpu_count": 1, "gpus": [GPU], "status": "online"
    }  # fmt: skip
    assert len(first["id"]) == 29
    assert busy["gpus"] == silent["gpus"] == [{**GPU, "mem_used_gb": 12.345, "used_slots": 1}]
    assert {name: shown[name] for name in ("version", "labels", "reported_status")} == {
        "version": "1.2.0", "labels": ["production"], "reported_status": "training"
    }  # fmt: skip
    assert shown["last_heartbeat_at"] > shown["registered_at"]
    assert (removed.status, removed.body) == (204, b"")
    assert [one.status for one in gone] == [404, 404]
    assert listed == []
    assert (back["id"], state.incarnation) == (first["id"], 2)


@on_a_loop
async def test_what_is_said_again_appends_nothing(broker: AnyBroker, tmp_path: Path) -> None:
    async with aria_pin(broker, tmp_path) as served:
        first = await registered(served)
        for at in range(3):
            await registered(served, gpus=[{**GPU, "mem_used_gb": at, "used_slots": at % 2}])
            await beat(served, id=first["id"], gpus=[{"index": 0, "mem_used_gb": at + 0.5}])
        seq = await served.fleet_seq()
        last = await registered(served, gpus=None, labels=None, version=None)
        same = await served.fleet_seq()

    assert (seq, same) == (1, 1)
    assert last["gpus"] == [{**{name: GPU[name] for name in GPU if name != "used_slots"}, "mem_used_gb": 2.5}]


@on_a_loop
async def test_a_heartbeat_lists_the_gpus_that_there_are(broker: AnyBroker, tmp_path: Path) -> None:
    two = [GPU, {**GPU, "index": 1}]
    async with aria_pin(broker, tmp_path) as served:
        agent = await registered(served, gpus=two)
        fewer = told(await beat(served, id=agent["id"], gpus=[{"index": 1, "used_slots": 1}]))
        again = told(await beat(served, id=agent["id"], gpus=[{"index": 1}, {"index": 4, "model": "L4"}]))
        none = told(await beat(served, id=agent["id"], gpus=[]))

    kept = {name: GPU[name] for name in ("model", "mem_total_gb", "slots")}
    assert fewer["gpus"] == [{"index": 1, **kept, "used_slots": 1}]
    assert again["gpus"] == [{"index": 1, **kept}, {"index": 4, "model": "L4"}]
    assert (none["gpu_count"], none["gpus"]) == (0, [])


@on_a_loop
async def test_gigabytes_keep_every_digit(broker: AnyBroker, tmp_path: Path) -> None:
    sizes = [b"79.15", b"0.1", b"80.000000001", b"8589934592", b"1234567890.123456789", b"80.0", b"0"]
    listed = b",".join(b'{"index":%d,"mem_total_gb":%b}' % (at, size) for at, size in enumerate(sizes))
    raw = b'{"id":"g","name":"n","gpus":[%b]}' % listed
    async with aria_pin(broker, tmp_path) as served:
        got = await speak(served.app, "POST", "/v1/agent/register", raw=raw, token=TOKEN)
        shown = await speak(served.app, "GET", "/v1/agents/g", token=TOKEN)
        devices = state_of(served, "g").devices

    for answer in (got, shown):
        assert answer.status == 200, answer.body
        for at, size in enumerate(sizes):
            spelled = size.removesuffix(b".0")
            assert b'{"index":%d,"mem_total_gb":%b}' % (at, spelled) in answer.body
    assert [device.memory for device in devices[:2]] == [84_986_665_370, 107_374_182]


@on_a_loop
async def test_a_report_changes_nothing_that_it_does_not_own(broker: AnyBroker, tmp_path: Path) -> None:
    async with aria_pin(broker, tmp_path) as served:
        agent = await registered(served)
        node = f"aria-pin:{agent['id']}"
        await say(served, node, Cordoned(owner="ops", actor="ops", reason="fan"))
        await say(served, node, LabelsSet(labels={"production": "declared", "tier": "gold"}))
        await say(served, node, Allocated(workload="job-1", amounts={"slot": Decimal(1)}))
        before = state_of(served, agent["id"])

        again = await registered(served, status="online", labels=["x"], used_slots=0)
        heard = told(await beat(served, id=agent["id"], status="online", gpus=[{**GPU, "used_slots": 0}]))
        after = state_of(served, agent["id"])
        refused = await speak(served.app, "DELETE", f"/v1/agents/{agent['id']}", token=TOKEN)
        (shown,) = await agents(served)

    kept = [name for owner in ("operator", "platform", "liveness") for name in OWNERS[owner]]
    assert [getattr(after, name) for name in kept] == [getattr(before, name) for name in kept]
    assert after.registered_at == before.registered_at
    assert {again["status"], heard["status"]} == {"maintenance"}
    assert refused.status == 409
    assert shown["labels"] == ["x", "production=declared", "tier=gold"]


@on_a_loop
async def test_a_planned_row_waits_for_its_agent(broker: AnyBroker, tmp_path: Path) -> None:
    async with aria_pin(broker, tmp_path) as served:
        made = await speak(
            served.app, "POST", "/v1/agents", {"id": "ag_pre1", "name": "planned"}, token=TOKEN
        )
        again = await speak(
            served.app, "POST", "/v1/agents", {"id": "ag_pre1", "name": "planned"}, token=OTHER
        )
        named = [
            await speak(served.app, "POST", "/v1/agents", {"name": "by-name"}, token=TOKEN) for _ in range(2)
        ]
        early = await beat(served, id="ag_pre1")
        listed = await agents(served)
        by_id = await registered(served, token=OTHER, id="ag_pre1", name="gpu-node-07")
        by_name = await registered(served, token=OTHER, name="by-name")
        taken = await speak(served.app, "POST", "/v1/agents", {"id": "ag_pre1", "name": "x"}, token=TOKEN)

    assert (made.status, again.status) == (201, 200)
    assert told(made) == told(again)
    assert [one.status for one in named] == [201, 200]
    assert told(made)["status"] == "pending"
    assert early.status == 404
    assert sorted(one["name"] for one in listed) == ["by-name", "planned"]
    assert (by_id["id"], by_id["name"], by_id["status"]) == ("ag_pre1", "gpu-node-07", "online")
    assert by_name["id"] == told(named[0])["id"]
    assert taken.status == 409


@on_a_loop
async def test_a_planned_row_may_be_removed_and_planned_anew(broker: AnyBroker, tmp_path: Path) -> None:
    plan = {"id": "ag_pre1", "name": "planned"}
    async with aria_pin(broker, tmp_path) as served:
        await speak(served.app, "POST", "/v1/agents", plan, token=TOKEN)
        removed = await speak(served.app, "DELETE", "/v1/agents/ag_pre1", token=TOKEN)
        none = await agents(served)
        again = await speak(served.app, "POST", "/v1/agents", {**plan, "name": "other"}, token=TOKEN)
        await registered(served, id="ag_pre1")
        await speak(served.app, "DELETE", "/v1/agents/ag_pre1", token=TOKEN)
        refused = await speak(served.app, "POST", "/v1/agents", plan, token=TOKEN)

    assert (removed.status, none) == (204, [])
    assert (again.status, told(again)["name"]) == (201, "other")
    assert refused.status == 409


@on_a_loop
async def test_one_token_and_one_name_are_one_agent(broker: AnyBroker, tmp_path: Path) -> None:
    async with aria_pin(broker, tmp_path) as served:
        at_once = await asyncio.gather(*(registered(served) for _ in range(8)))
        other_token = await registered(served, token=OTHER)
        other_name = await registered(served, name="gpu-node-02")
        empty_id = await registered(served, id="")
        listed = await agents(served)

    ids = {agent["id"] for agent in at_once}
    assert len(ids) == 1
    assert empty_id["id"] in ids
    assert len({*ids, other_token["id"], other_name["id"]}) == len(listed) == 3


@on_a_loop
async def test_another_machine_under_a_living_name_is_another_agent(
    broker: AnyBroker, tmp_path: Path
) -> None:
    other = {"gpus": [{**GPU, "model": "H100"}]}
    async with aria_pin(broker, tmp_path) as served:
        first = await registered(served)
        second = await registered(served, **other)
        again = [await registered(served, **other), await registered(served)]
        state = state_of(served, first["id"])
        changes = served.projection.cursor().execute(
            "SELECT node_id, after FROM fleet.changes WHERE kind = 'identity' AND detail = 'conflict'"
        )
        told_of = changes.fetchall()
        seq = await served.fleet_seq()
        await say(served, f"aria-pin:{first['id']}", Lost(boot_id="aria-pin-1", silent_s=90, grace_s=90))
        await say(served, f"aria-pin:{second['id']}", Lost(boot_id="aria-pin-1", silent_s=90, grace_s=90))
        rebuilt = await registered(served, gpus=[{**GPU, "model": "B200"}])

    assert second["id"] != first["id"]
    assert [one["id"] for one in again] == [second["id"], first["id"]]
    assert state.conflict == ("aria-pin-1", f"aria-pin-1@{second['id']}")
    assert [row[0] for row in told_of] == [f"aria-pin:{first['id']}"]
    assert second["id"] in told_of[0][1]
    assert seq == 3
    assert rebuilt["id"] == first["id"]


@on_a_loop
async def test_an_agent_speaks_with_its_own_token_alone(broker: AnyBroker, tmp_path: Path) -> None:
    async with aria_pin(broker, tmp_path) as served:
        await registered(served, id="ag_a")
        renamed = await registered(served, id="ag_a", name="renamed")
        refused = [
            await register(served, token=OTHER, id="ag_a"),
            await beat(served, token=OTHER, id="ag_a"),
            await speak(served.app, "DELETE", "/v1/agents/ag_a", token=OTHER),
        ]
        seq = await served.fleet_seq()
        facts = served.projection.cursor().execute("SELECT data::VARCHAR FROM fleet.facts").fetchall()

    assert renamed["name"] == "renamed"
    assert [one.status for one in refused] == [409] * 3
    assert seq == 2
    assert not any(token in str(facts) for token in (TOKEN, OTHER))


@on_a_loop
async def test_a_token_that_is_no_more_binds_nobody(broker: AnyBroker, tmp_path: Path) -> None:
    async with aria_pin(broker, tmp_path / "old", TOKEN) as served:
        by_id = await registered(served, id="ag_a", name="a")
        by_name = await registered(served, name="b")
    async with aria_pin(broker, tmp_path / "new", OTHER) as served:
        await served.answers.reached(await served.fleet_seq())
        again = [
            await registered(served, token=OTHER, id="ag_a", name="a"),
            await registered(served, token=OTHER, name="b"),
        ]
        old = await register(served, id="ag_a", name="a")

    assert [one["id"] for one in again] == [by_id["id"], by_name["id"]]
    assert old.status == 401


@on_a_loop
async def test_more_slots_used_than_there_are_is_noted_and_taken(broker: AnyBroker, tmp_path: Path) -> None:
    async with aria_pin(broker, tmp_path) as served:
        agent = await registered(served, gpus=[{**GPU, "used_slots": 3}])
        noted = (state_of(served, agent["id"]).dialect or {})["attributes"]["findings"]
        await beat(served, id=agent["id"], gpus=[{**GPU, "used_slots": 5}])
        same = await served.fleet_seq()
        await beat(served, id=agent["id"], gpus=[GPU])
        after = (state_of(served, agent["id"]).dialect or {})["attributes"]

    assert agent["gpus"] == [{**GPU, "used_slots": 3}]
    assert noted == ["gpu-0: used_slots is above slots"]
    assert same == 1
    assert "findings" not in after


@on_a_loop
async def test_a_lost_agent_is_offline_and_begins_a_boot_when_it_registers(
    broker: AnyBroker, tmp_path: Path
) -> None:
    async with aria_pin(broker, tmp_path) as served:
        agent = await registered(served)
        node = f"aria-pin:{agent['id']}"
        await say(served, node, Lost(boot_id="aria-pin-1", silent_s=90.0, grace_s=90.0))
        (offline,) = await agents(served)
        back = await registered(served, version="1.3.0")
        state = state_of(served, agent["id"])

    assert offline["status"] == "offline"
    assert (back["status"], state.boot_id, state.incarnation) == ("online", "aria-pin-2", 1)
