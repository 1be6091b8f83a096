"""What holds in every dialect that is served: hostile requests, its own envelope, whose paths are whose."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from api.dialects.calls import Call, Dialect
from tests.support.asgi import Got, ask
from tests.support.fleet import Fleet, fleet
from tests.support.spoken import speak, told

pytestmark = pytest.mark.anyio

HOSTILE = {
    "empty": b"",
    "half an object": b'{"id": ',
    "a list": b"[]",
    "a text": b'"x"',
    "null": b"null",
    "no UTF-8": b'{"id": "\xff\xfe"}',
    "half a surrogate pair": b'{"id": "\\ud800"}',
    "a key twice": b'{"id": "a", "id": "b"}',
    "NaN": b'{"id": NaN}',
    "infinity": b'{"totalCpus": -Infinity}',
    "nested deeply": b'{"labels": ' + b"[" * 500 + b"]" * 500 + b"}",
    "too long": b'{"id": "' + b"x" * 70_000 + b'"}',
    "a long number": b'{"totalCpus": ' + b"9" * 5_000 + b"}",
    "true for everything": b'{"id": true, "name": true, "hostname": true, "capacity": true, "gpus": true}',
}
SEGMENTS = {
    "plain": "ghost",
    "a slash": "a%2Fb",
    "no UTF-8": "%FF",
    "long": "n" * 4_000,
    "a dot": "..",
    "nul": "%00",
}


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Fleet]:
    with fleet(tmp_path, admin_token="s3cret") as made:
        yield made


def _calls(served: Fleet) -> list[tuple[Dialect, Call]]:
    dialects: tuple[Dialect, ...] = served.app.state.dialects
    assert len(dialects) > 2
    return [(dialect, call) for dialect in dialects for call in dialect.calls]


def _path(call: Call, segment: str = "ghost") -> str:
    parts = [segment if part.startswith("{") else part for part in call.path.split("/")]
    return "/".join(parts)


def _is_documented(dialect: Dialect, call: Call, got: Got) -> None:
    where = f"{call.method} {call.path}: {got.status} {got.body[:200]!r}"
    assert got.status in {*call.answers, *call.refusals, *dialect.may_always_come}, where
    if got.status >= 400 and got.status not in call.answers:
        _is_in_envelope(dialect, got)


def _is_in_envelope(dialect: Dialect, got: Got) -> None:
    schema = dialect.refused_as.schema
    assert schema is not None
    body: dict[str, Any] = told(got)
    assert set(schema["required"]) <= body.keys(), body
    assert got.headers["content-type"] == dialect.refused_as.media_type


@pytest.mark.parametrize("hostile", HOSTILE)
async def test_a_hostile_body_is_refused_in_the_dialects_own_words(served: Fleet, hostile: str) -> None:
    for dialect, call in _calls(served):
        if call.takes is not None:
            got = await speak(served.app, call.method, _path(call), raw=HOSTILE[hostile])

            _is_documented(dialect, call, got)
            assert got.status < 500, f"{call.method} {call.path}"


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8"), max_size=8)
    | st.sampled_from(["caravanserai/v1", "Node", "Ready", "n1", "hybrid", "http://10.0.0.1:1"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["name", "vm_count", "cpu", "ip", "index"]), inner, max_size=3)
    ),
    max_leaves=6,
)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_json_at_all_is_answered_with_a_status_that_is_documented(
    served: Fleet, data: st.DataObject
) -> None:
    for dialect, call in _calls(served):
        if call.takes is not None:
            names = [*call.takes.get("properties", {}), "unknown"]
            body = data.draw(st.dictionaries(st.sampled_from(names), VALUES) | VALUES)
            text = json.dumps(body).encode()

            got = asyncio.run(speak(served.app, call.method, _path(call, "n1"), raw=text))

            _is_documented(dialect, call, got)
            assert got.status < 500 or got.status == 503, got.body


@pytest.mark.parametrize("segment", SEGMENTS)
async def test_a_node_that_nobody_can_have_is_refused_in_the_dialects_own_words(
    served: Fleet, segment: str
) -> None:
    for dialect, call in _calls(served):
        if "{" in call.path:
            got = await speak(served.app, call.method, _path(call, SEGMENTS[segment]), {})

            _is_documented(dialect, call, got)
            assert got.status in range(400, 500), f"{call.method} {call.path}"


async def test_the_native_admin_token_is_not_asked_for(served: Fleet) -> None:
    health, nodes, native = [
        await ask(served.app, path) for path in ("/health", "/v1/nodes", "/fleet/v1/nodes")
    ]

    assert (health.status, told(health)["status"], told(health)["nodesTotal"]) == (200, "ok", 0)
    assert (nodes.status, told(nodes)) == (200, [])
    assert native.status == 401


async def test_an_unknown_method_is_405_with_those_that_are_known(served: Fleet) -> None:
    for dialect, call in _calls(served):
        got = await ask(served.app, _path(call), method="BREW")

        assert got.status == 405
        assert call.method in got.headers["allow"].split(", ")
        _is_in_envelope(dialect, got)


@pytest.mark.parametrize("below", ["/v1/nodes/a/b/c", "/v1/nodes/", "/v1/nodes//drain", "/api/v1/nope"])
async def test_an_unknown_path_is_404_in_the_envelope_of_whose_it_is(served: Fleet, below: str) -> None:
    got = await speak(served.app, "POST", below, {})

    dialects: dict[str, Dialect] = {dialect.name: dialect for dialect in served.app.state.dialects}
    assert got.status == 404
    _is_in_envelope(dialects["caravanserai" if below.startswith("/api") else "smolfleet"], got)


async def test_a_path_that_is_written_out_is_no_nodes(served: Fleet) -> None:
    got = await speak(served.app, "GET", "/v1/nodes/register")

    assert (got.status, got.headers["allow"]) == (405, "POST")


async def test_head_is_answered_as_get_without_the_body(served: Fleet) -> None:
    got = await ask(served.app, "/v1/nodes", method="HEAD")

    assert (got.status, got.body, got.headers["content-length"]) == (200, b"", "2")


async def test_an_unexpected_error_is_told_by_its_id_only(
    served: Fleet, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("secret path /srv/x")

    monkeypatch.setattr(served.projection, "node", broken)
    monkeypatch.setattr(served.projection, "nodes", broken)
    for dialect, call in _calls(served):
        if call.method == "GET":
            with caplog.at_level(logging.ERROR):
                got = await ask(served.app, _path(call))

            _is_documented(dialect, call, got)
            assert b"secret" not in got.body
    assert "secret path" in caplog.text


async def test_without_a_broker_a_write_is_503_in_the_dialects_own_words(served: Fleet) -> None:
    bodies = {
        "/v1/nodes/register": {
            "id": "n1", "address": "a", "smolvmAddress": "b", "status": "ready", "labels": {},
            "totalCpus": 1, "availableCpus": 1, "totalMemoryMb": 1, "availableMemoryMb": 1,
            "totalDiskGb": 1, "availableDiskGb": 1, "registeredAt": "2026-06-01T10:00:00Z",
        },
        "/api/v1/nodes": {"apiVersion": "caravanserai/v1", "kind": "Node", "metadata": {"name": "n1"}},
    }  # fmt: skip
    for dialect, call in _calls(served):
        if call.path in bodies and call.method == "POST":
            got = await speak(served.app, "POST", call.path, bodies.pop(call.path))

            assert got.status == 503
            _is_in_envelope(dialect, got)
    assert not bodies


async def test_answers_are_counted_by_the_template_of_their_path(served: Fleet) -> None:
    await speak(served.app, "GET", "/v1/nodes/ghost")

    metrics = (await ask(served.app, "/metrics")).body.decode()

    assert 'route="/v1/nodes/{id}",status="404"' in metrics.replace('method="GET",', "")
    assert "ghost" not in metrics
