"""While the broker is away or hangs, no dialect acknowledges a write; later every call may be made again."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from api.dialects import gateway
from api.dialects.calls import Dialect
from tests.support.asgi import Got
from tests.support.brokers import AnyBroker
from tests.support.every_dialect import RULES, Said, decisions, done, heartbeats, registrations, shown
from tests.support.host_agents import PLAIN, host_agent
from tests.support.loops import on_a_loop
from tests.support.serving import Serving, serving
from tests.support.spoken import told


@pytest.fixture
def agent_url() -> Iterator[str]:
    with host_agent(PLAIN) as agent:
        yield agent.url


def _changed(agent_url: str) -> list[Said]:
    """Return a registration in each dialect that says something new."""
    first = registrations(agent_url)
    return [
        first["smolfleet"]._replace(body={**_body(first["smolfleet"]), "totalCpus": 65}),
        first["caravanserai"]._replace(
            body={**_body(first["caravanserai"]), "metadata": {"name": "c2"}},
        ),
        first["fuse"]._replace(body={**_body(first["fuse"]), "region": "eu-2"}),
        first["aria-pin"]._replace(body={**_body(first["aria-pin"]), "version": "2"}),
        first["stratum"]._replace(body={**_body(first["stratum"]), "hostname": "other"}),
    ]


def _body(said: Said) -> dict[str, object]:
    assert isinstance(said.body, dict)
    return said.body


def _is_unavailable(served: Serving, said: Said, got: Got) -> None:
    owner = max(
        (dialect for dialect in served.app.state.dialects),
        key=lambda dialect: max(
            (len(prefix) for prefix in dialect.prefixes if said.path.startswith(prefix)), default=0
        ),
    )
    assert isinstance(owner, Dialect)
    schema = owner.refused_as.schema
    assert schema is not None
    assert got.status == 503, f"{said.method} {said.path}: {got.status} {got.body[:300]!r}"
    assert set(schema["required"]) <= told(got).keys()


async def _known(served: Serving, agent_url: str) -> None:
    for said in [*registrations(agent_url).values(), *heartbeats().values()]:
        await done(served, said)


@on_a_loop
async def test_without_a_broker_every_write_is_503_and_nothing_is_half_done(
    own_broker: AnyBroker, tmp_path: Path, agent_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gateway, "BEAT_WITHIN_S", 0.2)
    async with serving(own_broker, tmp_path, dialects=RULES) as served:
        await _known(served, agent_url)
        before, seq = await shown(served), await served.fleet_seq()
        calls = [*_changed(agent_url), *heartbeats().values(), *decisions()]
        # what a node is already is not said again: nothing is written, so nothing has to be refused
        calls = [said for said in calls if not said.path.endswith(("/undrain", "=uncordon"))]
        own_broker.kill()

        answers = await asyncio.gather(*(said.to(served) for said in calls))
        meanwhile = await shown(served)
        own_broker.start()

        for said, got in zip(calls, answers, strict=True):
            _is_unavailable(served, said, got)
        assert meanwhile == before
        monkeypatch.undo()
        await done(served, heartbeats()["smolfleet"])  # waits until the broker is back
        assert await served.fleet_seq() == seq
        for said in [*_changed(agent_url), *decisions()]:
            await done(served, said)


@on_a_loop
async def test_a_write_that_a_hanging_broker_stored_after_all_is_not_done_again(
    own_broker: AnyBroker, tmp_path: Path, agent_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = _changed(agent_url)
    calls[1] = registrations(agent_url)["caravanserai"]  # the one that has a conflict for what is there
    async with serving(own_broker, tmp_path, dialects=RULES) as served:
        for name, said in registrations(agent_url).items():
            if name != "caravanserai":
                await done(served, said)
        seq = await served.fleet_seq()
        own_broker.freeze()
        answers = await asyncio.gather(*(said.to(served) for said in calls))
        own_broker.thaw()

        for said, got in zip(calls, answers, strict=True):
            _is_unavailable(served, said, got)
        again = [await said.to(served) for said in calls]
        after = await served.fleet_seq()
        for said in calls[:1] + calls[2:]:
            await done(served, said)

        assert [got.status for got in again[:1] + again[2:]] == [200, 201, 200, 200]
        assert again[1].status in (201, 409)
        assert after == seq + len(calls) + 1  # a node of Caravanserai comes with its labels
        assert await served.fleet_seq() == after
