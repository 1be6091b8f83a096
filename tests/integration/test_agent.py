"""The reference agent against a real broker: what it publishes, what it answers, what it survives."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import orjson
import pytest
from nats.aio.client import Client

from events.asks import Ask, encode_ask
from events.codec import Recorded, decode_fact
from events.digest import payload_digest
from events.facts import Leaving, Registered
from events.ids import NodeId, node_id
from events.stream_admin import ensure_streams
from events.subjects import ask_subject
from fleetfold.agent.loop import Agent, End, Machine
from tests.support.brokers import AnyBroker
from tests.support.publishing import connected, head, js_api, stream_reached
from tests.support.waiting import until

pytestmark = pytest.mark.anyio

N1 = node_id("rack.1/n 1")


class Hardware:
    """A machine whose inventory a test can change."""

    def __init__(self) -> None:
        self.inventory: dict[str, Any] = {
            "hostname": "n1",
            "resources": {"cpu": {"total": 8, "ratio": None}},
            "devices": [],
        }

    def read(self) -> dict[str, Any]:
        return dict(self.inventory)


def machine(hardware: Hardware, *, node: NodeId = N1, boot: str = "b1", interval_s: float = 0.1) -> Machine:
    return Machine(
        node_id=node,
        boot_id=boot,
        inventory=hardware.read,
        usage=lambda: {"cpu": 3.25, "memory": 81_604_378_624},
        interval_s=interval_s,
    )


@asynccontextmanager
async def speaking(agent: Agent, url: str) -> AsyncIterator[asyncio.Task[End]]:
    running = asyncio.create_task(agent.run(url))
    try:
        yield running
    finally:
        agent.stop()
        await running


async def record(nc: Client, stream: str, seq: int) -> tuple[str, bytes]:
    import base64

    answer = await js_api(nc, f"STREAM.MSG.GET.{stream}", {"seq": seq})
    return answer["message"]["subject"], base64.b64decode(answer["message"].get("data", ""))


async def fact(nc: Client, seq: int) -> Recorded:
    subject, payload = await record(nc, "FLEET", seq)
    return decode_fact(seq=seq, stored_at_ns=0, subject=subject, payload=payload)


async def test_an_agent_registers_beats_and_says_goodbye(broker: AnyBroker) -> None:
    async with connected(broker.url) as nc:
        await ensure_streams(nc)
        hardware = Hardware()
        agent = Agent(machine(hardware))

        async with speaking(agent, broker.url):
            await stream_reached(nc, "BEATS", 3)
        await stream_reached(nc, "FLEET", 2)

        registered, leaving = await fact(nc, 1), await fact(nc, 2)
        assert isinstance(registered.data, Registered)
        assert registered.node_id == N1
        assert registered.event_id == f"{N1}/b1/{agent.digest}"
        assert registered.warnings == ()
        assert registered.data.resources["cpu"].total == 8
        assert agent.digest == payload_digest((await record(nc, "FLEET", 1))[1])
        assert isinstance(leaving.data, Leaving)
        assert (leaving.data.cause, leaving.data.boot_id) == ("shutdown", "b1")

        beats = [orjson.loads((await record(nc, "BEATS", seq))[1]) for seq in (1, 2, 3)]
        assert [beat["boot_id"] for beat in beats] == ["b1"] * 3
        assert [beat["inventory"] for beat in beats] == [agent.digest] * 3
        assert beats[0]["used"] == {"cpu": 3.25, "memory": 81_604_378_624}
        seqs = [registered.data.seq, *(beat["seq"] for beat in beats), leaving.data.seq]
        assert seqs == sorted(set(seqs))
        assert abs(datetime.fromisoformat(beats[0]["sent_at"]) - datetime.now(UTC)).total_seconds() < 60


async def test_a_question_to_register_brings_no_second_record_of_the_same(broker: AnyBroker) -> None:
    async with connected(broker.url) as nc:
        await ensure_streams(nc)
        hardware = Hardware()
        agent = Agent(machine(hardware))

        async with speaking(agent, broker.url):
            await stream_reached(nc, "FLEET", 1)
            await nc.publish(ask_subject(N1), encode_ask(Ask("register")))
            hardware.inventory = {"hostname": "n1", "resources": {"cpu": {"total": 16}}}
            await nc.publish(ask_subject(N1), encode_ask(Ask("register")))
            await stream_reached(nc, "FLEET", 2)
            await nc.publish(ask_subject(N1), encode_ask(Ask("register")))
            await until(lambda: agent.registrations >= 3)

        await stream_reached(nc, "FLEET", 3)
        second, last = await fact(nc, 2), await fact(nc, 3)
        assert isinstance(second.data, Registered)
        assert second.data.resources["cpu"].total == 16
        assert last.verb == "leaving"


async def test_an_agent_of_a_retired_node_stops(broker: AnyBroker, caplog: pytest.LogCaptureFixture) -> None:
    async with connected(broker.url) as nc:
        await ensure_streams(nc)
        agent = Agent(machine(Hardware()))

        async with speaking(agent, broker.url) as running:
            await stream_reached(nc, "FLEET", 1)
            for payload in (b"", b"{", b'{"ask":"dance"}', b"\xff"):
                await nc.publish(ask_subject(N1), payload)
            await nc.publish(ask_subject(N1), encode_ask(Ask("gone", "retired by ops")))
            assert await running is End.GONE

        assert await head(nc, "FLEET") == 1
        assert "is no longer part of the fleet (retired by ops): the agent stops" in caplog.text


async def test_a_probe_is_answered(broker: AnyBroker) -> None:
    async with connected(broker.url) as nc:
        await ensure_streams(nc)
        agent = Agent(machine(Hardware()))

        async with speaking(agent, broker.url):
            await stream_reached(nc, "BEATS", 1)
            answer = orjson.loads((await nc.request(ask_subject(N1), b"probe", timeout=5)).data)

        assert answer["node_id"] == N1
        assert answer["boot_id"] == "b1"
        assert answer["inventory"] == agent.digest


async def test_an_agent_outlives_its_broker(own_broker: AnyBroker) -> None:
    async with connected(own_broker.url) as nc:
        await ensure_streams(nc)
        agent = Agent(machine(Hardware()))
        async with speaking(agent, own_broker.url):
            await stream_reached(nc, "BEATS", 2)
            own_broker.kill()
            before = agent.beats
            own_broker.start()
            await until(lambda: agent.beats > before + 2)
            await stream_reached(nc, "BEATS", before + 2)

        await stream_reached(nc, "FLEET", 2)
        assert (await fact(nc, 2)).verb == "leaving"


async def test_an_agent_may_start_before_its_broker_and_be_stopped_meanwhile(own_broker: AnyBroker) -> None:
    own_broker.kill()
    waiting, patient = Agent(machine(Hardware())), Agent(machine(Hardware()))
    async with speaking(waiting, own_broker.url) as running:
        await asyncio.sleep(0)
        waiting.stop()
        assert await running is End.STOPPED

    async with speaking(patient, own_broker.url):
        own_broker.start()
        async with connected(own_broker.url) as nc:
            await ensure_streams(nc)
            await stream_reached(nc, "FLEET", 1)


async def test_a_registration_is_repeated_until_there_is_a_stream_for_it(broker: AnyBroker) -> None:
    agent = Agent(machine(Hardware()))
    async with connected(broker.url) as nc, speaking(agent, broker.url):
        await until(lambda: agent.beats > 2)
        assert agent.registrations == 0

        await ensure_streams(nc)

        await stream_reached(nc, "FLEET", 1)


async def test_many_agents_started_together_spread_over_the_interval() -> None:
    from fleetfold.agent.messages import phase

    counts = [0] * 10
    for number in range(10_000):
        counts[int(phase(node_id(f"n{number}")) * 10)] += 1

    assert all(900 < count < 1_100 for count in counts)
