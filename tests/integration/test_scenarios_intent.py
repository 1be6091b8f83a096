"""Scenarios of what operators decide, through the API on a real broker."""

from __future__ import annotations

from pathlib import Path

from tests.support.brokers import AnyBroker
from tests.support.deciding import act, register, send
from tests.support.loops import on_a_loop
from tests.support.serving import serving

RANGE = [f"cn{number}" for number in range(121, 126)]


@on_a_loop
async def test_b37_a_range_command_leaves_the_node_that_others_keep_out(
    broker: AnyBroker, tmp_path: Path
) -> None:
    async with serving(broker, tmp_path) as served:
        await register(served, *RANGE)
        for node in RANGE[:4]:
            await act(served, node, "cordon", owner="ops", reason="firmware")
        await act(served, "cn125", "cordon", owner="hw-team", reason="segfaults")
        nameless = await send(served, "POST", "/nodes/cn121/actions", {"action": "cordon"})
        told = {"action": "uncordon", "reason": "done", "owner": "ops", "selector": {"match": "cn12[1-5]"}}

        answer = (await send(served, "POST", "/actions", told)).json

        outcomes = {item["id"]: item["outcome"] for item in answer["items"]}
        assert outcomes == {**dict.fromkeys(RANGE[:4], "done"), "cn125": "skipped"}
        assert "hw-team (segfaults)" in answer["items"][-1]["says"]
        assert nameless.status in (400, 422)
        kept = (await served.ask("GET", "/fleet/v1/nodes/cn125")).json
        assert [(hold["owner"], hold["reason"]) for hold in kept["holds"]] == [("hw-team", "segfaults")]


@on_a_loop
async def test_b39_what_an_agent_reports_cannot_be_edited_and_the_way_that_can_is_named(
    broker: AnyBroker, tmp_path: Path
) -> None:
    async with serving(broker, tmp_path) as served:
        await register(served, "r-1", hostname="r-1.example", labels={"role": "replica"})

        refused = await send(served, "PATCH", "/nodes/r-1", {"hostname": "other", "reason": "test"})
        done = await send(
            served, "PATCH", "/nodes/r-1", {"labels": {"ops/role": "primary"}, "reason": "test"}
        )
        await register(served, "r-1", hostname="r-1.example", labels={"role": "replica", "ops/role": "mine"})
        shown = (await served.ask("GET", "/fleet/v1/nodes/r-1")).json

        assert refused.status in (400, 409, 422)
        assert "agent" in refused.body.decode()
        assert done.status == 200
        assert shown["labels"] == {"ops/role": "primary", "role": "replica"}
        assert shown["hostname"] == "r-1.example"
