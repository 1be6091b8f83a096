"""What operators do with one node, on a real broker: folded when it is answered, or refused."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from api.change_models import ChangedNodeAnswer
from tests.support.brokers import AnyBroker
from tests.support.deciding import JSON, act, register, send
from tests.support.fleet import fleet
from tests.support.loops import on_a_loop
from tests.support.serving import serving


@on_a_loop
async def test_a_cordon_is_folded_when_it_is_answered_and_told_with_who_and_why(
    broker: AnyBroker, tmp_path: Path
) -> None:
    async with serving(broker, tmp_path) as served:
        await register(served, "n1")

        got = await act(served, "n1", "cordon", reason="disk 3 fails", actor="ada")

        answer = ChangedNodeAnswer.model_validate_json(got.body)
        assert got.status == 200
        assert answer.state == "cordoned"
        assert [(hold.owner, hold.actor, hold.reason) for hold in answer.holds] == [
            ("operator", "ada", "disk 3 fails")
        ]
        assert answer.change.outcome == "done"
        assert answer.change.facts == [answer.version] == [await served.fleet_seq()]
        assert (answer.change.before and answer.change.before.state, answer.as_of.seq) == ("pending", 2)
        assert got.headers["etag"] == '"2"'


@on_a_loop
async def test_what_is_so_already_writes_nothing(broker: AnyBroker, tmp_path: Path) -> None:
    async with serving(broker, tmp_path) as served:
        await register(served, "n1")
        await act(served, "n1", "drain")

        again = (await act(served, "n1", "drain")).json

        assert (again["change"]["outcome"], again["change"]["facts"]) == ("no_change", [])
        assert await served.fleet_seq() == 2


@on_a_loop
async def test_a_whole_life_goes_through_every_action(broker: AnyBroker, tmp_path: Path) -> None:
    async with serving(broker, tmp_path) as served:
        await register(served, "a.b/c".replace(".", "%2E").replace("/", "%2F"))
        states = []
        for action in (
            "cordon",
            "drain",
            "enter_maintenance",
            "leave_maintenance",
            "undrain",
            "uncordon",
            "retire",
            "restore",
        ):
            got = await act(served, "a.b/c", action)
            assert got.status == 200, got.body
            states.append(got.json["state"])

        assert states == [
            "cordoned",
            "draining",
            "maintenance",
            "draining",
            "cordoned",
            "pending",
            "retired",
            "pending",
        ]


@on_a_loop
async def test_a_refusal_names_the_reason_and_the_right_way(broker: AnyBroker, tmp_path: Path) -> None:
    async with serving(broker, tmp_path) as served:
        await register(served, "n1")
        await act(served, "n1", "cordon", owner="hw-team", reason="segfaults")

        others = await act(served, "n1", "uncordon")
        assert (others.status, others.json["code"], others.json["situation"]) == (
            409,
            "refused",
            "held_by_others",
        )
        assert others.json["owners"] == ["hw-team"]
        assert "cordoned by hw-team (segfaults)" in others.json["detail"]

        wrong = await act(served, "n1", "undrain")
        assert (wrong.status, wrong.json["instead"]) == (409, "use uncordon")

        named = await act(served, "n1", "uncordon", owner="hw-team")
        assert (named.status, named.json["holds"]) == (200, [])

        await act(served, "n1", "retire")
        held = await act(served, "n1", "cordon")
        assert (held.status, held.json["instead"]) == (409, "restore it first")

        unknown = await act(served, "nobody", "cordon")
        assert (unknown.status, unknown.json["code"]) == (404, "unknown_node")
        assert await served.fleet_seq() == 4


@on_a_loop
async def test_a_node_with_workloads_is_retired_by_force_alone(broker: AnyBroker, tmp_path: Path) -> None:
    async with serving(broker, tmp_path) as served:
        await register(served, "n1", resources={"cpu": {"total": 8}})
        await send(served, "PUT", "/nodes/n1/allocations/vm-1", {"amounts": {"cpu": 2}})

        refused = await act(served, "n1", "retire")
        assert (refused.status, refused.json["workloads"]) == (409, ["vm-1"])

        forced = await act(served, "n1", "retire", force=True)
        assert (forced.status, forced.json["state"]) == (200, "retired")
        assert forced.json["change"]["follows"] == ["these lose their place: vm-1"]


@on_a_loop
async def test_a_dry_run_says_what_would_be_and_does_nothing(broker: AnyBroker, tmp_path: Path) -> None:
    async with serving(broker, tmp_path) as served:
        await register(served, "n1")

        got = (await act(served, "n1", "enter_maintenance", dry_run=True)).json

        assert got["state"] == "pending"
        assert (got["change"]["outcome"], got["change"]["dry_run"]) == ("done", True)
        assert got["change"]["after"] == {
            "state": "maintenance",
            "intent": "maintenance",
            "schedulable": False,
        }
        assert await served.fleet_seq() == 1


@on_a_loop
async def test_the_same_request_again_does_nothing_though_the_node_was_changed_between(
    broker: AnyBroker, tmp_path: Path
) -> None:
    async with serving(broker, tmp_path) as served:
        await register(served, "n1")
        await act(served, "n1", "cordon", request_id="r1")
        await act(served, "n1", "uncordon")

        again = await act(served, "n1", "cordon", request_id="r1")

        assert (again.status, again.json["holds"]) == (200, [])
        assert again.json["change"] == {
            "outcome": "no_change",
            "says": "the same request was done before: what was said about the node since then stands",
            "follows": [],
            "facts": [2],
            "dry_run": False,
            "before": again.json["change"]["before"],
            "after": again.json["change"]["before"],
        }
        assert await served.fleet_seq() == 3
        other = await act(served, "n1", "cordon", request_id="r1", reason="another")
        assert len(other.json["holds"]) == 1


@on_a_loop
async def test_who_asks_is_the_body_else_the_header_else_the_operator(
    broker: AnyBroker, tmp_path: Path
) -> None:
    async with serving(broker, tmp_path) as served:
        await register(served, "n1")
        said = {"action": "cordon", "reason": "test"}
        headers = {"X-Fleetfold-Actor": "grace", "X-Request-Id": "r7"}

        by_header = await send(served, "POST", "/nodes/n1/actions", {**said, "owner": "a"}, headers=headers)
        by_body = await send(
            served, "POST", "/nodes/n1/actions", {**said, "owner": "b", "actor": "ada"}, headers=headers
        )
        by_nobody = await send(served, "POST", "/nodes/n1/actions", {**said, "owner": "c"})

        assert [hold["actor"] for hold in by_nobody.json["holds"]] == ["grace", "ada", "operator"]
        assert by_header.status == by_body.status == 200


@pytest.mark.parametrize(
    ("said", "parameter"),
    [
        ({"action": "knight"}, "action"),
        ({"action": "cordon"}, "reason"),
        ({"action": "cordon", "reason": "  "}, "reason"),
        ({"action": "uncordon", "until": "2126-01-01T00:00:00Z"}, "until"),
        ({"action": "cordon", "reason": "x", "until": "2020-01-01T00:00:00Z"}, "until"),
        ({"action": "retire", "reason": "x", "sticky": True}, "sticky"),
        ({"action": "cordon", "reason": "x", "force": True}, "force"),
        ({"action": "cordon", "reason": "x", "owner": ""}, "owner"),
        ({"action": "cordon", "reason": "x", "sticky": "yes"}, "sticky"),
        ({"action": "cordon", "reason": "x", "unitl": "2126-01-01T00:00:00Z"}, "unitl"),
    ],
)
@pytest.mark.anyio
async def test_a_body_that_cannot_be_meant_is_refused_by_its_member(
    tmp_path: Path, said: dict[str, object], parameter: str
) -> None:
    with fleet(tmp_path) as served:
        served.registered("n1")

        got = await served.get(
            "/nodes/n1/actions", method="POST", headers=JSON, body=json.dumps(said).encode()
        )

        assert (got.status, got.json["code"]) == (400, "invalid_body")
        assert got.json["errors"][0]["parameter"] == parameter


@on_a_loop
async def test_an_end_is_kept_with_the_hold(broker: AnyBroker, tmp_path: Path) -> None:
    async with serving(broker, tmp_path) as served:
        await register(served, "n1")
        until = (datetime.now(UTC) + timedelta(hours=2)).replace(microsecond=0)

        got = (await act(served, "n1", "enter_maintenance", until=until.isoformat(), sticky=True)).json

        assert got["holds"][0]["until"] == f"{until:%Y-%m-%dT%H:%M:%SZ}"
        assert got["holds"][0]["sticky"] is True
        assert got["change"]["follows"] == [f"it ends by itself at {until:%Y-%m-%dT%H:%M:%SZ}"]
