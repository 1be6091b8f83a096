"""The simulator against a real broker: what it sends is what agents send."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import orjson
import pytest
from nats.aio.client import Client

from events.asks import Ask, encode_ask
from events.errors import BrokerUnavailableError, RefusedError
from events.ids import node_id
from events.stream_admin import ensure_streams
from events.streams import FLEET_NAME
from events.subjects import ask_subject
from fleetfold import ack_window
from fleetfold.simulated_nodes import invented
from fleetfold.simulator import Progress, simulate
from tests.support.brokers import AnyBroker
from tests.support.publishing import connected, head, js_api, stream_reached
from tests.support.waiting import until

pytestmark = pytest.mark.anyio


async def beats(nc: Client) -> list[tuple[str, dict[str, Any]]]:
    found = []
    for seq in range(1, await head(nc, "BEATS") + 1):
        message = (await js_api(nc, "STREAM.MSG.GET.BEATS", {"seq": seq}))["message"]
        found.append((message["subject"], orjson.loads(base64.b64decode(message["data"]))))
    return found


@pytest.mark.parametrize("connections", [1, 3])
async def test_each_node_registers_once_and_beats_every_interval(broker: AnyBroker, connections: int) -> None:
    nodes = list(invented(20, prefix="sim-", seed=1, interval_s=0.5))
    told: list[Progress] = []
    async with connected(broker.url) as nc:
        await ensure_streams(nc)

        report = await simulate(
            broker.url,
            nodes,
            interval_s=0.5,
            duration_s=1.2,
            connections=connections,
            on_progress=told.append,
        )

        await stream_reached(nc, "BEATS", report.beats)
        found = await beats(nc)
        assert await head(nc, "FLEET") == 20
    assert report.registered == 20
    assert report.beats == len(found) >= 40
    assert told[-1].beats == report.beats
    of_one = [body for subject, body in found if subject == "fleet.v1.beat.sim-07"]
    assert [body["seq"] for body in of_one] == list(range(2, 2 + len(of_one)))
    assert {body["inventory"] for body in of_one} == {nodes[7].digest}
    assert all(0 < body["used"]["cpu"] < nodes[7].inventory["resources"]["cpu"]["total"] for body in of_one)
    first_round = [subject for subject, _ in found][:20]
    assert len(set(first_round)) == 20


async def test_a_question_is_answered_by_the_node_that_is_asked(broker: AnyBroker) -> None:
    nodes = list(invented(5, prefix="n", seed=1, interval_s=0.1))
    stop = asyncio.Event()
    last = Progress(registered=0, beats=0, missed=0, gone=0, behind_s=0, elapsed_s=0)

    def show(progress: Progress) -> None:
        nonlocal last
        last = progress

    async with connected(broker.url) as nc:
        await ensure_streams(nc)
        running = asyncio.create_task(
            simulate(broker.url, nodes, interval_s=0.1, on_progress=show, stop=stop)
        )
        await stream_reached(nc, "BEATS", 5)

        answer = orjson.loads((await nc.request(ask_subject(node_id("n3")), b"probe", timeout=5)).data)
        await nc.publish(ask_subject(node_id("n4")), encode_ask(Ask("gone")))
        await nc.publish(ask_subject(node_id("other")), encode_ask(Ask("gone")))
        await nc.publish(ask_subject(node_id("n2")), encode_ask(Ask("register")))
        await until(lambda: last.registered == 6 and last.gone == 1)
        await stream_reached(nc, "BEATS", last.beats + 8)
        stop.set()
        await running

        assert answer["inventory"] == nodes[3].digest
        assert await head(nc, "FLEET") == 5  # the broker drops the repeated registration
        last_round = (await beats(nc))[-4:]
        assert "fleet.v1.beat.n4" not in {subject for subject, _ in last_round}


async def test_registrations_that_the_broker_lost_are_sent_again(
    own_broker: AnyBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ack_window, "PATIENCE_S", 0.2)
    nodes = list(invented(300, prefix="n", seed=1, interval_s=1))
    async with connected(own_broker.url) as nc:
        await ensure_streams(nc)
        own_broker.freeze()
        running = asyncio.create_task(simulate(own_broker.url, nodes, interval_s=1, duration_s=0))
        own_broker.kill()
        own_broker.start()

        report = await running

        assert report.registered == 300
        await stream_reached(nc, "FLEET", 300)
        assert await head(nc, "FLEET") == 300


async def test_a_simulation_may_be_stopped_while_it_registers(own_broker: AnyBroker) -> None:
    nodes = list(invented(3_000, prefix="n", seed=1, interval_s=1))
    stop = asyncio.Event()
    async with connected(own_broker.url) as nc:
        await ensure_streams(nc)
        own_broker.freeze()
        running = asyncio.create_task(simulate(own_broker.url, nodes, interval_s=1, stop=stop))
        own_broker.thaw()
        await stream_reached(nc, "FLEET", 1)
        own_broker.freeze()

        stop.set()
        report = await running

        own_broker.thaw()
        assert report.registered < 3_000
        assert report.beats == 0


async def test_without_the_stream_the_refusal_is_said(broker: AnyBroker) -> None:
    nodes = list(invented(3, prefix="n", seed=1, interval_s=1))

    with pytest.raises(RefusedError, match=f"the stream {FLEET_NAME} refuses facts: no stream takes them"):
        await simulate(broker.url, nodes, interval_s=1, duration_s=0)


async def test_answers_that_stay_away_end_the_simulation(
    broker: AnyBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ack_window, "PATIENCE_S", 0.05)
    monkeypatch.setattr(ack_window, "ATTEMPTS", 2)
    async with connected(broker.url) as nc:
        await nc.subscribe("fleet.v1.agent.>")  # takes them and never answers

        with pytest.raises(BrokerUnavailableError, match="no acknowledgement"):
            await simulate(
                broker.url, list(invented(3, prefix="n", seed=1, interval_s=1)), interval_s=1, duration_s=0
            )
