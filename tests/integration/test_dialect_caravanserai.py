"""Caravanserai, as its agent and its command line speak it, over a real broker."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from api.dialects.rules import CaravanseraiRules, DialectRules
from events.facts import Allocated, Cordoned, LabelsSet, Lost, Released
from events.ids import node_id
from projections.state import OWNERS, NodeState
from tests.support.asgi import Got
from tests.support.brokers import AnyBroker
from tests.support.facts_said import say
from tests.support.loops import on_a_loop
from tests.support.serving import Serving, serving
from tests.support.spoken import speak, told

NODE = "caravanserai:worker-01"
ZERO = "0001-01-01T00:00:00Z"
AGENT_CREATES: dict[str, Any] = {
    "apiVersion": "caravanserai/v1",
    "kind": "Node",
    "metadata": {"name": "worker-01", "createdAt": ZERO, "updatedAt": ZERO},
    "spec": {"hostname": "worker-01.local"},
    "status": {
        "state": "",
        "network": {
            "ip": "",
            "dnsName": "",
            "mode": "",
            "agentPort": 0,
            "throughput": {"upload": "", "download": "", "lastTestTime": ZERO},
        },
        "info": {"os": "", "arch": ""},
        "lastHeartbeat": ZERO,
    },
}
"""What a program that cannot leave out zero values sends: empty texts, zeros and the year 1."""
AGENT_BEATS: dict[str, Any] = {
    "state": "Ready",
    "network": {
        "ip": "100.64.0.5",
        "dnsName": "worker-01.tail.net",
        "mode": "Direct",
        "agentPort": 9090,
        "throughput": {"upload": "", "download": "", "lastTestTime": ZERO},
    },
    "capacity": {"cpu": "8", "memory": "16Gi", "disk": "500G"},
    "allocatable": {"cpu": "7500m", "memory": "15Gi", "disk": "450G"},
}
APPLIED: dict[str, Any] = {
    "apiVersion": "caravanserai/v1",
    "kind": "Node",
    "metadata": {"name": "worker-01", "labels": {"zone": "hsinchu"}, "annotations": {"note": "rack 3"}},
    "spec": {"hostname": "worker-01.local", "unschedulable": True},
}
DOCUMENTED = DialectRules(caravanserai=CaravanseraiRules(heartbeat_state="documented"))


async def _create(served: Serving, body: dict[str, Any] = AGENT_CREATES) -> dict[str, Any]:
    got = await speak(served.app, "POST", "/api/v1/nodes", body)
    assert got.status == 201, got.body
    node: dict[str, Any] = told(got)
    return node


async def _beat(served: Serving, body: object = AGENT_BEATS) -> None:
    got = await speak(served.app, "POST", "/api/v1/nodes/worker-01/heartbeat", body)
    assert (got.status, got.body) == (204, b""), got.body


async def _put(served: Serving, body: object) -> Got:
    return await speak(served.app, "PUT", "/api/v1/nodes/worker-01", body)


async def _get(served: Serving) -> dict[str, Any]:
    node: dict[str, Any] = told(await speak(served.app, "GET", "/api/v1/nodes/worker-01"))
    return node


def _state(served: Serving) -> NodeState:
    state = served.projection.node(node_id(NODE))
    assert state is not None
    return state


@on_a_loop
async def test_a_node_lives_as_its_agent_and_command_line_have_it(broker: AnyBroker, tmp_path: Path) -> None:
    async with serving(broker, tmp_path) as served:
        created = await _create(served)
        await _beat(served)
        ready = await _get(served)
        applied = [
            (await speak(served.app, "POST", "/api/v1/nodes", APPLIED)).status,
            (await _put(served, APPLIED)).status,
        ]
        cordoned = await _get(served)
        await _beat(served)
        still = await _get(served)
        deleted = await speak(served.app, "DELETE", "/api/v1/nodes/worker-01")
        lost_agent = await speak(served.app, "POST", "/api/v1/nodes/worker-01/heartbeat", AGENT_BEATS)
        back = await _create(served)
        state = _state(served)

    assert created["metadata"].keys() == {"name", "createdAt", "updatedAt"}
    assert created["metadata"]["createdAt"] == created["metadata"]["updatedAt"] != ZERO
    assert created["spec"] == {"hostname": "worker-01.local", "unschedulable": False}
    assert created["status"] == {"state": "NotReady"}
    assert ready["status"]["state"] == "Ready"
    assert ready["status"]["conditions"][0]["reason"] == "AgentReady"
    assert ready["status"]["network"] == {
        "ip": "100.64.0.5",
        "dnsName": "worker-01.tail.net",
        "mode": "Direct",
        "agentPort": 9090,
    }
    assert ready["status"]["allocatable"] == AGENT_BEATS["allocatable"]
    assert applied == [409, 200]
    assert cordoned["spec"] == {"hostname": "worker-01.local", "unschedulable": True}
    assert cordoned["metadata"]["labels"] == {"zone": "hsinchu"}
    assert cordoned["metadata"]["annotations"] == {"note": "rack 3"}
    assert cordoned["metadata"]["createdAt"] == created["metadata"]["createdAt"]
    assert cordoned["metadata"]["updatedAt"] > created["metadata"]["updatedAt"]
    assert still["metadata"] == cordoned["metadata"]
    assert still["spec"] == cordoned["spec"]
    assert (deleted.status, lost_agent.status, told(lost_agent)["title"]) == (204, 404, "Not Found")
    assert (back["spec"]["unschedulable"], "labels" in back["metadata"]) == (False, False)
    assert (state.incarnation, state.boot_id) == (2, "caravanserai-2")


@on_a_loop
async def test_quantities_become_amounts(broker: AnyBroker, tmp_path: Path) -> None:
    async with serving(broker, tmp_path) as served:
        await _create(served)
        await _beat(served)
        resources = {name: (one.total, one.reserved) for name, one in _state(served).resources.items()}

    assert resources == {
        "cpu": (8, pytest.approx(0.5)),
        "memory": (16 * 2**30, 2**30),
        "disk": (500 * 10**9, 50 * 10**9),
    }


@on_a_loop
async def test_a_beat_that_says_nothing_new_appends_nothing(broker: AnyBroker, tmp_path: Path) -> None:
    async with serving(broker, tmp_path) as served:
        await _create(served)
        await _beat(served)
        before = await served.fleet_seq()
        await _beat(served)
        await _beat(served, {})
        await _beat(served, None)
        await _beat(served, {"network": {"ip": "", "throughput": {"lastTestTime": ZERO}}, "capacity": {}})
        for _ in range(2):
            await _put(served, {**APPLIED, "metadata": {}, "spec": {"hostname": "worker-01.local"}})
        after = await served.fleet_seq()

    assert before == after == 2


@on_a_loop
async def test_a_drain_in_a_beat_is_an_order_that_no_beat_takes_back(
    broker: AnyBroker, tmp_path: Path
) -> None:
    async with serving(broker, tmp_path) as served:
        await _create(served)
        await _beat(served)
        await _beat(served, {"state": "Draining"})
        await _beat(served)
        drained, holds = await _get(served), _state(served).standing_holds
        await say(served, NODE, Lost(boot_id="caravanserai-1", silent_s=90.0, grace_s=90.0))
        silent = await _get(served)

    assert drained["status"]["state"] == "Draining"
    assert [(hold.kind, hold.owner) for hold in holds] == [("draining", "caravanserai")]
    assert silent["status"]["state"] == "Draining"
    assert silent["status"]["conditions"][0]["reason"] == "HeartbeatTimeout"


@on_a_loop
async def test_as_documented_the_last_beat_wins_but_over_nobody_elses_hold(
    broker: AnyBroker, tmp_path: Path
) -> None:
    async with serving(broker, tmp_path, dialects=DOCUMENTED) as served:
        await _create(served)
        await _beat(served, {"state": "Draining"})
        await say(served, NODE, Cordoned(owner="ops"))
        await _beat(served)
        node = await _get(served)

    assert (node["status"]["state"], node["spec"]["unschedulable"]) == ("Ready", True)


@on_a_loop
async def test_a_report_changes_nothing_that_it_does_not_own(broker: AnyBroker, tmp_path: Path) -> None:
    async with serving(broker, tmp_path) as served:
        await _create(served, APPLIED)
        await _beat(served)
        await say(served, NODE, LabelsSet(labels={"tier": "gold"}))
        await say(served, NODE, Allocated(workload="web"))
        before = _state(served)
        conflict = await speak(
            served.app, "POST", "/api/v1/nodes", {**AGENT_CREATES, "status": {"state": "Ready"}}
        )
        await _beat(served, {**AGENT_BEATS, "state": "NotReady", "capacity": {"cpu": "4"}})
        after, node = _state(served), await _get(served)

    kept = [name for owner in ("operator", "platform", "liveness") for name in OWNERS[owner]]
    assert [getattr(after, name) for name in kept] == [getattr(before, name) for name in kept]
    assert after.registered_at == before.registered_at
    assert (conflict.status, told(conflict)["detail"]) == (409, "node already exists: worker-01")
    assert node["metadata"]["labels"] == {"zone": "hsinchu", "tier": "gold"}


@on_a_loop
async def test_replacing_replaces_what_is_declared_as_a_whole(broker: AnyBroker, tmp_path: Path) -> None:
    async with serving(broker, tmp_path) as served:
        await _create(served, APPLIED)
        await _beat(served)
        await say(served, NODE, Cordoned(owner="ops"))
        replaced = told(await _put(served, {"apiVersion": "caravanserai/v1", "kind": "Node"}))
        holds = _state(served).standing_holds
        other_name = await _put(served, {**APPLIED, "metadata": {"name": "worker-02"}})

    assert "labels" not in replaced["metadata"]
    assert "annotations" not in replaced["metadata"]
    assert replaced["spec"] == {"unschedulable": True}
    assert [hold.owner for hold in holds] == ["ops"]
    assert replaced["status"]["state"] == "Ready"
    assert replaced["status"]["capacity"] == AGENT_BEATS["capacity"]
    assert (other_name.status, told(other_name)["title"]) == (400, "Validation Problem")


@on_a_loop
async def test_a_node_with_projects_is_not_deleted(broker: AnyBroker, tmp_path: Path) -> None:
    async with serving(broker, tmp_path) as served:
        await _create(served)
        for project in ("web", "db"):
            await say(served, NODE, Allocated(workload=project))
        refused = await speak(served.app, "DELETE", "/api/v1/nodes/worker-01")
        for project in ("web", "db"):
            await say(served, NODE, Released(workload=project))
        deleted = await speak(served.app, "DELETE", "/api/v1/nodes/worker-01")
        again = await speak(served.app, "DELETE", "/api/v1/nodes/worker-01")

    assert refused.status == 409
    assert told(refused)["detail"] == 'cannot delete node "worker-01": 2 project(s) still assigned'
    assert (deleted.status, again.status) == (204, 404)


@on_a_loop
async def test_of_many_that_create_one_node_one_does(broker: AnyBroker, tmp_path: Path) -> None:
    async with serving(broker, tmp_path) as served:
        answers = await asyncio.gather(
            *(speak(served.app, "POST", "/api/v1/nodes", AGENT_CREATES) for _ in range(6))
        )
        seq = await served.fleet_seq()

    assert sorted(one.status for one in answers) == [201] + [409] * 5
    assert seq == 1


@pytest.mark.parametrize(
    "body",
    [
        {**AGENT_CREATES, "metadata": {"name": "a.b"}},
        {**AGENT_CREATES, "metadata": {"name": None}},
        {**AGENT_CREATES, "metadata": {"name": "a\n"}},
        {**AGENT_CREATES, "metadata": {"name": "ａ"}},
        {**AGENT_CREATES, "metadata": {"name": "a", "labels": {"k": 1}}},
        {**AGENT_CREATES, "metadata": {"name": "a", "annotations": "x"}},
        {**AGENT_CREATES, "spec": {"unschedulable": 1}},
        {**AGENT_CREATES, "spec": []},
        {**AGENT_CREATES, "kind": None},
    ],
)
@on_a_loop
async def test_what_is_no_node_is_refused(broker: AnyBroker, tmp_path: Path, body: object) -> None:
    async with serving(broker, tmp_path) as served:
        got = await speak(served.app, "POST", "/api/v1/nodes", body)
        seq = await served.fleet_seq()

    assert (got.status, told(got)["status"], seq) == (400, 400, 0)
    assert got.headers["content-type"] == "application/problem+json"
    assert told(got)["type"].endswith("/400")


@pytest.mark.parametrize("nothing", [None, {}])
@on_a_loop
async def test_null_says_the_same_as_nothing(
    broker: AnyBroker, tmp_path: Path, nothing: dict[str, Any] | None
) -> None:
    metadata = {"name": "worker-01", "labels": nothing, "annotations": nothing}
    async with serving(broker, tmp_path) as served:
        created = await _create(served, {**AGENT_CREATES, "metadata": metadata, "spec": nothing})

    assert created["spec"] == {"unschedulable": False}


@pytest.mark.parametrize(
    ("name", "status"),
    [
        ("node.example.com", 201),
        ("a-b.c", 201),
        ("a..b", 400),
        (".a", 400),
        ("a.", 400),
        ("-a", 400),
        ("a" * 220, 201),
        ("a" * 221, 400),
    ],
)
@on_a_loop
async def test_names_may_be_subdomains_where_that_is_set(
    broker: AnyBroker, tmp_path: Path, name: str, status: int
) -> None:
    rules = DialectRules(caravanserai=CaravanseraiRules(name_rule="subdomain"))
    async with serving(broker, tmp_path, dialects=rules) as served:
        got = await speak(served.app, "POST", "/api/v1/nodes", {**AGENT_CREATES, "metadata": {"name": name}})

    assert got.status == status


@on_a_loop
async def test_another_reader_of_the_log_gives_the_same_answers(broker: AnyBroker, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    async with serving(broker, tmp_path) as served:
        await _create(served)
        await _beat(served)
        await _put(served, APPLIED)
        await _create(served, {**APPLIED, "metadata": {"name": "worker-02"}})
        first = await speak(served.app, "GET", "/api/v1/nodes")
        async with serving(broker, tmp_path / "other") as other:
            for stream, cursor in served.projection.cursors().items():
                assert await other.projector.wait_for(stream, cursor.seq, timeout_s=20)
            second = await speak(other.app, "GET", "/api/v1/nodes")

    assert first.body == second.body
    assert [one["metadata"]["name"] for one in told(first)["items"]] == ["worker-01", "worker-02"]
