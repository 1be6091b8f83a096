"""What holds for nodes of all dialects alike: who owns which fact, what a replay gives, what stays secret."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from api.dialects.fuse_secrets import SecretStore
from events.ids import node_id
from events.streams import ALL
from projections.state import NodeState
from tests.support.brokers import AnyBroker
from tests.support.every_dialect import (
    ADMIN,
    AGENT,
    HYPERVISOR,
    MASTER,
    RULES,
    decisions,
    done,
    heartbeats,
    registrations,
    shown,
)
from tests.support.host_agents import PLAIN, TOKEN, host_agent
from tests.support.loops import on_a_loop
from tests.support.serving import Serving, serving
from tests.support.spoken import speak, told

IDS = {
    "smolfleet": "smolfleet:s1",
    "caravanserai": "caravanserai:c1",
    "fuse": "fuse:f1",
    "aria-pin": "aria-pin:a1",
    "stratum": "stratum:h1",
}
GIB = 2**30
AMOUNTS = """
    SELECT node_id, resource, total, reserved
    FROM fleet.capacity
    WHERE resource IN ('cpu', 'memory', 'disk', 'gpu.memory', 'vm')
    ORDER BY node_id, resource
"""
NEWEST_USAGE = """
    SELECT node_id, resource, arg_max(used, "at")
    FROM fleet.usage
    WHERE resource IN ('cpu', 'memory', 'disk', 'gpu.memory', 'slot')
    GROUP BY node_id, resource
    ORDER BY node_id, resource
"""
REGISTERED = """
    SELECT node_id, dialect || ':' || native_id, state
    FROM fleet.nodes
    ORDER BY node_id
