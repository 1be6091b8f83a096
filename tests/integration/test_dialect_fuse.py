"""Fuse, as its operators speak it, over a real broker: the life of a host, and who may change what."""

from __future__ import annotations

import asyncio
import json
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from consumers.evaluator import Evaluator
from events.facts import (
    Allocated,
    Cordoned,
    Drained,
    LabelsSet,
    MaintenanceEntered,
    Registered,
    Released,
    Retired,
)
from events.ids import node_id
from projections.derive import derive
from projections.silence import LivenessRules
from projections.state import OWNERS
from tests.support.brokers import AnyBroker
from tests.support.facts_said import say
from tests.support.fuse import CAPACITY, body, error, fuse, fuse_rules, host, register, state_of
from tests.support.host_agents import PLAIN, WITH_GPUS, host_agent, nobody_listens
from tests.support.loops import on_a_loop
from tests.support.publishing import connect
from tests.support.serving import Serving, serving
from tests.support.spoken import told
from tests.support.waiting import until

NODE = "fuse:h1"
ZERO = {"cpus": 0, "ram_mb": 0, "storage_gb": 0, "vm_count": 0}
VM = Allocated(
    workload="vm-1",
    amounts={"cpu": Decimal(2), "memory": Decimal(2**31), "disk": Decimal(20 * 2**30), "vm": Decimal(1)},
)
HELD = {"cpus": 2, "ram_mb": 2048, "storage_gb": 20, "vm_count": 1}


async def _act(served: Serving, action: str, name: str = "h1") -> int:
    got = await fuse(served, "POST", f"/v1/hosts/{name}?action={action}")
    assert got.status != 204 or got.body == b""
    return got.status


@on_a_loop
async def test_a_host_lives_from_registration_to_deregistration_and_back(
    broker: AnyBroker, tmp_path: Path
) -> None:
    async with serving(broker, tmp_path, dialects=fuse_rules()) as served:
        with host_agent(PLAIN) as agent:
            first = await register(served, agent.url, region="us-east", labels={"disk": "nvme"})
            cordoned = [await _act(served, "cordon"), await _act(served, "cordon")]
            again = await register(served, agent.url, region="us-west")
            uncordoned = [await _act(served, "uncordon"), await _act(served, "uncordon")]
            active = await host(served)
            await say(served, NODE, VM)
            held = await fuse(served, "DELETE", "/v1/hosts/h1")
            await say(served, NODE, Released(workload="vm-1"))
            gone = await fuse(served, "DELETE", "/v1/hosts/h1")
            missing = [
                await fuse(served, method, target)
                for method, target in (
                    ("GET", "/v1/hosts/h1"),
                    ("DELETE", "/v1/hosts/h1"),
                    ("POST", "/v1/hosts/h1?action=cordon"),
                )
            ]
            back = await register(served, agent.url)
        state = state_of(served)

    assert {name: first[name] for name in ("id", "region", "state", "backend", "labels")} == {
        "id": "h1", "region": "us-east", "state": "active", "backend": "firecracker",
        "labels": {"disk": "nvme"},
    }  # fmt: skip
    assert (first["capacity"], first["allocated"]) == ({**CAPACITY, "arch": "amd64"}, ZERO)
    assert "warnings" not in first
    assert (cordoned, uncordoned) == ([204, 204], [204, 204])
    assert (again["state"], again["region"], "labels" in again) == ("cordoned", "us-west", False)
    assert again["warnings"] == ["host stays cordoned: a registration does not change who holds it"]
    assert (active["state"], active["created_at"]) == ("active", first["created_at"])
    assert active["updated_at"] > again["updated_at"] > first["updated_at"]
    assert error(held) == (409, "conflict")
    assert told(held)["error"]["message"] == "host h1 still has vm vm-1 assigned"
    assert (gone.status, gone.body) == (204, b"")
    assert [error(got) for got in missing] == [(404, "not_found")] * 3
    assert (back["state"], back["created_at"] > first["created_at"]) == ("active", True)
    assert (state.incarnation, state.boot_id) == (2, "fuse-2")


