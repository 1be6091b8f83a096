"""Hostile requests to the dialects that ask for a token, sent with one: never a 5xx, nothing undocumented."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from copy import deepcopy
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from api.dialects.calls import Call, Dialect
from api.dialects.rules import DialectRules, StratumRules
from events.facts import MAX_COUNT
from tests.support import aria_pin as aria
from tests.support import stratum
from tests.support.asgi import Got, ask
from tests.support.brokers import AnyBroker
from tests.support.fleet import Fleet, fleet
from tests.support.loops import on_a_loop
from tests.support.spoken import speak, told

ARIA, STRATUM = "aria-pin", "stratum"
WRONG: list[Any] = [
    True, False, None, "", "1", "x" * 300, "\u0000", 1.5, -1, 2**63, -(2**63) - 1, 10**400, 1e308, [], [[]],
    {}, {"a": {"b": []}}, ["a", 1],
]  # fmt: skip
BODIES = {
    "/v1/agent/register": aria.AGENT,
    "/v1/agent/heartbeat": {"id": "ghost", "gpus": [aria.GPU], "status": "busy"},
    "/v1/agents": {"id": "ghost", "name": "n"},
    "/v1/compute/nodes/{nodeId}/heartbeat": stratum.BEAT,
    "/v1/compute/nodes/{nodeId}": {
        "displayName": "n", "reservedVCPUs": 1, "reservedMemoryBytes": 1, "state": "ready"
    },
    "/v1/compute/nodes/{nodeId}/power": {"action": "reboot"},
}  # fmt: skip
RAW = {
    "nothing": b"",
    "no UTF-8": b'{"name": "\xff\xfe"}',
    "half a surrogate pair": b'{"name": "\\ud800", "hostname": "\\udfff"}',
    "a key twice": b'{"name": "a", "name": "b"}',
    "NaN": b'{"capacity": {"vcpuOvercommitRatio": NaN}, "gpus": [{"mem_total_gb": NaN}]}',
    "nested deeply": b'{"gpus": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "a megabyte": b'{"name": "' + b"x" * 2**20 + b'"}',
    "a long number": b'{"name": ' + b"9" * 4_000 + b"}",
    "another alphabet": '{"name": "n"}'.encode("utf-16"),
    "a mark before it": b'\xef\xbb\xbf{"name": "n"}',
}
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Fleet]:
    with fleet(tmp_path, admin_token="s3cret") as made:
        yield made


def _calls(served: Fleet) -> list[tuple[Dialect, Call]]:
    dialects: tuple[Dialect, ...] = served.app.state.dialects
    return [(one, call) for one in dialects if one.name in (ARIA, STRATUM) for call in one.calls]


def _path(call: Call, segment: str = "ghost") -> str:
    return "/".join(segment if part.startswith("{") else part for part in call.path.split("/"))


def _is_refused_as_documented(dialect: Dialect, call: Call, got: Got) -> None:
    where = f"{call.method} {call.path}: {got.status} {got.body[:200]!r}"
    assert got.status in {*call.refusals, *dialect.may_always_come, *call.answers}, where
    assert got.status < 500 or got.status == 503, where  # there is no broker
    if got.status >= 400:
        assert dialect.refused_as.schema is not None
        assert set(dialect.refused_as.schema["required"]) <= told(got).keys()


def _containers(inner: st.SearchStrategy[Any], *, names: list[str]) -> st.SearchStrategy[Any]:
    return st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(names), inner, max_size=4)


def _mutations(body: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:  # noqa: ANN401 (JSON)
    """Return the path of every value in a body."""
    members = body.items() if isinstance(body, dict) else enumerate(body) if isinstance(body, list) else ()
    for name, value in members:
        yield (*path, name)
        yield from _mutations(value, (*path, name))


def test_every_value_of_every_body_may_be_of_any_type(served: Fleet) -> None:
    for dialect, call in _calls(served):
        if call.takes is None:
            continue
        body = BODIES[call.path]
        for path in _mutations(body):
            for wrong in WRONG:
                changed = deepcopy(body)
                inner = changed
                for part in path[:-1]:
                    inner = inner[part]
                inner[path[-1]] = wrong
                text = json.dumps(changed).encode()

                got = asyncio.run(speak(served.app, call.method, _path(call), raw=text, token="t"))

                _is_refused_as_documented(dialect, call, got)
                if isinstance(wrong, bool) and isinstance(path[-1], str) and not path[-1].startswith("has"):
                    assert got.status in (400, 422, 404), (path, wrong, got.body)


@pytest.mark.parametrize("raw", RAW)
def test_what_is_no_body_is_refused(served: Fleet, raw: str) -> None:
    for dialect, call in _calls(served):
        if call.takes is not None:
            got = asyncio.run(speak(served.app, call.method, _path(call), raw=RAW[raw], token="t"))

            _is_refused_as_documented(dialect, call, got)
            assert got.status in (400, 404, 413, 422), got.body


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(data=st.data())
def test_members_may_hold_anything(served: Fleet, data: st.DataObject) -> None:
    for dialect, call in _calls(served):
        if call.takes is not None:
            names = sorted({str(part) for path in _mutations(BODIES[call.path]) for part in path})
            anything = st.recursive(SCALARS, partial(_containers, names=names), max_leaves=8)
            body = data.draw(st.dictionaries(st.sampled_from(names), anything, max_size=8))

            got = asyncio.run(
                speak(served.app, call.method, _path(call), raw=json.dumps(body).encode(), token="t")
            )

            _is_refused_as_documented(dialect, call, got)


@pytest.mark.parametrize(
    "value",
    ["", "Bearer", "Bearer ", "bearer\tt", "Basic dDp0", "Bearer a b", "Token t", "Bearer \xff", "B" * 9_000],
)
def test_a_header_that_is_no_token_is_401_or_a_token_nobody_has(tmp_path: Path, value: str) -> None:
    rules = DialectRules(stratum=StratumRules(agent_tokens=("t",), admin_tokens=("a",)))
    with fleet(tmp_path, dialects=rules) as served:
        for dialect, call in _calls(served):
            if dialect.name == STRATUM:
                got = asyncio.run(
                    ask(served.app, _path(call), method=call.method, headers={"authorization": value})
                )

                assert got.status == 401
                assert got.headers["www-authenticate"] == "Bearer"


def test_without_a_token_set_any_is_taken_and_none_is_not(served: Fleet) -> None:
    for dialect, call in _calls(served):
        none = asyncio.run(speak(served.app, call.method, _path(call), {}))
        any_at_all = asyncio.run(speak(served.app, call.method, _path(call), {}, token="x"))

        assert none.status == 401
        assert any_at_all.status not in (401, 403), f"{dialect.name} {call.path}"


@on_a_loop
async def test_what_is_extreme_but_allowed_is_stored_and_shown(broker: AnyBroker, tmp_path: Path) -> None:
    names = ["n", "\u0000", "a/b", "名前", "🦊" * 40, "x" * 20_000, " ", "..", "%2F", "ag_1;drop"]
    gpus = [
        {"index": at, "model": "m" * 20, "mem_total_gb": 2**33, "slots": MAX_COUNT, "used_slots": MAX_COUNT}
        for at in range(300)
    ]
    async with aria.aria_pin(broker, tmp_path) as served:
        answers = [await aria.register(served, name=name) for name in names]
        answers += [
            await aria.register(served, name="many", gpus=gpus),
            await aria.beat(served, id="many", gpus=gpus),
            await aria.register(served, name="odd", gpus=[{}, {}, {"index": MAX_COUNT}, {"model": ""}]),
            await aria.register(
                served, name="l", labels=["", "=", "a=", "=b", "a=1", "a=2", "fleetfold/x", "k" * 5_000]
            ),
            await aria.register(served, name="i", id="i" * 241),
            await aria.register(served, name="i", id="i" * 242),
            await aria.register(served, name="big", labels=["y" * 30_000]),
            await aria.register(served, name="huge", gpus=[{"model": "z" * 40_000}]),
        ]
        listed = await aria.agents(served)
        statuses = {got.status for got in answers}
        many = told(answers[len(names)])

    assert statuses <= {200, 404, 413, 422}
    assert [got.status for got in answers[:5]] == [200] * 5
    assert many["gpu_count"] == 300
    assert many["gpus"][299]["used_slots"] == MAX_COUNT
    assert {"many", "odd", "l", "🦊" * 40} <= {agent["name"] for agent in listed}


@on_a_loop
async def test_what_is_extreme_of_stratum_is_stored_and_shown(broker: AnyBroker, tmp_path: Path) -> None:
    labels = {f"capability.gpu.m{at}": "9" * 18 for at in range(300)} | {"": "", "k" * 3_000: "v" * 3_000}
    async with stratum.stratum(broker, tmp_path) as served:
        labelled = await stratum.beaten(served, capabilities=labels, hostname="🦊\u0000")
        record = await stratum.beaten(
            served,
            totalVCPUs=MAX_COUNT, reservedVCPUs=MAX_COUNT - 1, vcpuOvercommitRatio=10**27,
            committedVCPUs=MAX_COUNT, totalMemoryBytes=MAX_COUNT, reservedMemoryBytes=0,
            memoryOvercommitRatio=1e-9, committedMemoryBytes=MAX_COUNT, totalDiskBytes=MAX_COUNT,
            sampledAt="9999-12-31T23:59:59.999999999Z",
        )  # fmt: skip
        statuses = [
            (
                await speak(
                    served.app,
                    "PUT",
                    f"/v1/compute/nodes/{segment}/heartbeat",
                    stratum.BEAT,
                    token=stratum.AGENT,
                )
            ).status
            for segment in ("n" * 128, "n" * 129, "-n", "a%2Fb", "%00", "n%0A", "%D9%A3")
        ]
        odd = [
            {**stratum.BEAT, "capacity": {**stratum.CAPACITY, "sampledAt": text}}
            for text in (
                "",
                "now",
                "2026-13-01T00:00:00Z",
                "2026-01-01T00:00:60Z",
                "2026-01-01T00:00:00",
                "٢٠٢٦-01-01T00:00:00Z",
            )
        ]
        refused = [
            await speak(served.app, "PUT", "/v1/compute/nodes/x/heartbeat", body, token=stratum.AGENT)
            for body in odd
        ]

    assert record["committableVCPUs"] == 10**27
    assert record["committableMemoryBytes"] == MAX_COUNT // 10**9
    assert labelled["capabilities"]["capability.gpu.m0"] == "9" * 18
    assert statuses == [200, 400, 400, 400, 400, 400, 400]
    assert [got.status for got in refused] == [400] * len(odd)
    assert {told(got)["fields"][0]["field"] for got in refused} == {"capacity.sampledAt"}