"""


@pytest.fixture
def agent_url() -> Iterator[str]:
    with host_agent(PLAIN) as agent:
        yield agent.url


def _state(served: Serving, node: str) -> NodeState:
    state = served.projection.node(node_id(node))
    assert state is not None
    return state


def _owned_by_others(state: NodeState) -> dict[str, Any]:
    """Return what a report must not change."""
    return {
        "holds": state.standing_holds,
        "allocations": state.standing_allocations,
        "declared": state.standing_declared,
        "labels": {
            key: state.effective_labels[key] for key in ("pool", "rack") if key in state.effective_labels
        },
        "registered_at": state.registered_at,
        "incarnation": state.incarnation,
        "retired_at": state.retired_at,
    }


def _tables(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in folder.iterdir() if "duckdb" in file.name)


async def _native(served: Serving, method: str, path: str, body: object) -> None:
    got = await speak(served.app, method, f"/fleet/v1/nodes/{path}", body)
    assert got.status in (200, 201, 202), got.body


async def _reported(served: Serving, agent_url: str) -> None:
    """Let every node register and beat; one of Caravanserai that is there is refused."""
    for name, said in registrations(agent_url).items():
        got = await said.to(served)
        assert got.status in (200, 201, *([409] if name == "caravanserai" else [])), got.body
    for said in heartbeats().values():
        await done(served, said)


@on_a_loop
async def test_no_report_changes_what_operators_and_schedulers_said(
    broker: AnyBroker, tmp_path: Path, agent_url: str
) -> None:
    async with serving(broker, tmp_path, dialects=RULES) as served:
        await _reported(served, agent_url)
        for node in IDS.values():
            path = quote(node, safe="")
            for action in ("cordon", "drain", "enter_maintenance"):
                said = {"action": action, "owner": "ops", "reason": "because"}
                await _native(served, "POST", f"{path}/actions", said)
            await _native(served, "PATCH", path, {"labels": {"pool": "gold", "rack": "declared"}})
            await _native(served, "PUT", f"{path}/allocations/job", {"amounts": {"cpu": 1}})
        before = {node: _owned_by_others(_state(served, node)) for node in IDS.values()}
        for _ in range(2):
            await _reported(served, agent_url)
        after = {node: _owned_by_others(_state(served, node)) for node in IDS.values()}
        said_of = await shown(served)

    assert after == before
    assert [len(one["holds"]) for one in after.values()] == [3] * len(IDS)
    assert said_of["smolfleet"]["status"] == "draining"
    assert (said_of["caravanserai"]["status"]["state"], said_of["caravanserai"]["spec"]) == (
        "Draining", {"hostname": "c1.local", "unschedulable": True}
    )  # fmt: skip
    assert said_of["fuse"]["state"] == "draining"
    assert [said_of["aria-pin"]["status"], said_of["stratum"]["state"]] == ["maintenance", "maintenance"]


@on_a_loop
async def test_who_was_retired_beats_no_more_and_returns_as_another_with_nothing_held(
    broker: AnyBroker, tmp_path: Path, agent_url: str
) -> None:
    async with serving(broker, tmp_path, dialects=RULES) as served:
        await _reported(served, agent_url)
        for node in IDS.values():
            path = quote(node, safe="")
            await _native(served, "PUT", f"{path}/allocations/job", {"amounts": {"cpu": 1}})
            retire = {"action": "retire", "reason": "gone", "force": True}
            await _native(served, "POST", f"{path}/actions", retire)
        zombies = {name: (await said.to(served)).status for name, said in heartbeats().items()}
        gone = {name: _state(served, IDS[name]).retired_at for name in IDS}
        for said in registrations(agent_url).values():
            await done(served, said)
        returned = [_state(served, node) for node in IDS.values()]

    # In Stratum a heartbeat is the registration.
    assert zombies == {"smolfleet": 404, "caravanserai": 404, "aria-pin": 404, "stratum": 200}
    assert [name for name, at in gone.items() if at is None] == ["stratum"]
    assert [(state.incarnation, state.retired_at) for state in returned] == [(2, None)] * len(IDS)
    assert not any(state.standing_allocations or state.standing_holds for state in returned)


@on_a_loop
async def test_one_machine_in_two_dialects_is_two_nodes_and_neither_decides_for_the_other(
    broker: AnyBroker, tmp_path: Path, agent_url: str
) -> None:
    async with serving(broker, tmp_path, dialects=RULES) as served:
        calls = registrations(agent_url)
        for name in ("smolfleet", "caravanserai"):
            body = {**calls[name].body, "id": "one"} if isinstance(calls[name].body, dict) else {}
            if name == "caravanserai":
                body["metadata"] = {"name": "one"}
            await done(served, calls[name]._replace(body=body))
        await asyncio.gather(
            speak(served.app, "POST", "/v1/nodes/one/drain"),
            speak(served.app, "POST", "/api/v1/nodes/one/heartbeat", {"network": {"ip": "10.0.0.11"}}),
        )
        await speak(served.app, "DELETE", "/v1/nodes/one")
        other = told(await speak(served.app, "GET", "/api/v1/nodes/one"))
        gone = await speak(served.app, "GET", "/v1/nodes/one")

    assert (gone.status, other["status"]["state"], other["spec"]["unschedulable"]) == (404, "Ready", False)


@on_a_loop
async def test_a_replay_gives_the_same_answers_in_every_dialect(
    broker: AnyBroker, tmp_path: Path, agent_url: str
) -> None:
    async with serving(broker, tmp_path / "first", dialects=RULES) as served:
        await _reported(served, agent_url)
        for said in decisions():
            await done(served, said)
        await _reported(served, agent_url)
        for said in decisions():
            if said.method != "DELETE":
                await done(served, said)
        before, heads = await shown(served), served.projection.cursors()
    async with serving(broker, tmp_path / "second", dialects=RULES) as served:
        for stream, cursor in heads.items():
            assert await served.projector.wait_for(stream, cursor.seq, timeout_s=20)
        after = await shown(served)

    assert after == before
    assert before["stratum"]["powerAction"]["action"] == "reboot"


@on_a_loop
async def test_no_secret_is_in_an_answer_a_record_a_table_or_a_line_of_the_log(
    broker: AnyBroker, tmp_path: Path, agent_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    wrong = "wr0ng-5ecre7"
    answers = []
    with closing(SecretStore(tmp_path / "secrets.sqlite3")) as store:
        async with serving(broker, tmp_path, dialects=RULES, secrets=store) as served:
            await _reported(served, agent_url)
            for said in [*registrations(agent_url).values(), *heartbeats().values(), *decisions()[:9]]:
                answers += [await said.to(served), await said._replace(token=wrong).to(served)]
                answers.append(await said._replace(path=f"{said.path}/nowhere").to(served))
                cookie = {"cookie": f"fuse_session={wrong}"}
                answers.append(await speak(served.app, said.method, said.path, raw=b"{", headers=cookie))
            made = await speak(served.app, "POST", "/v1/api-keys", {"label": "ci"}, token=MASTER)
            key = told(made)["key"]
            answers += [
                await speak(served.app, "POST", "/login", {"token": MASTER}),
                await speak(served.app, "POST", "/login", {"token": wrong}),
                await speak(served.app, "POST", "/login", {"token": [MASTER]}),
                await speak(served.app, "GET", "/v1/api-keys", token=MASTER),
                await speak(served.app, "POST", "/v1/hosts", {"id": "x"}, token=key),
                await speak(served.app, "GET", "/fleet/v1/changes?limit=1000"),
                await speak(served.app, "GET", "/metrics"),
            ]
            js = served.nc.jetstream()
            records = []
            for spec in ALL:
                info = (await js.stream_info(spec.name)).state
                for seq in range(max(info.first_seq, 1), info.last_seq + 1):
                    record = await js.get_msg(spec.name, seq)
                    records.append(f"{record.subject} {record.headers} {record.data!r}")
    tables = _tables(tmp_path)
    kept = (tmp_path / "secrets.sqlite3").read_bytes()

    assert len(records) > len(IDS)
    assert tables
    for secret in (MASTER, AGENT, HYPERVISOR, ADMIN, TOKEN, wrong, key):
        assert not [got for got in answers if secret.encode() in got.body + str(got.headers).encode()]
        assert not [record for record in records if secret in record]
        assert secret.encode() not in tables
        assert secret not in caplog.text
        assert (secret.encode() in kept) == (secret == TOKEN)


@on_a_loop
async def test_what_nodes_report_is_in_the_tables_in_one_set_of_units(
    broker: AnyBroker, tmp_path: Path, agent_url: str
) -> None:
    async with serving(broker, tmp_path, dialects=RULES) as served:
        await _reported(served, agent_url)
        await speak(served.app, "POST", "/v1/nodes/s1/heartbeat", {"usedMemoryMb": 3, "usedDiskGb": 1})
        with served.projection.cursor() as cursor:
            amounts = cursor.execute(AMOUNTS).fetchall()
            usage = cursor.execute(NEWEST_USAGE).fetchall()
            nodes = cursor.execute(REGISTERED).fetchall()

    assert [node[:2] for node in nodes] == sorted((node, node) for node in IDS.values())
    assert amounts == [
        ("aria-pin:a1", "gpu.memory", 80 * GIB, None),
        ("caravanserai:c1", "cpu", 4, 0.5),
        ("caravanserai:c1", "disk", 100 * 10**9, 10 * 10**9),
        ("caravanserai:c1", "memory", 8 * GIB, GIB),
        ("fuse:f1", "cpu", 8, None),
        ("fuse:f1", "disk", 10 * GIB, None),
        ("fuse:f1", "memory", GIB, None),
        ("fuse:f1", "vm", 5, None),
        ("smolfleet:s1", "cpu", 64, None),
        ("smolfleet:s1", "disk", 10 * GIB, None),
        ("smolfleet:s1", "memory", GIB, None),
        ("stratum:h1", "cpu", 64, 4),
        ("stratum:h1", "disk", 2000000000000, None),
        ("stratum:h1", "memory", 274877906944, 8589934592),
    ]
    assert usage == [
        ("aria-pin:a1", "gpu.memory", 0),
        ("aria-pin:a1", "slot", 0),
        ("smolfleet:s1", "cpu", 2.5),
        ("smolfleet:s1", "disk", GIB),
        ("smolfleet:s1", "memory", 3 * 2**20),
        ("stratum:h1", "cpu", 10),
        ("stratum:h1", "memory", 34359738368),
    ]


@on_a_loop
async def test_a_node_of_a_dialect_is_asked_about_as_any_other(
    broker: AnyBroker, tmp_path: Path, agent_url: str
) -> None:
    async with serving(broker, tmp_path, dialects=RULES) as served:
        await _reported(served, agent_url)
        answers: dict[str, list[Any]] = {}
        for node in IDS.values():
            path = f"/fleet/v1/nodes/{quote(node, safe='')}"
            answers[node] = [
                told(await speak(served.app, "GET", f"{path}{below}"))
                for below in ("", "/timeline", "/why", "/capacity")
            ]
        changes = told(await speak(served.app, "GET", "/fleet/v1/changes?limit=1000"))["items"]

    for node, (shown_as, timeline, why, capacity) in answers.items():
        assert shown_as["id"] == node
        assert timeline["items"], node
        assert why["id"] == node
        assert capacity["items"], node
        assert node in str(changes), node