@on_a_loop
async def test_a_registration_changes_what_it_says_and_nothing_that_others_said(
    broker: AnyBroker, tmp_path: Path
) -> None:
    async with serving(broker, tmp_path, dialects=fuse_rules()) as served:
        with host_agent(PLAIN) as agent:
            first = await register(served, agent.url)
            for fact in (
                VM,
                Cordoned(owner="fuse"),
                Drained(owner="ops", reason="new disks"),
                MaintenanceEntered(owner="dc"),
                LabelsSet(labels={"rack": "r7"}),
            ):
                await say(served, NODE, fact)
            before = state_of(served)
            again = await register(
                served, agent.url, labels={"a": "b"}, backend="qemu", capacity={**CAPACITY, "cpus": 4}
            )
        after = state_of(served)

    for owner in ("operator", "platform", "liveness"):
        for name in OWNERS[owner]:
            assert getattr(after, name) == getattr(before, name), name
    assert (after.registered_at, after.incarnation, after.boot_id) == (
        before.registered_at,
        1,
        before.boot_id,
    )
    assert (again["created_at"], again["allocated"]) == (first["created_at"], HELD)
    assert (again["state"], again["backend"], again["capacity"]["cpus"]) == ("draining", "qemu", 4)
    assert again["labels"] == {"a": "b", "rack": "r7"}
    assert again["warnings"] == ["host stays draining: a registration does not change who holds it"]


@on_a_loop
async def test_as_documented_a_registration_is_a_fresh_record_and_the_log_keeps_the_old_one(
    broker: AnyBroker, tmp_path: Path
) -> None:
    async with serving(broker, tmp_path, dialects=fuse_rules(reregister="documented")) as served:
        with host_agent(PLAIN) as agent:
            first = await register(served, agent.url)
            for fact in (VM, Cordoned(owner="fuse"), Drained(owner="ops", sticky=True)):
                await say(served, NODE, fact)
            held = await host(served)
            again = await register(served, agent.url)
            third = await register(served, agent.url)
        state = state_of(served)

    assert (held["state"], held["allocated"]) == ("draining", HELD)
    assert (again["state"], again["allocated"], "warnings" in again) == ("active", ZERO, False)
    assert third["created_at"] > again["created_at"] > first["created_at"]
    assert (state.incarnation, state.boot_id, state.first_registered_at) == (
        3,
        "fuse-3",
        _time(first["created_at"]),
    )


@pytest.mark.parametrize("profile", ["safe", "documented"])
def test_a_registration_that_fails_leaves_the_host_as_it_was(
    broker: AnyBroker, tmp_path: Path, profile: str
) -> None:
    _test_a_failure(broker, tmp_path, profile)


@on_a_loop
async def _test_a_failure(broker: AnyBroker, folder: Path, profile: str) -> None:
    async with serving(broker, folder, dialects=fuse_rules(reregister=profile)) as served:
        with host_agent(PLAIN) as agent:
            await register(served, agent.url)
            await _act(served, "cordon")
            before, seq = await host(served), await served.fleet_seq()
            refused = [
                await fuse(served, "POST", "/v1/hosts", body(agent.url, token="wrong")),
                await fuse(served, "POST", "/v1/hosts", body(nobody_listens(), capacity={"vm_count": 1})),
                await fuse(served, "POST", "/v1/hosts", body(f"{agent.url}?")),
                await fuse(served, "POST", "/v1/hosts", body("http://169.254.169.254/latest")),
            ]
            after = await host(served)
        last = await served.fleet_seq()
        token = served.answers.service.secrets.token(
            state_of(served).node_id, fingerprint=str(_attributes(served)["token"])
        )

    assert [error(got) for got in refused] == [
        (502, "unauthorized"),
        (502, "internal"),
        (400, "invalid_argument"),
        (400, "invalid_argument"),
    ]
    assert (after, last, token) == (before, seq, "agent-token")


@on_a_loop
async def test_what_is_said_again_appends_nothing_and_is_a_contact(broker: AnyBroker, tmp_path: Path) -> None:
    async with serving(broker, tmp_path, dialects=fuse_rules()) as served:
        with host_agent(PLAIN) as agent:
            first = await register(served, agent.url, labels={"a": "1", "b": "2"})
            again = await register(served, agent.url, labels={"b": "2", "a": "1"})
        seq = await served.fleet_seq()
        state = state_of(served)
        away = await register(served, agent.url, labels={"a": "1", "b": "2"})
        native = (await served.ask("GET", "/fleet/v1/nodes/fuse%3Ah1")).json

    assert seq == 1
    assert again["last_seen"] > first["last_seen"]
    assert {**again, "last_seen": None} == {**first, "last_seen": None}
    assert (state.liveness, native["liveness"], native["state"], native["schedulable"]) == (
        "unmonitored",
        "unmonitored",
        "ready",
        True,
    )
    assert away["warnings"] == [
        f"could not verify host agent at {agent.url} (no connection); registering with declared capacity"
    ]


