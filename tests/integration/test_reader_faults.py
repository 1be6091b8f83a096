"""A reader whose broker, stream, consumer or connection breaks: nothing lost, doubled or of another log."""

from __future__ import annotations

import asyncio
import shutil

import pytest
from nats.aio.client import Client

import consumers.generation
from consumers.deliveries import Deliveries
from consumers.frames import Columns
from events.errors import EpochChangedError, LogRewoundError
from tests.support.broker import Broker
from tests.support.brokers import AnyBroker
from tests.support.loops import on_a_loop
from tests.support.publishing import connected, js_api, publish_all, reached, stream_of
from tests.support.reading import Reading, reading
from tests.support.writing import writing


def numbered(first: int, count: int) -> list[tuple[str, bytes]]:
    return [(f"t.s{number % 7}", b"record %d" % number) for number in range(first, first + count)]


async def delete_consumers(nc: Client) -> None:
    for name in (await js_api(nc, "CONSUMER.NAMES.T"))["consumers"] or []:
        await nc.request(f"$JS.API.CONSUMER.DELETE.T.{name}", b"", timeout=5)


def assert_each_once(got: Reading, count: int) -> None:
    assert got.seqs == list(range(1, count + 1))
    assert [payload for _, _, payload in got.records] == [b"record %d" % n for n in range(1, count + 1)]
    assert got.holes == []


@on_a_loop
async def test_a_consumer_deleted_while_idle_is_made_again(broker: AnyBroker) -> None:
    async with connected(broker.url) as nc, reading(broker.url, "T") as got:
        await stream_of(nc, "T", ["t.*"])
        await publish_all(nc, "T", numbered(1, 5))
        await got.reached(5)

        for more in range(3):
            made = got.reader.counts.generations
            await delete_consumers(nc)
            await reached(lambda made=made: got.reader.counts.generations, made + 1)
            await publish_all(nc, "T", numbered(6 + more, 1))
            await got.reached(6 + more)

    assert_each_once(got, 8)


@on_a_loop
async def test_a_consumer_deleted_under_load_costs_no_record(broker: AnyBroker) -> None:
    async with connected(broker.url) as nc:
        await stream_of(nc, "T", ["t.*"])
        async with reading(broker.url, "T", batch=500, linger_s=0.02) as got:
            writer = asyncio.create_task(publish_all(nc, "T", numbered(1, 30_000), at_once=500))
            for deleted in range(1, 4):
                await got.reached(deleted * 5_000)
                await delete_consumers(nc)
            await writer
            await got.reached(30_000)

    assert_each_once(got, 30_000)
    assert got.reader.counts.generations >= 4


@on_a_loop
async def test_a_consumer_that_stands_still_is_noticed_and_made_again(broker: AnyBroker) -> None:
    async with connected(broker.url) as nc, reading(broker.url, "T", stall_s=0.5) as got:
        await stream_of(nc, "T", ["t.*"])
        await publish_all(nc, "T", numbered(1, 5))
        await got.reached(5)
        names = (await js_api(nc, "CONSUMER.NAMES.T"))["consumers"]
        await js_api(nc, f"CONSUMER.PAUSE.T.{names[0]}", {"pause_until": "2100-01-01T00:00:00Z"})

        await publish_all(nc, "T", numbered(6, 1_000))
        await got.reached(1_005)

    assert_each_once(got, 1_005)
    assert got.reader.counts.stalls == 1
    assert got.reader.ended[-1].startswith("standstill: the stream is at 1005, nothing came after 5")


@pytest.mark.parametrize("how", ["kill", "stop"])
def test_a_broker_that_ends_and_comes_back_costs_no_record(own_broker: AnyBroker, how: str) -> None:
    @on_a_loop
    async def run() -> None:
        async with connected(own_broker.url) as nc, reading(own_broker.url, "T", linger_s=0.02) as got:
            await stream_of(nc, "T", ["t.*"])
            async with writing(own_broker.url) as stored:
                for _ in range(2):
                    await got.reached(stored() + 100)
                    (own_broker.kill if how == "kill" else own_broker.stop)()
                    own_broker.start()
                await got.reached(stored() + 100)
            count = stored()
            await got.reached(count)

        assert got.seqs == list(range(1, len(got.seqs) + 1))
        payloads = [payload for _, _, payload in got.records]
        assert payloads[:count] == [b"record %d" % n for n in range(1, count + 1)]

    run()


@on_a_loop
async def test_a_frozen_broker_is_noticed_by_its_silence(own_broker: AnyBroker) -> None:
    async with connected(own_broker.url) as nc, reading(own_broker.url, "T") as got:
        await stream_of(nc, "T", ["t.*"])
        await publish_all(nc, "T", numbered(1, 5))
        await got.reached(5)

        own_broker.freeze()
        await got.until_ended("heartbeats missed")
        own_broker.thaw()
        await publish_all(nc, "T", numbered(6, 5))
        await got.reached(10)

    assert_each_once(got, 10)


