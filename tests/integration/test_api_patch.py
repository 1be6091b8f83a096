"""What operators declare of a node, on a real broker: over what the agent reports, under a version."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from api.change_models import ChangedNodeAnswer
from tests.support.brokers import AnyBroker
from tests.support.deciding import JSON, act, register, send
from tests.support.fleet import fleet
from tests.support.loops import on_a_loop
from tests.support.serving import serving


@on_a_loop
async def test_what_is_declared_wins_over_what_is_reported_until_it_is_taken_away(
    broker: AnyBroker, tmp_path: Path
) -> None:
    async with serving(broker, tmp_path) as served:
        await register(served, "n1", labels={"env": "dev", "rack": "7"}, display_name="one")

        got = await send(
            served,
            "PATCH",
            "/nodes/n1",
            {
                "labels": {"env": "prod", "ops/role": "primary"},
                "annotations": {"ticket": "42"},
                "display_name": "edge one",
                "reason": "it went live",
            },
        )

        answer = ChangedNodeAnswer.model_validate_json(got.body)
        assert answer.labels == {"env": "prod", "rack": "7", "ops/role": "primary"}
        assert (answer.annotations, answer.display_name) == ({"ticket": "42"}, "edge one")
        assert answer.change.follows == ["label env=prod overrides dev, which the agent reports"]
        assert answer.change.facts == [2, 3, 4]

        await served.publish(
            "fleet.v1.agent.n1.registered",
            json.dumps({"boot_id": "b1", "seq": 2, "labels": {"env": "test"}}).encode(),
        )
        gone = (
            await send(
                served,
                "PATCH",
                "/nodes/n1",
                {"labels": {"env": None, "ops/role": None, "x": None}, "display_name": None},
            )
        ).json
        assert (gone["labels"], gone["display_name"]) == ({"env": "test"}, None)
        assert gone["change"]["follows"] == ["label env is test again, as the agent reports it"]

        stays = (await send(served, "PATCH", "/nodes/n1", {"labels": {"env": None}})).json
        assert (stays["change"]["outcome"], stays["labels"]) == ("no_change", {"env": "test"})
        assert "only the agent takes it away" in stays["change"]["follows"][0]


@on_a_loop
async def test_a_reservation_is_kept_from_allocation_and_leaves_other_numbers(
    broker: AnyBroker, tmp_path: Path
) -> None:
    async with serving(broker, tmp_path) as served:
        await register(served, "n1", resources={"cpu": {"total": 8, "reserved": 1, "ratio": 2}})

        got = (await send(served, "PATCH", "/nodes/n1", {"reservation": {"cpu": 2.5}})).json
        assert [(one["reserved"], one["allocatable"]) for one in got["resources"]] == [(2.5, 11)]

        got = (await send(served, "PATCH", "/nodes/n1", {"reservation": {"cpu": 9}})).json
        assert got["resources"][0]["flags"] == ["over_reserved"]

        got = (await send(served, "PATCH", "/nodes/n1", {"reservation": {"cpu": None}})).json
        assert [(one["reserved"], one["allocatable"]) for one in got["resources"]] == [(1, 14)]


@on_a_loop
async def test_a_change_under_a_version_that_has_passed_is_a_412(broker: AnyBroker, tmp_path: Path) -> None:
    async with serving(broker, tmp_path) as served:
        await register(served, "n1")
        read = (await served.ask("GET", "/fleet/v1/nodes/n1")).headers["etag"]

        async def patch(value: str, etag: str):  # noqa: ANN202
            body = {"labels": {"a": value}}
            return await send(served, "PATCH", "/nodes/n1", body, headers={"If-Match": etag})

        both = await asyncio.gather(patch("1", read), patch("2", read))

        assert sorted(got.status for got in both) == [200, 412]
        lost = next(got for got in both if got.status == 412).json
        assert (lost["code"], lost["status"], lost["expected"], lost["found"]) == (
            "version_conflict",
            412,
            1,
            2,
        )
        won = next(got for got in both if got.status == 200)
        assert (await patch("3", won.headers["etag"])).status == 200
        assert (await patch("4", "*")).status == 200
        assert (await patch("5", 'W/"4"')).json["parameter"] == "If-Match"


@on_a_loop
async def test_nothing_is_declared_of_a_node_that_is_unknown_or_retired(
    broker: AnyBroker, tmp_path: Path
) -> None:
    async with serving(broker, tmp_path) as served:
        await register(served, "old")
        await act(served, "old", "retire")

        unknown = await send(served, "PATCH", "/nodes/nobody", {"labels": {"a": "b"}})
        retired = await send(served, "PATCH", "/nodes/old", {"labels": {"a": "b"}})

        assert (unknown.status, unknown.json["code"]) == (404, "unknown_node")
        assert (retired.status, retired.json["code"]) == (410, "node_retired")
        assert await served.fleet_seq() == 2


@pytest.mark.parametrize(
    ("said", "parameter", "says"),
    [
        ({"labels": {"fleetfold/x": "1"}}, "labels.fleetfold/x", "Fleetfold's own"),
        ({"labels": {"": "1"}}, "labels", "not empty"),
        ({"labels": {"a": "x" * 1025}}, "labels.a", "1025 bytes"),
        ({"labels": {"a": 1}}, "labels.a", "string"),
        ({"annotations": {"fleetfold/x": None}}, "annotations.fleetfold/x", "Fleetfold's own"),
        ({"hostname": "h"}, "hostname", "the agent reports it"),
        ({"state": "ready"}, "state", "actions"),
        ({"liveness": "alive"}, "liveness", "nobody sets it"),
        ({"allocations": []}, "allocations", "PUT or DELETE"),
        ({"display_name": ""}, "display_name", "at least 1"),
        ({"reservation": {"cpu": -1}}, "reservation.cpu", "not negative"),
        ({"reservation": {"cpu": "2"}}, "reservation.cpu", "a JSON number"),
        ({"reservation": {"cpu": True}}, "reservation.cpu", "a JSON number"),
        ({"reservation": {"": 1}}, "reservation", "at least 1"),
        ({"label": {}}, "label", ""),
    ],
)
@pytest.mark.anyio
async def test_what_is_not_the_operators_is_refused_with_the_right_way(
    tmp_path: Path, said: dict[str, object], parameter: str, says: str
) -> None:
    with fleet(tmp_path) as served:
        served.registered("n1")

        got = await served.get("/nodes/n1", method="PATCH", headers=JSON, body=json.dumps(said).encode())

        assert (got.status, got.json["code"]) == (400, "invalid_body")
        assert got.json["errors"][0]["parameter"].startswith(parameter)
        assert says in got.json["errors"][0]["detail"]


@on_a_loop
async def test_the_same_declaration_again_does_nothing_whatever_others_took_back_of_it(
    broker: AnyBroker, tmp_path: Path
) -> None:
    said = {"labels": {"a": "1"}, "annotations": {"b": "2"}, "display_name": "one", "request_id": "r1"}
    taken_back: list[dict[str, object]] = [
        {"labels": {"a": None}},
        {"display_name": None},
        {"annotations": {"b": None}},
    ]
    async with serving(broker, tmp_path) as served:
        await register(served, "n1")
        await send(served, "PATCH", "/nodes/n1", said)
        for change in taken_back:
            await send(served, "PATCH", "/nodes/n1", change)
            before = await served.fleet_seq()

            again = await send(served, "PATCH", "/nodes/n1", said)

            assert (again.status, again.json["change"]["outcome"]) == (200, "no_change")
            assert again.json["change"]["says"].startswith("the same request was done before")
            assert await served.fleet_seq() == before


@on_a_loop
async def test_the_same_declaration_again_does_nothing_where_less_was_to_do_then(
    broker: AnyBroker, tmp_path: Path
) -> None:
    said = {"labels": {"a": "1"}, "annotations": {"b": "2"}, "request_id": "r1"}
    async with serving(broker, tmp_path) as served:
        await register(served, "n1")
        await send(served, "PATCH", "/nodes/n1", {"labels": {"a": "1"}})
        await send(served, "PATCH", "/nodes/n1", said)
        await send(served, "PATCH", "/nodes/n1", {"labels": {"a": None}, "annotations": {"b": None}})

        again = await send(served, "PATCH", "/nodes/n1", said)

        assert (again.status, again.json["change"]["outcome"]) == (200, "no_change")
        assert (again.json["labels"], again.json["annotations"]) == ({}, {})
