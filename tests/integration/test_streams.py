"""Creating and checking streams on a real broker."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from events.errors import BrokerUnavailableError, StreamDriftError
from events.stream_admin import ensure_streams, stream_info
from events.streams import ALL, BEATS, CHANGES, FLEET
from tests.support.broker import Broker
from tests.support.brokers import AnyBroker
from tests.support.publishing import connect

pytestmark = pytest.mark.anyio


async def test_missing_streams_are_created_as_declared_and_found_again(broker: AnyBroker) -> None:
    nc = await connect(broker.url)

    created = await ensure_streams(nc)
    found = await ensure_streams(nc)

    assert created == found
    assert set(created) == {spec.name for spec in ALL}
    info = await stream_info(nc, FLEET.name)
    assert (info.epoch, info.first_seq, info.last_seq) == (created[FLEET.name], 0, 0)
    assert info.config["compression"] == "s2"
    await nc.close()


async def test_processes_that_create_the_streams_at_once_agree_on_the_epochs(broker: AnyBroker) -> None:
    connections = [await connect(broker.url) for _ in range(4)]

    epochs = await asyncio.gather(*(ensure_streams(nc) for nc in connections))

    assert all(one == epochs[0] for one in epochs)
    for nc in connections:
        await nc.close()


async def test_a_stream_that_differs_is_refused_with_the_difference_and_left_alone(broker: AnyBroker) -> None:
    nc = await connect(broker.url)
    await ensure_streams(nc, (replace(CHANGES, max_age=timedelta(days=1)),))

    with pytest.raises(StreamDriftError) as raised:
        await ensure_streams(nc)

    assert raised.value.stream == CHANGES.name
    assert list(raised.value.differences) == ["max_age"]
    info = await stream_info(nc, CHANGES.name)
    assert timedelta(microseconds=info.config["max_age"] / 1000) == timedelta(days=1)
    await nc.close()


async def test_subjects_that_another_stream_took_are_said(broker: AnyBroker) -> None:
    nc = await connect(broker.url)
    await nc.jetstream().add_stream(name="OTHER", subjects=["fleet.v1.beat.>"])

    with pytest.raises(StreamDriftError, match="subjects") as raised:
        await ensure_streams(nc, (BEATS,))

    assert raised.value.stream == BEATS.name
    await nc.close()


async def test_a_stream_made_again_has_another_epoch(broker: AnyBroker) -> None:
    nc = await connect(broker.url)
    before = await ensure_streams(nc, (BEATS,))
    await nc.jetstream().delete_stream(BEATS.name)

    after = await ensure_streams(nc, (BEATS,))

    assert before != after
    await nc.close()


async def test_a_stream_that_is_not_there_is_said(broker: AnyBroker) -> None:
    nc = await connect(broker.url)

    with pytest.raises(BrokerUnavailableError, match="stream not found"):
        await stream_info(nc, "NONE")

    await nc.close()


async def test_a_broker_without_jetstream_is_said(tmp_path: Path) -> None:
    broker = Broker(tmp_path / "plain", has_jetstream=False).start()
    nc = await connect(broker.url)

    with pytest.raises(BrokerUnavailableError, match="JetStream is not enabled"):
        await ensure_streams(nc, timeout_s=0.1)

    await nc.close()
    broker.stop()


async def test_a_broker_that_is_gone_is_said(own_broker: AnyBroker) -> None:
    nc = await connect(own_broker.url)
    own_broker.kill()

    with pytest.raises(BrokerUnavailableError, match="looking at stream FLEET"):
        await stream_info(nc, FLEET.name, timeout_s=0.2)

    await nc.close()
    with pytest.raises(BrokerUnavailableError, match="the connection is closed"):
        await ensure_streams(nc, timeout_s=0.2)
