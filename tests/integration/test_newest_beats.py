"""The newest heartbeats of one node, looked up in a real stream."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from events.errors import BrokerUnavailableError
from events.ids import node_id
from events.newest_beats import AT_ONCE, newest_beats
from events.stream_admin import ensure_streams
from events.subjects import beat_subject
from tests.support.brokers import AnyBroker
from tests.support.loops import on_a_loop
from tests.support.publishing import connected

N1 = node_id("rack 2/n.1")
DAY = timedelta(days=1)


@on_a_loop
async def test_the_newest_beats_of_a_node_are_found_among_those_of_others(broker: AnyBroker) -> None:
    async with connected(broker.url) as nc:
        await ensure_streams(nc)
        stream = nc.jetstream()
        began = datetime.now(UTC)
        for seq in range(1, 8):
            await stream.publish(beat_subject(N1), b'{"boot_id":"b1","seq":%d}' % seq)
            await stream.publish(beat_subject(node_id("other")), b'{"boot_id":"b1","seq":1}')
        sent = b'{"boot_id":"b2","seq":1,"sent_at":"2026-05-01T12:00:00Z"}'
        await stream.publish(beat_subject(N1), sent)
        await stream.publish(beat_subject(N1), b"not json")

        found = await newest_beats(nc, N1, most=4, span=DAY)

    assert [(beat.seq, beat.boot_id, beat.boot_seq, beat.unreadable) for beat in found] == [
        (11, "b1", 6, ""),
        (13, "b1", 7, ""),
        (15, "b2", 1, ""),
        (16, None, None, "not_json"),
    ]
    assert [beat.sent_at for beat in found] == [None, None, datetime(2026, 5, 1, 12, tzinfo=UTC), None]
    assert all(beat.stored_at > began - timedelta(seconds=1) for beat in found)


@on_a_loop
async def test_a_node_that_floods_costs_no_more_than_any_other(broker: AnyBroker) -> None:
    async with connected(broker.url) as nc:
        await ensure_streams(nc)
        for seq in range(AT_ONCE * 5):
            await nc.publish(beat_subject(N1), b'{"boot_id":"b1","seq":%d}' % seq)
        await nc.flush()
        last = await nc.jetstream().publish(beat_subject(N1), b'{"boot_id":"b1","seq":9000}')

        found = await newest_beats(nc, N1, most=10, span=DAY)

    assert found[-1].seq == last.seq
    assert found[-1].boot_seq == 9000
    assert len(found) <= 10


@on_a_loop
async def test_a_node_that_never_beat_has_none(broker: AnyBroker) -> None:
    async with connected(broker.url) as nc:
        await ensure_streams(nc)

        assert await newest_beats(nc, N1, most=10, span=DAY) == []


@on_a_loop
async def test_a_broker_without_the_stream_is_said_and_not_waited_for(broker: AnyBroker) -> None:
    async with connected(broker.url) as nc:
        with pytest.raises(BrokerUnavailableError):
            await newest_beats(nc, N1, most=10, span=DAY)