@on_a_loop
async def test_a_host_is_never_lost_however_long_it_says_nothing(broker: AnyBroker, tmp_path: Path) -> None:
    async with serving(broker, tmp_path, dialects=fuse_rules()) as served:
        rules = LivenessRules(interval_s=0.1, grace_s=0.3)
        evaluator = Evaluator(served.projection, lambda: connect(broker.url), rules)
        with host_agent(PLAIN) as agent:
            await register(served, agent.url)
            contact = await register(served, agent.url)
        await served.publish("fleet.v1.agent.n1.registered", b'{"boot_id":"b1","seq":1}')
        await evaluator.start()
        try:
            # A node of our own is silent for no longer than the host is.
            await until(
                lambda: getattr(served.projection.node(node_id("n1")), "liveness", "") == "lost",
                what="the node beside it is lost",
            )
        finally:
            await evaluator.stop()
        state, shown = state_of(served), await host(served)

    assert (state.liveness, state.verdict, derive(state).schedulable) == ("unmonitored", None, True)
    assert (shown["state"], shown["last_seen"]) == ("active", contact["last_seen"])


@on_a_loop
async def test_what_the_agent_answered_is_part_of_the_fact_and_a_replay_asks_nobody(
    broker: AnyBroker, tmp_path: Path
) -> None:
    (tmp_path / "anew").mkdir()
    with host_agent(WITH_GPUS) as agent:
        async with serving(broker, tmp_path, dialects=fuse_rules()) as served:
            await register(served, agent.url, backend="qemu", capacity={"vm_count": 4, "cpus": 128})
            await register(served, agent.url, "h2", capacity={"vm_count": 4})
            await _act(served, "cordon", "h2")
            before = [await host(served), await host(served, "h2")]
            attributes = _attributes(served)
        asked = len(agent.paths)
        async with serving(broker, tmp_path / "anew", dialects=fuse_rules()) as served:
            assert await served.projector.wait_for("FLEET", 3, timeout_s=20)
            after = [await host(served), await host(served, "h2")]
            devices = state_of(served).devices

    assert (after, len(agent.paths)) == (before, asked) == (before, 2)
    assert before[0]["capacity"] == {
        "cpus": 128, "ram_mb": 262144, "storage_gb": 2000, "vm_count": 4, "gpus": 2, "gpu_kind": "a100",
        "arch": "amd64", "gpu_devices": WITH_GPUS["gpu_devices"],
    }  # fmt: skip
    assert "gpus" not in before[1]["capacity"]
    assert attributes["probe"]["answer"] == WITH_GPUS
    assert attributes["findings"] == ["declared cpus (128) exceeds probed host capacity (64)"]
    assert [(one.device_id, one.memory) for one in devices] == [("GPU-abc", Decimal(40960 * 2**20))]


@on_a_loop
async def test_amounts_reach_analysts_in_our_units_with_where_they_come_from(
    broker: AnyBroker, tmp_path: Path
) -> None:
    async with serving(broker, tmp_path, dialects=fuse_rules()) as served:
        with host_agent(WITH_GPUS) as agent:
            await register(
                served,
                agent.url,
                backend="qemu",
                capacity={"vm_count": 4, "cpus": 2, "mig_profiles": {"1G.10GB": 7}},
            )
            await say(
                served, NODE, Allocated(workload="a", amounts={"cpu": Decimal("0.5"), "gpu": Decimal(1)})
            )
            await say(served, NODE, Allocated(workload="b", amounts={"mig.1g.10gb": Decimal(3)}))
        shown = await host(served)
        resources = state_of(served).resources

    assert {name: (one.total, one.source) for name, one in resources.items()} == {
        "cpu": (Decimal(2), "declared"),
        "memory": (Decimal(262144 * 2**20), "probed"),
        "disk": (Decimal(2000 * 2**30), "probed"),
        "vm": (Decimal(4), "declared"),
        "gpu": (Decimal(2), "probed"),
        "mig.1g.10gb": (Decimal(7), "declared"),
    }
    assert shown["allocated"] == {**ZERO, "cpus": 1, "vm_count": 2, "gpus": 1, "mig_profiles": {"1g.10gb": 3}}


@on_a_loop
async def test_free_space_that_was_probed_beside_vms_is_noted(broker: AnyBroker, tmp_path: Path) -> None:
    async with serving(broker, tmp_path, dialects=fuse_rules()) as served:
        with host_agent(PLAIN) as agent:
            await register(served, agent.url, capacity={"vm_count": 1})
            await say(served, NODE, VM)
            again = await register(served, agent.url, capacity={"vm_count": 1})

    assert again["warnings"] == ["storage_gb is what was free while VMs held some of it: declare it"]


