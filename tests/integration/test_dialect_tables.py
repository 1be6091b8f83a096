"""What the agents of Aria PIN and Stratum report is in the tables as what our own agents report is."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

from api.dialects.rules import AriaRules, DialectRules, StratumRules
from events.facts import Allocated
from tests.support import aria_pin as aria
from tests.support import stratum as st
from tests.support.brokers import AnyBroker
from tests.support.facts_said import say
from tests.support.loops import on_a_loop
from tests.support.serving import Serving, serving
from tests.support.spoken import speak, told

NODES = """
    SELECT node_id, dialect, native_id, state, hostname, region, zone, role, architecture, interval_s
    FROM fleet.nodes
"""
CAPACITY = """
    SELECT resource, total, reserved, ratio, allocatable, allocated, free
    FROM fleet.capacity
    ORDER BY resource
"""
HISTORY = """
    SELECT total, valid_to IS NULL AS is_open
    FROM fleet.capacity_history
    WHERE resource = $resource
    ORDER BY valid_from
"""
DEVICES = """
    SELECT device_id, kind, model, memory, healthy
    FROM fleet.devices
    ORDER BY device_id
"""
USAGE = """
    SELECT resource, used
    FROM fleet.usage
    ORDER BY "at", resource
"""
LABELS = """
    SELECT key, value, owner, valid_to IS NULL AS is_open
    FROM fleet.labels_history
    ORDER BY key, valid_from
"""
CHANGES = """
    SELECT kind || '.' || detail, after
    FROM fleet.changes
    ORDER BY seq
