"""Changes under the version that was read, on a real broker: every route that writes about one node."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.brokers import AnyBroker
from tests.support.deciding import JSON, register, send
from tests.support.fleet import fleet
from tests.support.loops import on_a_loop
from tests.support.serving import serving

NOON = "2026-05-01T12:00:00Z"
CORDON = {"action": "cordon", "reason": "test"}
WRITES = [
    ("PATCH", "/nodes/n1", {"labels": {"a": "1"}}),
    ("POST", "/nodes/n1/actions", CORDON),
    ("POST", "/nodes/n1/actions", {**CORDON, "dry_run": True}),
    ("PUT", "/nodes/n1/allocations/vm-1", {"amounts": {"cpu": 1}}),
    ("DELETE", "/nodes/n1/allocations/vm-0", None),
]


@pytest.mark.parametrize(("method", "path", "body"), WRITES)
@on_a_loop
async def test_no_change_is_made_of_a_node_that_changed_after_it_was_read(
    broker: AnyBroker, tmp_path: Path, method: str, path: str, body: object
) -> None:
    async with serving(broker, tmp_path) as served:
        await register(served, "n1")
        await send(served, "PUT", "/nodes/n1/allocations/vm-0", {"amounts": {}})

        stale = await send(served, method, path, body, headers={"If-Match": '"1"'})
        unknown = await send(served, method, path.replace("n1", "n2"), body, headers={"If-Match": '"1"'})
        odd = await send(served, method, path, body, headers={"If-Match": "1"})
        assert await served.fleet_seq() == 2
        fresh = await send(served, method, path, body, headers={"If-Match": '"2"'})

        assert (stale.status, stale.json["code"]) == (412, "version_conflict")
        assert (stale.json["expected"], stale.json["found"]) == (1, 2)
        assert (unknown.status, unknown.json["code"]) == (404, "unknown_node")
        assert (odd.status, odd.json["parameter"]) == (400, "If-Match")
        assert fresh.status in (200, 201)
        assert fresh.json["change"]["outcome"] == "done"


@pytest.mark.parametrize(
    ("body", "headers", "detail"),
    [
        (b'{"reason":"\xff"}', JSON, "the body is not JSON in UTF-8, or is nested too deep"),
        (b"[" * 100_000, JSON, "the body is not JSON in UTF-8, or is nested too deep"),
        (b'{"action":', JSON, "the body is not JSON: something is wrong at character 10"),
        (b'{"action":"cordon"}', {}, "the body is a JSON object, sent with Content-Type: application/json"),
        (b"[]", JSON, "the body is a JSON object, sent with Content-Type: application/json"),
        (b"", JSON, "the body is a JSON object, sent with Content-Type: application/json"),
        (b'{"action":"cordon","reason":"x","until":7}', JSON, "until: a time is a text"),
        (
            b'{"action":"cordon","reason":"x","until":"soon"}',
            JSON,
            "until: a time is written " + NOON,
        ),
    ],
)
@pytest.mark.anyio
async def test_a_body_that_cannot_be_read_is_told_with_what_is_wrong(
    tmp_path: Path, body: bytes, headers: dict[str, str], detail: str
) -> None:
    with fleet(tmp_path) as served:
        served.registered("n1")

        got = await served.get("/nodes/n1/actions", method="POST", headers=headers, body=body)

        assert (got.status, got.json["code"], got.json["detail"]) == (400, "invalid_body", detail)


@pytest.mark.anyio
async def test_a_body_beyond_its_limit_is_not_read_to_its_end(tmp_path: Path) -> None:
    with fleet(tmp_path) as served:
        served.registered("n1")
        body = b'{"action":"cordon","reason":"' + b"x" * 2**20 + b'"}'

        got = await served.get("/nodes/n1/actions", method="POST", headers=JSON, body=body)

        assert (got.status, got.json["code"]) == (413, "oversized")


@pytest.mark.parametrize("member", ["labels", "annotations", "reservation"])
@pytest.mark.anyio
async def test_null_takes_away_what_is_named_and_never_all_of_it(tmp_path: Path, member: str) -> None:
    with fleet(tmp_path) as served:
        served.registered("n1")
        body = f'{{"{member}":null}}'.encode()

        got = await served.get("/nodes/n1", method="PATCH", headers=JSON, body=body)

        assert (got.status, got.json["code"]) == (400, "invalid_body")
        assert got.json["errors"][0]["parameter"] == member


@on_a_loop
async def test_who_asks_may_have_any_letters_in_a_header_and_not_too_many(
    broker: AnyBroker, tmp_path: Path
) -> None:
    async with serving(broker, tmp_path) as served:
        await register(served, "n1")
        got = await send(served, "POST", "/nodes/n1/actions", CORDON, headers={"X-Fleetfold-Actor": "Zoë"})
        long = [
            await send(served, "POST", "/nodes/n1/actions", CORDON, headers={name: "x" * 1025})
            for name in ("X-Fleetfold-Actor", "X-Request-Id")
        ]

        assert got.json["holds"][0]["actor"] == "Zoë"
        assert [(one.status, one.json["parameter"]) for one in long] == [
            (400, "X-Fleetfold-Actor"),
            (400, "X-Request-Id"),
        ]