@on_a_loop
async def test_holds_of_others_are_theirs_to_end(broker: AnyBroker, tmp_path: Path) -> None:
    async with serving(broker, tmp_path, dialects=fuse_rules()) as served:
        await register(served, nobody_listens())
        for fact in (Cordoned(owner="ops"), Drained(owner="fuse"), Cordoned(owner="fuse")):
            await say(served, NODE, fact)
        ended = await _act(served, "uncordon")
        left = await host(served)
        refused = await fuse(served, "POST", "/v1/hosts/h1?action=uncordon")
        owners = [hold.owner for hold in state_of(served).standing_holds]

    assert (ended, left["state"], error(refused), owners) == (204, "cordoned", (409, "conflict"), ["ops"])
    assert "ops" in told(refused)["error"]["message"]


@on_a_loop
async def test_a_list_is_paged_by_id_and_goes_on_over_hosts_that_are_gone(
    broker: AnyBroker, tmp_path: Path
) -> None:
    names = ["a/b c", "b", "c", "d", "ü"]
    async with serving(broker, tmp_path, dialects=fuse_rules()) as served:
        for name in reversed(names):
            await register(served, nobody_listens(), name)
        first = told(await fuse(served, "GET", "/v1/hosts?limit=2"))
        for name in ("b", "c"):
            assert (await fuse(served, "DELETE", f"/v1/hosts/{name}")).status == 204
        second = told(await fuse(served, "GET", f"/v1/hosts?limit=2&cursor={first['next_cursor']}"))
        all_of = [
            told(await fuse(served, "GET", f"/v1/hosts?limit={limit}"))
            for limit in ("", "0", "-1", "abc", "1.5", "99999999999999999999", "%D9%A3")
        ]
        odd = await host(served, "a/b c")
        refused = [
            await fuse(served, "GET", f"/v1/hosts?cursor={cursor}")
            for cursor in ("%21%21", "a", first["next_cursor"][:-1], "x" * 5000, "%00")
        ]
        empty = told(await fuse(served, "GET", "/v1/hosts?cursor="))

    assert [one["id"] for one in first["hosts"]] == ["a/b c", "b"]
    assert ([one["id"] for one in second["hosts"]], "next_cursor" in second) == (["d", "ü"], False)
    assert all(
        ([one["id"] for one in page["hosts"]], "next_cursor" in page) == (["a/b c", "d", "ü"], False)
        for page in (*all_of, empty)
    )
    assert odd["id"] == "a/b c"
    assert {error(got) for got in refused} == {(400, "invalid_argument")}


@on_a_loop
async def test_registration_can_be_switched_off(broker: AnyBroker, tmp_path: Path) -> None:
    async with serving(broker, tmp_path, dialects=fuse_rules(may_register=False)) as served:
        with host_agent(PLAIN) as agent:
            refused = await fuse(served, "POST", "/v1/hosts", body(agent.url))
            malformed = await fuse(served, "POST", "/v1/hosts", raw=b"{")

    assert (error(refused), error(malformed), agent.paths) == (
        (501, "unimplemented"),
        (501, "unimplemented"),
        [],
    )


@on_a_loop
async def test_the_same_registration_at_once_is_one_fact(broker: AnyBroker, tmp_path: Path) -> None:
    async with serving(broker, tmp_path, dialects=fuse_rules()) as served:
        with host_agent(PLAIN) as agent:
            shown = await asyncio.gather(*(register(served, agent.url) for _ in range(8)))
        assert await served.fleet_seq() == 1
        kept = served.answers.service.secrets.token(
            state_of(served).node_id, fingerprint=str(_attributes(served)["token"])
        )

    assert len({one["created_at"] for one in shown}) == 1
    assert kept == "agent-token"


@on_a_loop
async def test_the_facts_of_a_fresh_record_are_one_batch_and_name_the_request(
    broker: AnyBroker, tmp_path: Path
) -> None:
    async with serving(broker, tmp_path, dialects=fuse_rules(reregister="documented")) as served:
        await register(served, nobody_listens())
        await fuse(
            served, "POST", "/v1/hosts", body(nobody_listens()), headers={"X-Request-ID": "my-request_1"}
        )
        js = served.nc.jetstream()
        facts = [json.loads((await js.get_msg("FLEET", seq)).data or b"") for seq in (1, 2, 3)]

    assert [fact["type"].split(".")[-2] for fact in facts] == ["registered", "retired", "registered"]
    assert {fact["source"] for fact in facts} == {"/dialects/fuse"}
    assert (facts[1]["data"]["request_id"], facts[1]["data"]["actor"]) == ("my-request_1", "fuse")
    assert Registered.model_validate(facts[2]["data"]).boot_id == "fuse-2"
    assert Retired.model_validate(facts[1]["data"]).force


def _attributes(served: Serving) -> dict[str, Any]:
    found: dict[str, Any] = (state_of(served).dialect or {})["attributes"]
    return found


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)
