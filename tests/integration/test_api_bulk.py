"""What operators do with many nodes at once, on a real broker: one by one, and nobody else's hold."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from api.bulk import AT_ONCE, MOST_NODES
from api.change_models import BulkAnswer
from tests.support.brokers import AnyBroker
from tests.support.deciding import JSON, act, register, send
from tests.support.fleet import fleet
from tests.support.loops import on_a_loop
from tests.support.serving import Serving, serving

RACK = [f"cn12{number}" for number in range(1, 6)]


async def _bulk(served: Serving, action: str, selector: dict[str, Any], **said: Any) -> Any:  # noqa: ANN401
    got = await send(
        served, "POST", "/actions", {"action": action, "reason": "test", "selector": selector, **said}
    )
    assert got.status == 200, got.body
    BulkAnswer.model_validate_json(got.body)
    return got.json


def _outcomes(answer: Any) -> dict[str, str]:  # noqa: ANN401
    return {item["id"]: item["outcome"] for item in answer["items"]}


@on_a_loop
async def test_a_release_of_a_range_leaves_what_others_hold(broker: AnyBroker, tmp_path: Path) -> None:
    async with serving(broker, tmp_path) as served:
        await register(served, *RACK)
        for node in RACK[:-1]:
            await act(served, node, "drain", owner="ops", reason="firmware")
        await act(served, "cn125", "drain", owner="hw-team", reason="segfaults")
        await act(served, "cn121", "drain", owner="hw-team", reason="fans")
        before = await served.fleet_seq()

        would = await _bulk(served, "undrain", {"match": "cn12[1-5]"}, owner="ops", dry_run=True)
        assert await served.fleet_seq() == before
        assert would["dry_run"] is True

        did = await _bulk(served, "undrain", {"match": "cn12[1-5]"}, owner="ops")

        assert _outcomes(did) == {**dict.fromkeys(RACK[:-1], "done"), "cn125": "skipped"} == _outcomes(would)
        assert did["counts"] == {"done": 4, "skipped": 1}
        skipped = did["items"][-1]
        assert skipped["says"] == "only other owners hold it so: draining by hw-team (segfaults)"
        assert [hold["owner"] for hold in skipped["holds"]] == ["hw-team"]
        first = did["items"][0]
        assert first["follows"] == ["still draining by hw-team (fans)"]
        assert (first["before"]["state"], first["after"]["state"]) == ("draining", "draining")
        assert (did["items"][1]["after"]["state"], would["items"][1]["after"]["state"]) == (
            "pending",
            "pending",
        )
        assert await served.fleet_seq() == before + 4

        named = await _bulk(served, "undrain", {"ids": ["cn125"]}, owner="hw-team")
        assert _outcomes(named) == {"cn125": "done"}


@on_a_loop
async def test_each_node_is_decided_on_its_own(broker: AnyBroker, tmp_path: Path) -> None:
    async with serving(broker, tmp_path) as served:
        await register(served, "busy", "free", "old", zone="z1")
        await register(served, "elsewhere", zone="z2")
        await send(served, "PUT", "/nodes/busy/allocations/vm-1", {"amounts": {}})
        await act(served, "old", "retire")

        named = await _bulk(served, "retire", {"ids": ["busy", "free", "old", "nobody"]})
        found = await _bulk(served, "cordon", {"zone": "z1"})

        assert _outcomes(named) == {
            "busy": "refused",
            "free": "done",
            "nobody": "refused",
            "old": "no_change",
        }
        assert _outcomes(found) == {"busy": "done"}
        restored = await _bulk(served, "restore", {"zone": "z1"})
        assert _outcomes(restored) == {"free": "done", "old": "done"}


@on_a_loop
async def test_many_nodes_are_selected_by_what_they_are(broker: AnyBroker, tmp_path: Path) -> None:
    async with serving(broker, tmp_path) as served:
        await register(served, "a1", zone="z1", pool="p", labels={"tier": "gold"})
        await register(served, "a2", zone="z1", labels={"tier": "tin"})
        await register(served, "b1", zone="z2", pool="p")

        async def fit(**selector: Any) -> list[str]:  # noqa: ANN401
            return list(_outcomes(await _bulk(served, "cordon", selector, dry_run=True)))

        assert await fit(all=True) == ["a1", "a2", "b1"]
        assert await fit(zone="z1", pool="p") == ["a1"]
        assert await fit(label=["tier=tin"]) == ["a2"]
        assert await fit(label=["tier=tin", "tier=gold"]) == []
        assert await fit(match="?1") == ["a1", "b1"]
        await served.publish("fleet.v1.agent.%C3%A91.registered", b'{"boot_id":"b1","seq":1}')
        assert await fit(match="e\u03011") == ["\u00e91"]
        assert await fit(ids=["b1", "a2"], zone="z1") == ["a2"]
        assert await fit(ids=[]) == []
        assert await fit(state="lost") == []


@pytest.mark.parametrize(
    ("said", "parameter"),
    [
        ({"selector": {}}, "selector"),
        ({"selector": {"label": []}}, "selector"),
        ({"selector": {"zone": ""}}, "selector.zone"),
        ({"selector": {"all": True, "zone": "z1"}}, "selector.all"),
        ({"selector": {"all": False}}, "selector.all"),
        ({"selector": {"label": ["tier"]}}, "selector.label"),
        ({}, "selector"),
        ({"selector": {"zone": "z1"}, "action": "uncordon", "force": True}, "force"),
        ({"selector": {"ids": ["n1"], "zone": "z1"}, "action": "uncordon", "force": True}, "force"),
        ({"selector": {"zone": "z1"}, "action": "retire", "force": True}, "force"),
        ({"selector": {"zoen": "z1"}}, "selector.zoen"),
    ],
)
@pytest.mark.anyio
async def test_a_selection_that_selects_nothing_or_too_much_is_refused(
    tmp_path: Path, said: dict[str, object], parameter: str
) -> None:
    with fleet(tmp_path) as served:
        body = json.dumps({"action": "cordon", "reason": "x", **said}).encode()

        got = await served.get("/actions", method="POST", headers=JSON, body=body)

        assert (got.status, got.json["code"]) == (400, "invalid_body")
        assert got.json["errors"][0]["parameter"] == parameter


@pytest.mark.anyio
async def test_a_selection_of_very_many_nodes_is_refused(tmp_path: Path) -> None:
    with fleet(tmp_path) as served:
        records = [
            (f"fleet.v1.agent.n{number}.registered", b'{"boot_id":"b1","seq":1}')
            for number in range(MOST_NODES + 1)
        ]
        served.records(records)
        body = json.dumps({"action": "cordon", "reason": "x", "selector": {"all": True}}).encode()

        got = await served.get("/actions", method="POST", headers=JSON, body=body)

        assert (got.status, got.json["code"], got.json["most"]) == (400, "too_many_nodes", MOST_NODES)


@pytest.mark.anyio
async def test_a_node_that_could_not_be_written_is_told_and_the_others_too(tmp_path: Path) -> None:
    with fleet(tmp_path) as served:
        served.registered("a")
        served.said("operator", "b", "cordoned", owner="operator", reason="x")
        body = json.dumps({"action": "cordon", "reason": "x", "selector": {"ids": ["a", "b"]}}).encode()

        got = await served.get("/actions", method="POST", headers=JSON, body=body)

        assert got.json["counts"] == {"failed": 2}
        assert "no connection" in got.json["items"][0]["says"]


@on_a_loop
async def test_a_broker_that_is_gone_costs_a_selection_one_time_out(
    own_broker: AnyBroker, tmp_path: Path
) -> None:
    async with serving(own_broker, tmp_path) as served:
        await served.publish("fleet.v1.agent.n000.registered", b'{"boot_id":"b1","seq":1,"zone":"z1"}')
        for number in range(1, 3 * AT_ONCE):
            about = f"fleet.v1.agent.n{number:03}.registered"
            await served.nc.publish(about, b'{"boot_id":"b1","seq":1,"zone":"z1"}')
        await served.publish("fleet.v1.agent.nil.registered", b'{"boot_id":"b1","seq":1}')
        own_broker.freeze()
        try:
            answer = await _bulk(served, "cordon", {"zone": "z1"})
        finally:
            own_broker.thaw()

        assert answer["counts"] == {"failed": 3 * AT_ONCE}
        told = {item["says"].split(":")[0] for item in answer["items"]}
        assert len(told) == AT_ONCE  # so many waited, and the others are told what one of those saw
