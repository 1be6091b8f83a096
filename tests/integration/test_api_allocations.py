"""What schedulers hand out, on a real broker: taken as it is, through the API or straight into the log."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

from api.change_models import ChangedNodeAnswer
from tests.support.brokers import AnyBroker
from tests.support.deciding import act, register, send
from tests.support.loops import on_a_loop
from tests.support.serving import Serving, serving

GIB = 2**30


def _cpu(answer: Any) -> dict[str, Any]:  # noqa: ANN401
    return next(one for one in answer["resources"] if one["resource"] == "cpu")


async def _publish(served: Serving, verb: str, **data: Any) -> None:  # noqa: ANN401
    event = {
        "specversion": "1.0",
        "id": f"{verb}-{await served.fleet_seq()}",
        "source": "/scheduler",
        "type": f"fleetfold.platform.{verb}.v1",
        "data": data,
    }
    await served.publish(f"fleet.v1.platform.n1.{verb}", json.dumps(event).encode())


@on_a_loop
async def test_an_allocation_is_new_then_the_same_then_another_then_gone(
    broker: AnyBroker, tmp_path: Path
) -> None:
    async with serving(broker, tmp_path) as served:
        await register(served, "n1", resources={"cpu": {"total": 8}})
        path = "/nodes/n1/allocations/team%2Fvm-1"

        new = await send(served, "PUT", path, {"amounts": {"cpu": 2.5, "memory": GIB}})
        ChangedNodeAnswer.model_validate_json(new.body)
        same = await send(served, "PUT", path, {"amounts": {"cpu": 2.50, "memory": GIB}})
        other = await send(served, "PUT", path, {"amounts": {"cpu": 3}, "actor": "packer"})
        gone = await send(served, "DELETE", f"{path}?reason=done")
        again = await send(served, "DELETE", path)

        assert [got.status for got in (new, same, other, gone, again)] == [201, 200, 200, 200, 200]
        assert [got.json["change"]["outcome"] for got in (new, same, other, gone, again)] == [
            "done",
            "no_change",
            "done",
            "done",
            "no_change",
        ]
        assert [_cpu(got.json)["free"] for got in (new, other, gone)] == [5.5, 5, 8]
        assert new.json["allocations"][0]["workload"] == "team/vm-1"
        assert gone.json["allocations"] == []
        assert await served.fleet_seq() == 4


@on_a_loop
async def test_more_than_there_is_is_taken_and_flagged(broker: AnyBroker, tmp_path: Path) -> None:
    async with serving(broker, tmp_path) as served:
        await register(served, "n1", resources={"cpu": {"total": 8}})

        got = (await send(served, "PUT", "/nodes/n1/allocations/a", {"amounts": {"cpu": 10}})).json

        assert (_cpu(got)["allocated"], _cpu(got)["free"]) == (10, -2)
        assert _cpu(got)["flags"] == ["overcommitted"]
        assert got["conditions"] == ["overcommitted"]
        assert got["change"]["follows"] == ["cpu is overcommitted: 10 of 8 allocated"]


@on_a_loop
async def test_amounts_may_be_in_a_dialects_words_and_may_be_empty(broker: AnyBroker, tmp_path: Path) -> None:
    async with serving(broker, tmp_path) as served:
        await register(served, "n1")
        said = {"dialect": "fuse", "amounts": {"cpus": 2, "ram_mb": 2048, "storage_gb": 20, "vm_count": 1}}

        got = await send(served, "PUT", "/nodes/n1/allocations/vm-1", said)
        empty = await send(
            served, "PUT", "/nodes/n1/allocations/job", {"dialect": "caravanserai", "amounts": {}}
        )

        assert (got.status, empty.status) == (201, 201)
        assert [given["amounts"] for given in empty.json["allocations"]] == [
            {"cpu": 2, "memory": 2 * GIB, "disk": 20 * GIB, "vm": 1},
            {},
        ]


@on_a_loop
async def test_facts_straight_from_a_scheduler_mean_the_same(broker: AnyBroker, tmp_path: Path) -> None:
    async with serving(broker, tmp_path) as served:
        await register(served, "n1", resources={"cpu": {"total": 8}})

        await _publish(served, "allocated", workload="vm-1", amounts={"cpu": 10})
        same = await send(served, "PUT", "/nodes/n1/allocations/vm-1", {"amounts": {"cpu": 10}})
        assert (same.status, same.json["change"]["outcome"]) == (200, "no_change")
        assert _cpu(same.json)["flags"] == ["overcommitted"]

        await _publish(served, "released", workload="vm-1")
        gone = await send(served, "DELETE", "/nodes/n1/allocations/vm-1")
        assert (gone.json["change"]["outcome"], gone.json["allocations"]) == ("no_change", [])

        await act(served, "n1", "retire")
        await _publish(served, "allocated", workload="vm-2", amounts={"cpu": 1})
        retired = await served.ask("GET", "/fleet/v1/nodes/n1")
        assert retired.json["node"]["allocations"] == []


@on_a_loop
async def test_nothing_is_allocated_on_a_node_that_is_retired_or_unknown(
    broker: AnyBroker, tmp_path: Path
) -> None:
    async with serving(broker, tmp_path) as served:
        await register(served, "n1")
        await send(served, "PUT", "/nodes/n1/allocations/vm-1", {"amounts": {}})
        await act(served, "n1", "retire", force=True)

        retired = await send(served, "PUT", "/nodes/n1/allocations/vm-2", {"amounts": {}})
        unknown = await send(served, "PUT", "/nodes/n2/allocations/vm-2", {"amounts": {}})
        nameless = await send(served, "PUT", f"/nodes/n1/allocations/{'w' * 1025}", {"amounts": {}})
        released = await send(served, "DELETE", "/nodes/n1/allocations/vm-1")
        restored = await act(served, "n1", "restore")

        assert (retired.status, retired.json["code"]) == (410, "node_retired")
        assert (unknown.status, unknown.json["code"]) == (404, "unknown_node")
        assert (nameless.status, nameless.json["parameter"]) == (400, "workload")
        assert (released.status, released.json["change"]["outcome"]) == (200, "done")
        assert restored.json["allocations"] == []


@on_a_loop
async def test_a_report_of_the_agent_leaves_what_is_allocated(broker: AnyBroker, tmp_path: Path) -> None:
    async with serving(broker, tmp_path) as served:
        await register(served, "n1", resources={"cpu": {"total": 8}})
        await send(served, "PUT", "/nodes/n1/allocations/vm-1", {"amounts": {"cpu": 2}})

        report = {"boot_id": "b2", "seq": 1, "resources": {"cpu": {"total": 4}}}
        await served.publish("fleet.v1.agent.n1.registered", json.dumps(report).encode())

        got = (await served.ask("GET", "/fleet/v1/nodes/n1")).json
        assert (_cpu(got)["total"], _cpu(got)["allocated"]) == (4, 2)


@on_a_loop
async def test_a_scheduler_may_append_as_the_document_says(broker: AnyBroker, tmp_path: Path) -> None:
    text = (Path(__file__).parents[2] / "docs/operators.md").read_text("utf-8")
    lines = [shlex.split(line) for line in text.splitlines() if line.startswith("nats pub ")]
    async with serving(broker, tmp_path) as served:
        await register(served, "n1", resources={"cpu": {"total": 8}})
        held = []
        for _, _, subject, payload in lines:
            await served.publish(subject, payload.encode())
            held.append((await served.ask("GET", "/fleet/v1/nodes/n1")).json["allocations"])

        assert [[given["workload"] for given in one] for one in held] == [["vm-1"], []]

        await served.publish(
            "fleet.v1.platform.n1.allocated", b'{"workload":"vm-1","amounts":{"cpu":2}}'
        )  # what the document warns of
        assert (await served.ask("GET", "/fleet/v1/nodes/n1")).json["allocations"] == []
