"""Capacity over HTTP: of the fleet, of one node, and as it was; and nodes as they were."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from api.capacity_models import CapacityAnswer, CapacityHistoryAnswer, NodeCapacityAnswer
from api.node_models import NodeAtAnswer, NodesAnswer
from tests.support.fleet import Fleet, fleet, ids

pytestmark = pytest.mark.anyio


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Fleet]:
    with fleet(tmp_path) as made:
        yield made


def _time(moment: datetime) -> str:
    return quote(moment.isoformat())


def _by_place(body: dict[str, Any]) -> dict[tuple[str, str | None], dict[str, Any]]:
    return {(item["resource"], item["place"]): item for item in body["items"]}


async def test_sums_are_made_over_the_fleet_and_over_places(served: Fleet) -> None:
    served.registered("a", zone="z1", resources={"cpu": {"total": 8, "reserved": 0.5}, "gpu": {"total": 2}})
    served.registered("b", zone="z1", resources={"cpu": {"total": 16}, "gpu": {"total": None}})
    served.registered("c", resources={"cpu": {"total": 4}})
    served.said("platform", "b", "allocated", workload="w", amounts={"cpu": 20})
    served.beat("a", used={"cpu": 1.5})

    everywhere = await served.get("/capacity")
    by_zone = await served.get("/capacity?group_by=zone")

    CapacityAnswer.model_validate_json(everywhere.body)
    CapacityAnswer.model_validate_json(by_zone.body)
    sums = _by_place(everywhere.json)
    assert sums["cpu", None] == {
        "resource": "cpu", "place": None, "nodes": 3, "unknown": 0, "total": 28, "reserved": 0.5,
        "allocatable": 27.5, "allocated": 20, "free": 7.5, "used": 1.5,
    }  # fmt: skip
    assert (sums["gpu", None]["nodes"], sums["gpu", None]["unknown"], sums["gpu", None]["total"]) == (2, 1, 2)
    places = _by_place(by_zone.json)
    assert [key for key in places if key[0] == "cpu"] == [("cpu", None), ("cpu", "z1")]
    assert places["cpu", None]["total"] == 4
    assert places["cpu", "z1"]["free"] == 3.5


async def test_a_group_of_which_nobody_knows_anything_has_no_sum(served: Fleet) -> None:
    served.registered("a", resources={"gpu": {"total": None}})

    item = (await served.get("/capacity")).json["items"][0]

    assert (item["nodes"], item["unknown"], item["total"], item["free"]) == (1, 1, None, None)


async def test_a_retired_node_holds_no_capacity(served: Fleet) -> None:
    served.registered("a", resources={"cpu": {"total": 8}})
    served.said("operator", "a", "retired", actor="ops")

    assert (await served.get("/capacity")).json["items"] == []
    gone = await served.get("/nodes/a/capacity")
    assert (gone.status, gone.json["code"]) == (410, "node_retired")


async def test_the_past_is_answered_as_it_was(served: Fleet) -> None:
    began = served.at
    served.registered("a", zone="z1", resources={"cpu": {"total": 8}})
    served.at += timedelta(minutes=10)
    served.registered("a", seq=2, zone="z2", resources={"cpu": {"total": 16}, "gpu": {"total": 1}})
    served.at += timedelta(minutes=10)
    served.said("operator", "a", "retired", actor="ops", reason="sold")

    for minutes, zone, cpu in ((5, "z1", 8), (15, "z2", 16)):
        at = _time(began + timedelta(minutes=minutes))
        node = await served.get(f"/nodes/a?at={at}")
        NodeAtAnswer.model_validate_json(node.body)
        assert (node.json["zone"], node.json["state"]) == (zone, "pending")
        assert datetime.fromisoformat(node.json["as_of"]["time"]) == began + timedelta(minutes=minutes)
        page = await served.get(f"/nodes?at={at}")
        NodesAnswer.model_validate_json(page.body)
        assert page.json["items"][0]["zone"] == zone
        assert ids(await served.get(f"/nodes?at={at}&zone=z1")) == (["a"] if zone == "z1" else [])
        of_node = await served.get(f"/nodes/a/capacity?at={at}")
        NodeCapacityAnswer.model_validate_json(of_node.body)
        assert of_node.json["items"][0]["total"] == cpu
        assert (await served.get(f"/capacity?at={at}")).json["items"][0]["total"] == cpu
        assert (await served.get(f"/capacity?group_by=zone&at={at}")).json["items"][0]["place"] == zone

    before = await served.get(f"/nodes/a?at={_time(began - timedelta(seconds=1))}")
    assert (before.status, before.json["code"]) == (404, "unknown_node")
    after = await served.get(f"/nodes/a?at={_time(began + timedelta(minutes=25))}")
    assert (after.status, after.json["state"], after.json["reason"]) == (200, "retired", "sold")


async def test_what_the_history_does_not_keep_is_not_asked_of_it(served: Fleet) -> None:
    for query in ("label=a%3Db", "name=x", "dialect=x", "native_id=x"):
        got = await served.get(f"/nodes?at={_time(served.at)}&{query}")

        assert (got.status, got.json["code"]) == (400, "invalid_parameter")
        assert got.json["parameter"] == query.partition("=")[0]


async def test_pages_of_the_past_hold_every_node_once(served: Fleet) -> None:
    names = [f"n{number}" for number in range(7)]
    for name in names:
        served.registered(name)
    at = _time(served.at + timedelta(minutes=1))

    seen: list[str] = []
    target = f"/nodes?at={at}&limit=3"
    while True:
        got = await served.get(target)
        seen += ids(got)
        if got.json["next_cursor"] is None:
            break
        target = f"/nodes?at={at}&limit=3&cursor={got.json['next_cursor']}"

    assert seen == names


async def test_history_has_a_sum_for_every_step_once_however_it_is_paged(served: Fleet) -> None:
    began = served.at
    for step in range(4):
        served.at = began + timedelta(minutes=10 * step)
        served.registered("a", seq=step + 1, resources={"cpu": {"total": 8 + step}})
    span = f"from={_time(began - timedelta(minutes=5))}&to={_time(began + timedelta(minutes=35))}&step=600"

    whole = await served.get(f"/capacity/history?{span}")
    pages: list[dict[str, Any]] = []
    target = f"/capacity/history?{span}&limit=2"
    while True:
        got = await served.get(target)
        CapacityHistoryAnswer.model_validate_json(got.body)
        pages += got.json["items"]
        if got.json["next_cursor"] is None:
            break
        target = f"/capacity/history?{span}&limit=2&cursor={got.json['next_cursor']}"

    assert pages == whole.json["items"]
    assert [datetime.fromisoformat(item["at"]) for item in pages] == [
        began + timedelta(minutes=minutes) for minutes in (-5, 5, 15, 25, 35)
    ]
    assert [[one["total"] for one in item["sums"]] for item in pages] == [[], [8], [9], [10], [11]]


async def test_history_does_not_reach_into_the_future(served: Fleet) -> None:
    served.registered("a", resources={"cpu": {"total": 8}})

    got = await served.get(f"/capacity/history?from={_time(served.at)}&to=2999-01-01T00:00:00Z&step=600")

    last, known = got.json["items"][-1]["at"], got.json["as_of"]["time"]
    assert datetime.fromisoformat(last) <= datetime.fromisoformat(known)
    for wrong in (
        "from=2999-01-01T00:00:00Z",
        "from=2999-01-01T00:00:00Z&to=2999-01-02T00:00:00Z",
        "from=2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z",
        "to=",
        "from=2026-01-01T00:00:00Z&step=0",
    ):
        assert (await served.get(f"/capacity/history?{wrong}")).json["code"] == "invalid_parameter", wrong


async def test_a_timeline_is_paged_newest_first(served: Fleet) -> None:
    served.registered("a")
    for number in range(5):
        served.said("operator", "a", "cordoned", owner="ops", actor="ops", reason=f"r{number}")
        served.said("operator", "a", "uncordoned", owner="ops", actor="ops", reason="")

    whole = (await served.get("/nodes/a/timeline")).json["items"]
    pages: list[dict[str, Any]] = []
    target = "/nodes/a/timeline?limit=3"
    while True:
        got = (await served.get(target)).json
        pages += got["items"]
        if got["next_cursor"] is None:
            break
        target = f"/nodes/a/timeline?limit=3&cursor={got['next_cursor']}"

    assert pages == whole
    assert [item["cause_seq"] for item in pages] == sorted(
        (item["cause_seq"] for item in pages), reverse=True
    )
    assert {"ops"} <= {item["actor"] for item in pages}
