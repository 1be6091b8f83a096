"""What a reader gives out, on a real server: every record once, in order, with each hole proven."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import numpy as np
import pytest

import consumers.generation
from consumers.holes import prove
from consumers.lineage import NO_RECORD_SEEN
from consumers.reader import BatchReader
from consumers.stream_api import stream_state
from events.errors import BrokerUnavailableError, LogGapError
from events.log import Cursor
from tests.support.brokers import AnyBroker
from tests.support.loops import on_a_loop
from tests.support.publishing import (
    Record,
    beats,
    connected,
    js_api,
    nodes,
    pour,
    publish_all,
    reached,
    stream_emptied,
    stream_of,
    stream_reached,
)
from tests.support.reading import reading, reading_client


def numbered(first: int, count: int, *, subjects: int = 7) -> Iterator[Record]:
    for number in range(first, first + count):
        yield f"t.s{number % subjects}", b"record %d" % number


@on_a_loop
async def test_every_record_comes_once_in_order_with_its_time_and_subject(broker: AnyBroker) -> None:
    async with connected(broker.url) as nc, reading(broker.url, "T", batch=700) as got:
        await stream_of(nc, "T", ["t.*"])
        await publish_all(nc, "T", numbered(1, 5_000))

        await got.reached(5_000)

    assert got.records == [
        (seq, subject.encode(), payload) for seq, (subject, payload) in enumerate(numbered(1, 5_000), 1)
    ]
    assert all(len(batch) <= 700 for batch in got.batches)
    times = np.concatenate([batch.stored_at_ns for batch in got.batches])
    assert (np.diff(times) >= 0).all()
    assert got.batches[0].seqs.dtype == times.dtype == np.int64
    assert got.holes == []
    assert got.batches[-1].pending == 0
    assert got.cursor.stored_at_ns == times[-1]
    assert got.reader.head == 5_000


@on_a_loop
async def test_a_reader_that_starts_after_a_cursor_goes_on_exactly_there(broker: AnyBroker) -> None:
    async with connected(broker.url) as nc:
        await stream_of(nc, "T", ["t.*"])
        await publish_all(nc, "T", numbered(1, 1_000))
        async with reading(broker.url, "T", batch=300) as first:
            await first.until(lambda: len(first.batches) >= 2)
        middle = first.batches[1].cursor

        async with reading(broker.url, "T", after=middle) as second:
            await second.reached(1_000)

    assert middle.seq == 600
    assert second.seqs == list(range(601, 1_001))
    assert second.cursor.epoch == middle.epoch != ""


@on_a_loop
async def test_headers_empty_bodies_and_line_ends_in_bodies_come_through(broker: AnyBroker) -> None:
    frame = b"a\r\nMSG t.x 1 $JS.ACK.T.c.1.1.1.1.1 2\r\nxy\r\n"
    bodies = [b"", b"\r\n", frame, bytes(range(256)), b"x" * 500_000]
    async with connected(broker.url) as nc, reading(broker.url, "T") as got:
        await stream_of(nc, "T", ["t.*"])
        for body in bodies:
            await nc.publish("t.plain", body)
            await nc.publish("t.headers", body, headers={"Nats-Msg-Id": str(len(body)), "Other": "a b"})

        await got.reached(2 * len(bodies))

    assert [payload for _, _, payload in got.records] == [body for body in bodies for _ in range(2)]
    assert got.reader.counts.generations <= 2


@on_a_loop
async def test_purges_and_deletes_are_proven_holes(broker: AnyBroker) -> None:
    async with connected(broker.url) as nc:
        await stream_of(nc, "T", ["t.*"])
        await publish_all(nc, "T", numbered(1, 1_000))
        await js_api(nc, "STREAM.PURGE.T", {"seq": 101})
        await js_api(nc, "STREAM.PURGE.T", {"filter": "t.s3"})
        for seq in (511, 512, 513, 777):
            await js_api(nc, "STREAM.MSG.DELETE.T", {"seq": seq, "no_erase": True})
        gone = {*range(1, 101), 511, 512, 513, 777, *(seq for seq in range(1, 1_001) if seq % 7 == 3)}

        async with reading(broker.url, "T", batch=90) as got:
            await got.reached(1_000)

    assert got.seqs == [seq for seq in range(1, 1_001) if seq not in gone]
    assert {seq for low, high in got.holes for seq in range(low, high + 1)} == gone
    assert sum(high - low + 1 for low, high in got.holes) == len(gone)
    assert got.reader.counts.holes == len(got.holes)
    assert got.reader.counts.generations == 1


@on_a_loop
async def test_a_stream_that_lost_everything_still_moves_the_cursor_to_its_head(broker: AnyBroker) -> None:
    async with connected(broker.url) as nc:
        await stream_of(nc, "T", ["t.*"])
        await publish_all(nc, "T", numbered(1, 50))
        await js_api(nc, "STREAM.PURGE.T")

        async with reading(broker.url, "T", stall_s=60) as got:
            await got.reached(50)
            await publish_all(nc, "T", numbered(51, 1))
            await got.reached(51)

    assert got.holes == [(1, 50)]
    assert got.seqs == [51]
    assert len(got.batches[0]) == 0
    assert got.batches[0].pending == 0
    assert got.batches[0].cursor.stored_at_ns == NO_RECORD_SEEN


@on_a_loop
async def test_a_tail_that_is_deleted_while_the_reader_is_idle_is_crossed(broker: AnyBroker) -> None:
    async with connected(broker.url) as nc, reading(broker.url, "T", stall_s=0.3) as got:
        await stream_of(nc, "T", ["t.*"])
        await publish_all(nc, "T", numbered(1, 10))
        await got.reached(10)
        names = (await js_api(nc, "CONSUMER.NAMES.T"))["consumers"]
        await js_api(nc, f"CONSUMER.PAUSE.T.{names[0]}", {"pause_until": "2100-01-01T00:00:00Z"})
        await publish_all(nc, "T", numbered(11, 5))
        await js_api(nc, "STREAM.PURGE.T")

        await got.reached(15)

    assert got.holes == [(11, 15)]
    assert got.seqs == list(range(1, 11))
    assert got.reader.counts.stalls == 0


@on_a_loop
async def test_age_that_takes_everything_unread_leaves_one_proven_hole(broker: AnyBroker) -> None:
    async with connected(broker.url) as nc:
        await stream_of(nc, "T", ["t.*"], max_age=1_000_000_000)
        await publish_all(nc, "T", numbered(1, 500))
        async with reading(broker.url, "T", batch=200, linger_s=0.01) as before:
            await before.until(lambda: bool(before.batches))
        await stream_emptied(nc, "T")

        async with reading(broker.url, "T", after=before.batches[0].cursor) as got:
            await got.reached(500)
            await publish_all(nc, "T", numbered(501, 3))
            await got.reached(503)

    assert got.holes == [(201, 500)]
    assert got.seqs == [501, 502, 503]


@on_a_loop
async def test_a_hole_that_the_broker_can_fill_is_not_a_hole(broker: AnyBroker) -> None:
    async with connected(broker.url) as nc:
        await stream_of(nc, "T", ["t.*"])
        await publish_all(nc, "T", numbered(1, 10))

        with pytest.raises(LogGapError) as caught:
            await prove(nc, "T", (4, 6))

    assert (caught.value.low, caught.value.high, caught.value.found) == (4, 6, 4)


@on_a_loop
async def test_a_caller_that_stands_still_costs_two_pulls_of_memory(broker: AnyBroker) -> None:
    async with connected(broker.url) as nc:
        await stream_of(nc, "T", ["fleet.v1.beat.*"])
        count = await asyncio.to_thread(pour, broker.url, beats(nodes(1_000), rounds=30))
        await stream_reached(nc, "T", count)
        reading_nc = await reading_client(broker.url)
        reader = BatchReader(reading_nc, "T", batch=1_000, pull=2_000)
        first = await anext(reader)

        await reached(lambda: reader.waiting, 2_000)
        waited = reader.waiting
        seqs = first.seqs.tolist()
        async for batch in reader:
            seqs += batch.seqs.tolist()
            assert reader.waiting <= 2 * 2_000
            if batch.cursor.seq == count:
                break
        await reader.close()
        await reading_nc.close()

    assert waited <= 2 * 2_000
    assert seqs == list(range(1, count + 1))
    assert reader.counts.generations == 1


@on_a_loop
async def test_a_reader_idle_over_several_pull_expiries_is_still_there(broker: AnyBroker) -> None:
    async with connected(broker.url) as nc, reading(broker.url, "T", expires_s=1.0) as got:
        await stream_of(nc, "T", ["t.*"])
        await publish_all(nc, "T", numbered(1, 1))
        await got.reached(1)
        heard, made = got.reader.heard_at or 0.0, got.reader.counts.generations
        await reached(lambda: int(((got.reader.heard_at or 0.0) - heard) * 10), 26)

        await publish_all(nc, "T", numbered(2, 1))
        await got.reached(2)

    assert got.seqs == [1, 2]
    assert got.reader.counts.generations == made


@on_a_loop
async def test_a_pull_that_its_bytes_end_early_is_asked_again(
    broker: AnyBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumers.generation, "PULL_BYTES", 20_000)
    async with connected(broker.url) as nc, reading(broker.url, "T") as got:
        await stream_of(nc, "T", ["t.*"])
        await publish_all(nc, "T", numbered(1, 5_000))

        await got.reached(5_000)

    assert got.seqs == list(range(1, 5_001))
    assert "heartbeats missed" not in got.reader.ended


@on_a_loop
async def test_a_reader_waits_for_a_stream_that_does_not_exist_yet(broker: AnyBroker) -> None:
    async with connected(broker.url) as nc, reading(broker.url, "T") as got:
        await reached(lambda: len(got.reader.ended), 2)
        await stream_of(nc, "T", ["t.*"])
        await publish_all(nc, "T", numbered(1, 3))

        await got.reached(3)

    assert got.seqs == [1, 2, 3]
    assert "stream not found" in got.reader.ended[0]


@on_a_loop
async def test_a_connection_closed_for_good_ends_the_reader(broker: AnyBroker) -> None:
    async with connected(broker.url) as nc:
        await stream_of(nc, "T", ["t.*"])
    reading_nc = await reading_client(broker.url)
    await reading_nc.close()

    with pytest.raises(BrokerUnavailableError):
        await anext(BatchReader(reading_nc, "T"))


@on_a_loop
async def test_a_cursor_without_a_time_reads_on_from_its_sequence(broker: AnyBroker) -> None:
    async with connected(broker.url) as nc:
        await stream_of(nc, "T", ["t.*"])
        await publish_all(nc, "T", numbered(1, 9))
        epoch = (await stream_state(nc, "T")).epoch

        async with reading(broker.url, "T", after=Cursor(epoch, 6)) as got:
            await got.reached(9)

    assert got.seqs == [7, 8, 9]
