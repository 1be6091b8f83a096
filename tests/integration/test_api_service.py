"""What every route does: errors, tokens, positions, status, readiness, metrics."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import anyio
import pytest
from fastapi.routing import iter_route_contexts

from api import answers as answers_module
from api.auth import NATIVE_PREFIX
from api.models import Problem
from api.problems import KINDS, TYPE_PREFIX
from api.service import Replica
from api.status_models import ReadyAnswer, StatusAnswer
from events.errors import StoreError
from tests.support.asgi import ask
from tests.support.fleet import Fleet, fleet

pytestmark = pytest.mark.anyio
TOKEN = "s3cret-of-the-admin"


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Fleet]:
    with fleet(tmp_path) as made:
        yield made


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Fleet]:
    with fleet(tmp_path, admin_token=TOKEN) as made:
        yield made


async def test_an_answer_says_which_state_it_speaks_of(served: Fleet) -> None:
    served.registered("n1")
    seq = served.registered("n2")
    _lag(served, 1234.5)

    before = datetime.now(UTC)
    got = await served.get("/nodes/n1")

    as_of = got.json["as_of"]
    assert (as_of["seq"], as_of["lag_ms"]) == (seq, 1234)
    assert got.headers["x-lag-ms"] == "1234"
    said = datetime.fromisoformat(as_of["time"])
    assert abs(said + timedelta(seconds=1.234) - before) < timedelta(seconds=5)


async def test_a_lag_that_nobody_knows_yet_is_null(served: Fleet) -> None:
    served.registered("n1")
    _lag(served, None)

    got = await served.get("/nodes/n1")

    assert got.json["as_of"]["lag_ms"] is None
    assert datetime.fromisoformat(got.json["as_of"]["time"]) == served.at
    assert "x-lag-ms" not in got.headers


async def test_min_seq_waits_for_the_record(served: Fleet) -> None:
    served.registered("n1")

    async with anyio.create_task_group() as tasks:

        async def later() -> None:
            await anyio.to_thread.run_sync(lambda: served.registered("n2"))

        tasks.start_soon(later)
        got = await served.get("/nodes/n2?min_seq=2")

    assert got.json["id"] == "n2"
    assert got.json["as_of"]["seq"] == 2


async def test_min_seq_that_never_comes_is_a_problem_with_what_was_reached(
    served: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answers_module, "MIN_SEQ_WITHIN", timedelta(milliseconds=20))
    served.registered("n1")

    got = await served.get("/nodes?min_seq=99")

    assert (got.status, got.json["code"]) == (504, "position_not_reached")
    assert (got.json["reached"], got.json["min_seq"]) == (1, 99)


@pytest.mark.parametrize(
    ("method", "target", "status", "code"),
    [
        ("GET", "/fleet/v1/nope", 404, "unknown_route"),
        ("GET", "/fleet/v1", 404, "unknown_route"),
        ("GET", "/fleet/v1/", 404, "unknown_route"),
        ("GET", "/nope/%2F%FF", 404, "unknown_route"),
        ("DELETE", "/fleet/v1/nodes", 405, "method_not_allowed"),
        ("BREW", "/fleet/v1/status", 405, "method_not_allowed"),
        ("GET", "/fleet/v1/nodes/%FF", 400, "invalid_node_id"),
        ("GET", "/fleet/v1/nodes/" + "n" * 251, 400, "invalid_node_id"),
        ("GET", "/fleet/v1/status?x=1", 400, "unknown_parameter"),
        ("GET", "/fleet/v1/livez?x=1", 400, "unknown_parameter"),
        ("GET", "/fleet/v1/nodes?zone=%FF%FE&x", 400, "unknown_parameter"),
    ],
)
async def test_every_error_is_a_problem(
    served: Fleet, method: str, target: str, status: int, code: str
) -> None:
    got = await ask(served.app, target, method=method)

    assert got.status == status
    problem = Problem.model_validate(got.json)
    assert (problem.code, problem.status) == (code, status)
    assert problem.type == TYPE_PREFIX + code
    assert problem.instance == target.partition("?")[0]
    if status == 405:
        assert got.headers["allow"] == "GET, HEAD"


@pytest.mark.parametrize(
    ("target", "status"),
    [
        ("/", 200),
        ("/page/page.css", 200),
        ("/fleet/v1/livez", 200),
        ("/fleet/v1/readyz", 200),
        ("/fleet/v1/nodes/a%2Fb", 200),
        ("/fleet/v1/nodes/nobody", 404),
        ("/fleet/v1/nodes?x=1", 400),
        ("/fleet/v1/nope", 404),
        ("/fleet/v1/sql", 405),
    ],
)
async def test_head_is_answered_as_get_without_the_body(served: Fleet, target: str, status: int) -> None:
    served.registered("a/b")

    got, head = await ask(served.app, target), await ask(served.app, target, method="HEAD")

    assert (head.status, head.body) == (status, b"")
    assert got.status == status
    assert head.headers.keys() == got.headers.keys()
    assert head.headers["content-type"] == got.headers["content-type"]
    assert int(head.headers["content-length"]) > 0


async def test_head_asks_for_the_token_too(guarded: Fleet) -> None:
    got = await ask(guarded.app, "/fleet/v1/status", method="HEAD")

    assert (got.status, got.body) == (401, b"")


async def test_an_unexpected_error_is_told_by_its_id_only(
    served: Fleet, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(_asked: object) -> None:
        raise RuntimeError("secret path /srv/x")

    monkeypatch.setattr(served.projection, "node", broken)

    with caplog.at_level(logging.ERROR):
        got = await served.get("/nodes/n1")

    assert (got.status, got.json["code"]) == (500, "internal")
    assert got.json["error_id"] in caplog.text
    assert "secret" not in got.body.decode()
    assert "secret path" in caplog.text


async def test_tables_that_cannot_be_read_are_a_503_without_their_path(
    served: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away() -> None:
        raise StoreError("/srv/fleet.duckdb", why="it is closed")

    monkeypatch.setattr(served.projection, "cursor", away)

    got = await served.get("/capacity?at=2026-01-01T00:00:00Z")

    assert (got.status, got.json["code"]) == (503, "store_unavailable")
    assert "/srv" not in got.body.decode()


def test_codes_are_stable_words_and_each_stands_once() -> None:
    codes = [kind.code for kind in KINDS]

    assert len(set(codes)) == len(codes)
    assert all(code.replace("_", "").isalpha() and code.islower() for code in codes)


async def test_with_a_token_every_native_route_asks_for_it(guarded: Fleet) -> None:
    paths = {route.path for route in iter_route_contexts(guarded.app.routes) if route.path}
    native = {path for path in paths if path.startswith(NATIVE_PREFIX)} | {
        NATIVE_PREFIX,
        f"{NATIVE_PREFIX}/nope",
    }
    assert len(native) > 8

    for path in sorted(native):
        got = await ask(guarded.app, path)
        if path.endswith(("/livez", "/readyz")):
            assert got.status == 200, path
        else:
            assert (got.status, got.json["code"]) == (401, "unauthorized"), path
            assert got.headers["www-authenticate"].startswith("Bearer")
    assert (await ask(guarded.app, "/")).status == 200


@pytest.mark.parametrize(
    ("authorization", "status"),
    [
        (f"Bearer {TOKEN}", 200),
        (f"bearer {TOKEN}", 200),
        (f"Bearer {TOKEN}x", 401),
        (f"Bearer {TOKEN[:-1]}", 401),
        (f"Basic {TOKEN}", 401),
        (TOKEN, 401),
        ("Bearer", 401),
        ("Bearer ", 401),
        ("", 401),
        ("Bearer ü", 401),
    ],
)
async def test_only_the_admin_token_lets_in(guarded: Fleet, authorization: str, status: int) -> None:
    got = await guarded.get("/status", headers={"authorization": authorization})

    assert got.status == status


@pytest.mark.parametrize(
    "target", ["/fleet%2Fv1/status", "/fleet/v1/nodes/livez", "/%66leet/v1/status", "/fleet/v1/status/"]
)
async def test_no_spelling_of_a_path_goes_around_the_token(guarded: Fleet, target: str) -> None:
    got = await ask(guarded.app, target)

    assert got.status == 401


async def test_status_says_what_is_read_and_how_far(tmp_path: Path) -> None:
    replica = Replica(state="away", reason="it is restarted", restarts=3)
    with fleet(
        tmp_path,
        nats_url="nats://user:secret@127.0.0.1:4222",
        liveness_mode=lambda: "watching",
        replica=lambda: replica,
    ) as served:
        served.registered("n1")
        served.registered("n2")
        served.said("operator", "n2", "retired", actor="ops")
        served.beat("n1")

        got = await served.get("/status")

    StatusAnswer.model_validate_json(got.body)
    status = got.json
    assert (status["fleet_seq"], status["beats_seq"], status["nodes"]) == (3, 1, 1)
    assert status["nodes_by_state"] == {"pending": 1, "retired": 1}
    assert status["nats_url"] == "nats://127.0.0.1:4222"
    assert status["liveness_mode"] == "watching"
    assert status["streams"]["FLEET"]["seq"] == 3
    assert status["replica"] == {"state": "away", "reason": "it is restarted", "lag_ms": None, "restarts": 3}


async def test_ready_means_caught_up_with_what_was_there_at_the_start(served: Fleet) -> None:
    fleet_stream = served.readings["FLEET"]
    served.readings["FLEET"] = replace(fleet_stream, head_at_start=2)
    served.registered("n1")

    behind = await served.get("/readyz")
    served.registered("n2")
    caught_up = await served.get("/readyz")

    assert (behind.status, behind.json["code"]) == (503, "not_ready")
    assert behind.json["streams"]["FLEET"] == {"seq": 1, "target": 2}
    assert behind.json["detail"] == "FLEET is folded up to 1 of 2"
    assert caught_up.status == 200
    ReadyAnswer.model_validate_json(caught_up.body)


async def test_a_stream_that_is_missing_or_stopped_is_not_ready(served: Fleet) -> None:
    reading = served.readings["BEATS"]
    for broken, reason in (
        (replace(reading, head_at_start=None), "stream BEATS was not found yet"),
        (replace(reading, state="stopped"), "BEATS is no longer read"),
    ):
        served.readings["BEATS"] = broken
        got = await served.get("/readyz")

        assert (got.status, got.json["detail"]) == (503, reason)
        assert (await served.get("/livez")).json == {"live": True}


async def test_metrics_are_text_that_prometheus_reads(served: Fleet) -> None:
    from prometheus_client.parser import text_string_to_metric_families

    served.registered("n1")
    served.record("fleet.v1.agent.n2.registered", b"not json")
    await served.get("/nodes/n1")
    await served.get("/nodes/nobody")

    got = await served.get("/metrics")

    assert got.headers["content-type"].startswith("text/plain")
    samples = {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(got.body.decode())
        for sample in family.samples
    }
    assert samples["fleetfold_nodes", ("state", "pending")] == 1
    assert samples["fleetfold_quarantined_total", ("reason", "not_json"), ("stream", "FLEET")] == 1
    assert samples["fleetfold_folded_seq", ("stream", "FLEET")] == 2
    assert samples["fleetfold_lag_seconds", ("stream", "FLEET")] == 0
    assert samples["fleetfold_reader_generations_total", ("stream", "FLEET")] == 1
    assert samples["fleetfold_commits_total",] == 2
    route = ("route", "/fleet/v1/nodes/{node_id}")
    for status in ("200", "404"):
        counted = ("fleetfold_http_request_seconds_count", ("method", "GET"), route, ("status", status))
        assert samples[counted] == 1


def _lag(served: Fleet, lag_ms: float | None) -> None:
    served.readings = {name: replace(reading, lag_ms=lag_ms) for name, reading in served.readings.items()}