@on_a_loop
async def test_a_stream_made_again_is_another_log_and_none_of_it_is_given_out(broker: AnyBroker) -> None:
    async with connected(broker.url) as nc, reading(broker.url, "T") as got:
        await stream_of(nc, "T", ["t.*"])
        await publish_all(nc, "T", numbered(1, 5))
        await got.reached(5)

        await js_api(nc, "STREAM.DELETE.T")
        await stream_of(nc, "T", ["t.*"])
        await publish_all(nc, "T", numbered(101, 10))
        failure = await got.failed()
        with pytest.raises(EpochChangedError):
            await anext(got.reader)

    assert isinstance(failure, EpochChangedError)
    assert failure.known == got.cursor.epoch
    assert failure.found != failure.known
    assert_each_once(got, 5)


async def back_up_and_go_on(broker: Broker, *, then: int) -> tuple[Reading, Broker]:
    """Fill a stream, copy its files, write and read more, and put the copy back; give what had been read."""
    async with connected(broker.url) as nc:
        await stream_of(nc, "T", ["t.*"])
        await publish_all(nc, "T", numbered(1, 100))
    broker.stop()
    shutil.copytree(broker.folder / "store", broker.folder / "backup")
    broker.start()
    async with connected(broker.url) as nc:
        await publish_all(nc, "T", numbered(101, 50))
        async with reading(broker.url, "T") as got:
            await got.reached(150)
    broker.stop()
    shutil.rmtree(broker.folder / "store")
    shutil.copytree(broker.folder / "backup", broker.folder / "store")
    broker.start()
    if then:
        async with connected(broker.url) as nc:
            await publish_all(nc, "T", numbered(5_000, then))
    return got, broker


@pytest.mark.parametrize(
    ("then", "why"), [(0, "it ends before the stored position"), (80, "another record is stored there")]
)
def test_a_restored_backup_is_another_log(own_broker: Broker, then: int, why: str) -> None:
    @on_a_loop
    async def run() -> None:
        before, broker = await back_up_and_go_on(own_broker, then=then)

        async with reading(broker.url, "T", after=before.cursor) as got:
            failure = await got.failed()

        assert isinstance(failure, LogRewoundError)
        assert (failure.cursor_seq, failure.last_seq, failure.why) == (150, 100 + then, why)
        assert got.batches == []

    run()


class Losing(Deliveries):
    """Deliveries of which the next one is lost on demand."""

    lose_next = 0

    def add_columns(self, columns: Columns) -> None:
        if Losing.lose_next:
            Losing.lose_next -= 1
            numbers, subjects, payloads = columns
            columns = Columns(numbers[:-1], subjects[:-1], payloads[:-1])
        super().add_columns(columns)


@pytest.fixture
def losing(monkeypatch: pytest.MonkeyPatch) -> type[Losing]:
    monkeypatch.setattr(consumers.generation, "Deliveries", Losing)
    Losing.lose_next = 0
    return Losing


@on_a_loop
async def test_a_lost_delivery_is_noticed_by_the_next_one(broker: AnyBroker, losing: type[Losing]) -> None:
    async with connected(broker.url) as nc, reading(broker.url, "T") as got:
        await stream_of(nc, "T", ["t.*"])
        await publish_all(nc, "T", numbered(1, 10))
        await got.reached(10)

        losing.lose_next = 2
        await publish_all(nc, "T", numbered(11, 20_000))
        await got.reached(20_010)

    assert_each_once(got, 20_010)
    assert list(got.reader.ended).count("deliveries lost") >= 1
    assert losing.lose_next == 0


@on_a_loop
async def test_a_lost_last_delivery_is_noticed_by_the_heartbeat(
    broker: AnyBroker, losing: type[Losing]
) -> None:
    async with connected(broker.url) as nc, reading(broker.url, "T") as got:
        await stream_of(nc, "T", ["t.*"])
        await publish_all(nc, "T", numbered(1, 10))
        await got.reached(10)

        losing.lose_next = 1
        await publish_all(nc, "T", numbered(11, 1))
        await got.reached(11)

    assert_each_once(got, 11)
    assert list(got.reader.ended)[-1] == "deliveries lost"


@on_a_loop
async def test_a_client_whose_read_loop_died_is_reconnected(broker: AnyBroker) -> None:
    async with connected(broker.url) as nc, reading(broker.url, "T") as got:
        await stream_of(nc, "T", ["t.*"])
        await publish_all(nc, "T", numbered(1, 10))
        await got.reached(10)

        got.client._reading_task.cancel()
        await publish_all(nc, "T", numbered(11, 10))
        await got.reached(20)

    assert_each_once(got, 20)
    assert got.client.stats["reconnects"] == 1