"""


def _rows(served: Serving, question: str, **values: object) -> list[tuple[object, ...]]:
    with served.projection.cursor() as cursor:
        rows: list[tuple[object, ...]] = cursor.execute(question, values or None).fetchall()
    return rows


@on_a_loop
async def test_an_agent_of_aria_pin_is_in_the_tables(broker: AnyBroker, tmp_path: Path) -> None:
    two = [aria.GPU, {**aria.GPU, "index": 1, "model": "L4", "mem_total_gb": 24, "slots": 2}]
    async with aria.aria_pin(broker, tmp_path) as served:
        agent = await aria.registered(served, gpus=two, labels=["production", "rack=r7"])
        await aria.beat(served, id=agent["id"], gpus=[{"index": 0, "mem_used_gb": 1.5, "used_slots": 1}])
        await say(served, f"aria-pin:{agent['id']}", Allocated(workload="job", amounts={"slot": Decimal(1)}))
        nodes, capacity = _rows(served, NODES), _rows(served, CAPACITY)
        devices, usage = _rows(served, DEVICES), _rows(served, USAGE)
        history, labels = _rows(served, HISTORY, resource="gpu"), _rows(served, LABELS)
        changes = [row[0] for row in _rows(served, CHANGES)]
        native = await served.ask("GET", "/fleet/v1/nodes?label=rack=r7&name=gpu-node-01&dialect=aria-pin")

    assert nodes == [
        (
            f"aria-pin:{agent['id']}", "aria-pin", agent["id"], nodes[0][3], "gpu-node-01", None, None, None,
            None, 30.0,
        )
    ]  # fmt: skip
    assert capacity == [
        ("gpu", 1, None, None, 1, 0, 1),
        ("gpu.memory", 80 * 2**30, None, None, 80 * 2**30, 0, 80 * 2**30),
        ("slot", 1, None, None, 1, 1, 0),
    ]
    assert devices == [("gpu-0", "gpu", "A100", 80 * 2**30, None)]
    assert [row for row in usage if "." not in str(row[0]) or row[0] == "gpu.memory"] == [
        ("gpu.memory", 0), ("slot", 0), ("gpu.memory", 1.5 * 2**30), ("slot", 1)
    ]  # fmt: skip
    assert ("gpu-0.mem_used_gb", 1.5) in usage
    assert history == [(2, False), (1, True)]
    assert labels == [("production", "", "agent", True), ("rack", "r7", "agent", True)]
    assert changes[:2] == ["identity.registered", "state.pending"]
    assert changes.count("capacity.changed") == 3
    assert [item["id"] for item in json.loads(native.body)["items"]] == [f"aria-pin:{agent['id']}"]


@on_a_loop
async def test_a_node_of_stratum_is_in_the_tables(broker: AnyBroker, tmp_path: Path) -> None:
    found = {"capability.net.sriov_vfs": "8", "capability.gpu.nvidia-a100": "0", "team": "blue"}
    async with st.stratum(broker, tmp_path) as served:
        await st.beaten(served, capabilities=found)
        await say(
            served,
            st.NODE,
            Allocated(workload="vm-1", amounts={"cpu": Decimal(4), "net.sriov_vfs": Decimal(9)}),
        )
        await st.admin(served, "PATCH", {"reservedVCPUs": 8, "state": "maintenance"})
        await st.beaten(served, committedVCPUs=12, capabilities={**found, "capability.net.sriov_vfs": "6"})
        nodes, capacity = _rows(served, NODES), _rows(served, CAPACITY)
        usage, labels = _rows(served, USAGE), _rows(served, LABELS)
        history = _rows(served, HISTORY, resource="net.sriov_vfs")
        changes = [row[0] for row in _rows(served, CHANGES)]
        actors = _rows(served, "SELECT DISTINCT actor FROM fleet.node_history ORDER BY actor")

    memory, kept = 274877906944, 8589934592
    assert nodes == [
        (st.NODE, "stratum", "hv-01", "maintenance", "stratum-01", "eu-1", "eu-1a", "hybrid", "amd64", 60.0)
    ]
    assert capacity == [
        ("cpu", 64, 8, 4, 224, 4, 220),
        ("disk", 2000000000000, None, None, 2000000000000, 0, 2000000000000),
        ("gpu.nvidia-a100", 0, None, None, 0, 0, 0),
        (
            "memory", memory, kept, Decimal("1.5"), (memory - kept) * 3 // 2, 0, (memory - kept) * 3 // 2,
        ),
        ("net.sriov_vfs", 6, None, None, 6, 9, -3),
    ]  # fmt: skip
    assert [row for row in usage if row[0] in ("cpu", "memory")] == [
        ("cpu", 10), ("memory", 34359738368), ("cpu", 12), ("memory", 34359738368)
    ]  # fmt: skip
    assert ("team", "blue", "agent", True) in labels
    assert [row[1] for row in labels if row[0] == "capability.net.sriov_vfs"] == ["8", "6"]
    assert history == [(8, False), (8, False), (6, True)]
    assert {"intent.changed", "capacity.deficit", "labels.changed"} <= set(changes)
    assert any(str(actor).startswith("stratum:") for (actor,) in actors)


@on_a_loop
async def test_tables_that_are_folded_anew_give_the_same_answers(broker: AnyBroker, tmp_path: Path) -> None:
    rules = DialectRules(
        aria_pin=AriaRules(agent_tokens=(aria.TOKEN,)), stratum=StratumRules(agent_tokens=(st.AGENT,))
    )
    asked = [("/v1/agents", aria.TOKEN), ("/v1/compute/nodes", st.AGENT)]
    async with serving(broker, tmp_path / "first", dialects=rules) as served:
        agent = await aria.registered(served)
        await aria.registered(served, gpus=[{**aria.GPU, "model": "H100", "mem_total_gb": 79.15}])
        await speak(served.app, "POST", "/v1/agents", {"name": "planned"}, token=aria.TOKEN)
        await aria.beat(served, id=agent["id"], gpus=[{"index": 0, "mem_used_gb": 0.1}])
        for sampled_at in ("2026-04-15T12:00:00Z", "2026-04-15T12:01:00.5Z", "2026-04-15T12:00:30Z"):
            await st.beaten(served, sampledAt=sampled_at, committedVCPUs=3)
        await say(served, st.NODE, Allocated(workload="vm", amounts={"net.sriov_vfs": Decimal(1)}))
        before = [told(await speak(served.app, "GET", path, token=token)) for path, token in asked]
        heads = {stream: cursor.seq for stream, cursor in served.projection.cursors().items()}
    async with serving(broker, tmp_path / "second", dialects=rules) as served:
        for stream, seq in heads.items():
            assert await served.projector.wait_for(stream, seq, timeout_s=20)
        after = [told(await speak(served.app, "GET", path, token=token)) for path, token in asked]

    assert len(before[0]["agents"]) == 3
    assert after == before
