"""Conditional appends on a real broker: stored once, or refused with the reason."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest
from nats.aio.client import Client

from events.append import WALK_RECORDS, append, append_all
from events.codec import Recorded, decode_fact, encode_fact
from events.envelope import FactEvent, new_event
from events.errors import (
    BrokerUnavailableError,
    ConflictError,
    OversizedError,
    RefusedError,
)
from events.facts import Cordoned, Drained, FactData, LabelsSet, Registered, ZoneSilent
from events.ids import NodeId, Zone, node_id
from events.stream_admin import ensure_streams, stream_info
from events.streams import FLEET
from events.subjects import fact_subject
from tests.support.brokers import AnyBroker
from tests.support.publishing import connect

pytestmark = pytest.mark.anyio

N1, N2 = NodeId("n1"), NodeId("n2")
NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)


def _event(data: FactData, *, about: NodeId | Zone = N1, event_id: str) -> FactEvent:
    return new_event(data, about=about, source="/test", event_id=event_id, time=NOON)


def _cordon(event_id: str, *, about: NodeId = N1, reason: str = "") -> FactEvent:
    return _event(Cordoned(owner="ops", reason=reason), about=about, event_id=event_id)


async def _stored(nc: Client, seq: int) -> Recorded:
    message = await nc.jetstream().get_msg(FLEET.name, seq)
    assert message.subject is not None
    return decode_fact(seq=seq, stored_at_ns=0, subject=message.subject, payload=message.data or b"")


async def _last_seq(nc: Client) -> int:
    return (await stream_info(nc, FLEET.name)).last_seq


@pytest.fixture
async def nc(broker: AnyBroker) -> AsyncIterator[Client]:
    """A connection to a broker that has the streams."""
    client = await connect(broker.url)
    await ensure_streams(client, (FLEET,))
    yield client
    await client.close()


async def test_an_event_is_stored_under_its_subject_and_reads_back(nc: Client) -> None:
    event = _cordon("e1", reason="fan")

    seq = await append(nc, event, expect=0)

    found = await _stored(nc, seq)
    assert (found.node_id, found.type, found.event_id) == (N1, "fleetfold.operator.cordoned.v1", "e1")
    assert found.data == event.data
    assert found.raw == encode_fact(event)


async def test_an_append_after_somebody_elses_is_a_conflict_that_names_both_versions(nc: Client) -> None:
    first = await append(nc, _cordon("e1"), expect=0)
    second = await append(nc, _event(Drained(owner="ops"), event_id="e2"), expect=first)

    with pytest.raises(ConflictError) as raised:
        await append(nc, _cordon("e3"), expect=first)

    assert (raised.value.about, raised.value.expected, raised.value.found) == (N1, first, second)
    assert await _last_seq(nc) == second


async def test_a_nodes_expectation_is_not_spoiled_by_other_nodes_or_by_a_zone_of_its_name(nc: Client) -> None:
    first = await append(nc, _cordon("e1"), expect=0)
    await append(nc, _cordon("e2", about=N2), expect=0)
    silent = ZoneSilent(count=4, members=4, rule="share")
    await append(nc, _event(silent, about=Zone("n1"), event_id="e3"), expect=0)

    seq = await append(nc, _cordon("e4"), expect=first)

    assert seq == 4


async def test_the_same_event_again_is_answered_with_the_first_record(nc: Client) -> None:
    first = await append(nc, _cordon("e1"), expect=0)

    again = await append(nc, _cordon("e1"), expect=first)
    without_expectation = await append(nc, _cordon("e1"), expect=None)

    assert (again, without_expectation) == (first, first)
    assert await _last_seq(nc) == first


async def test_a_retry_under_the_old_expectation_finds_what_it_had_stored(nc: Client) -> None:
    event = _cordon("e1")
    stored = await nc.jetstream().publish(
        event.subject, encode_fact(event), headers={"Nats-Msg-Id": event.event_id}
    )
    await append(nc, _cordon("e2"), expect=stored.seq)

    seq = await append(nc, event, expect=0)

    assert seq == stored.seq
    assert await _last_seq(nc) == stored.seq + 1


async def test_a_retry_finds_its_event_by_the_body_alone_behind_other_records(nc: Client) -> None:
    event = _cordon("e1")
    await append(nc, _cordon("e0"), expect=0)
    stored = await nc.jetstream().publish(event.subject, encode_fact(event))

    seq = await append(nc, event, expect=0)

    assert seq == stored.seq


async def test_a_record_of_another_event_is_never_taken_for_ours(nc: Client) -> None:
    subject = fact_subject("operator", N1, "cordoned")
    await nc.jetstream().publish(subject, b"not json", headers={"Nats-Msg-Id": "e10"})
    await nc.jetstream().publish(subject, b'["e1"]', headers={"Nats-Msg-Id": "e11"})

    with pytest.raises(ConflictError):
        await append(nc, _cordon("e1"), expect=0)


async def test_a_conflict_far_behind_the_head_is_still_found_quickly(nc: Client) -> None:
    await asyncio.gather(*(append(nc, _cordon(f"a{n}"), expect=None) for n in range(WALK_RECORDS + 10)))

    with pytest.raises(ConflictError) as raised:
        await append(nc, _cordon("e1"), expect=0)

    assert raised.value.found == WALK_RECORDS + 10


async def test_of_fifty_writers_with_one_expectation_exactly_one_wins(nc: Client) -> None:
    outcomes = await asyncio.gather(
        *(append(nc, _cordon(f"e{n}"), expect=0) for n in range(50)), return_exceptions=True
    )

    assert [outcome for outcome in outcomes if isinstance(outcome, int)] == [1]
    assert sum(isinstance(outcome, ConflictError) for outcome in outcomes) == 49
    assert await _last_seq(nc) == 1


async def test_an_oversized_record_is_refused_before_and_by_the_broker(nc: Client) -> None:
    with pytest.raises(OversizedError) as raised:
        await append(nc, _cordon("e1", reason="x" * 70_000), expect=0)
    assert raised.value.limit_bytes == 65_536

    await nc.jetstream().update_stream(
        name=FLEET.name,
        subjects=list(FLEET.subjects),
        max_msg_size=1000,
        deny_delete=True,
        deny_purge=True,
        discard="new",
        compression="s2",
        allow_direct=True,
        allow_atomic=True,
    )
    with pytest.raises(OversizedError):
        await append(nc, _cordon("e2", reason="x" * 2000), expect=0)

    assert await _last_seq(nc) == 0


async def test_an_id_of_any_script_is_an_event_id(nc: Client) -> None:
    about = node_id("岩手 a.b *>:~")
    event = _event(Registered(boot_id="b", seq=1), about=about, event_id=f"{about}:b:1")

    first = await append(nc, event, expect=0)
    again = await append(nc, event, expect=0)

    assert first == again == 1
    assert (await _stored(nc, first)).node_id == about


async def test_without_the_stream_nothing_is_appended_and_it_is_said(broker: AnyBroker) -> None:
    client = await connect(broker.url)

    with pytest.raises(BrokerUnavailableError, match=r"nobody listens on fleet\.v1\.operator\.n1\.cordoned"):
        await append(client, _cordon("e1"), expect=0, timeout_s=0.2)

    await client.close()


async def test_another_stream_under_these_subjects_is_refused(broker: AnyBroker) -> None:
    client = await connect(broker.url)
    await client.jetstream().add_stream(name="OTHER", subjects=["fleet.v1.operator.*.*"])

    with pytest.raises(RefusedError, match="expected stream does not match"):
        await append(client, _cordon("e1"), expect=None)

    await client.close()


async def test_a_broker_that_is_gone_is_said_and_a_closed_connection_at_once(own_broker: AnyBroker) -> None:
    client = await connect(own_broker.url)
    await ensure_streams(client, (FLEET,))
    own_broker.kill()

    with pytest.raises(BrokerUnavailableError, match="appending fleet"):
        await append(client, _cordon("e1"), expect=0, timeout_s=0.2)
    await client.close()
    with pytest.raises(BrokerUnavailableError, match="the connection is closed"):
        await append(client, _cordon("e1"), expect=0, timeout_s=30)


async def test_an_append_waits_for_a_broker_that_comes_back(own_broker: AnyBroker) -> None:
    client = await connect(own_broker.url)
    await ensure_streams(client, (FLEET,))
    own_broker.kill()
    waiting = asyncio.create_task(append(client, _cordon("e1"), expect=0, timeout_s=20))

    await asyncio.to_thread(own_broker.start)

    assert await waiting == 1
    await client.close()


async def test_an_answer_that_comes_too_late_is_no_second_record(own_broker: AnyBroker) -> None:
    client = await connect(own_broker.url)
    await ensure_streams(client, (FLEET,))
    own_broker.freeze()

    with pytest.raises(BrokerUnavailableError, match="no answer within"):
        await append(client, _cordon("e1"), expect=0, timeout_s=0.3)
    own_broker.thaw()
    seq = await append(client, _cordon("e1"), expect=0)

    assert seq == 1
    assert await _last_seq(client) == 1
    await client.close()


async def test_a_batch_is_stored_in_order_as_neighbours(nc: Client) -> None:
    before = await append(nc, _cordon("e0"), expect=0)
    events = [_cordon("e1"), _event(Drained(owner="ops"), event_id="e2"), _cordon("e3", about=N2)]

    seqs = await append_all(nc, events, expect={N1: before, N2: 0})

    assert seqs == [2, 3, 4]
    assert [(await _stored(nc, seq)).event_id for seq in seqs] == ["e1", "e2", "e3"]


async def test_a_batch_with_one_failed_expectation_stores_nothing(nc: Client) -> None:
    found = await append(nc, _cordon("e0", about=N2), expect=0)

    with pytest.raises(ConflictError) as raised:
        await append_all(nc, [_cordon("e1"), _cordon("e2", about=N2)], expect={N1: 0, N2: 0})

    assert (raised.value.about, raised.value.found) == (N2, found)
    assert await _last_seq(nc) == found


async def test_a_batch_with_one_oversized_event_stores_nothing(nc: Client) -> None:
    labels: dict[str, str | None] = {f"k{n}": "x" * 1000 for n in range(70)}

    with pytest.raises(OversizedError):
        await append_all(nc, [_cordon("e1"), _event(LabelsSet(labels=labels), event_id="e2")], expect={})

    assert await _last_seq(nc) == 0


@pytest.mark.parametrize("expect", [{N1: 0, N2: 0}, {}], ids=["conditional", "unconditional"])
async def test_a_batch_again_is_answered_with_the_first_records(nc: Client, expect: dict[str, int]) -> None:
    events = [_cordon("e1"), _cordon("e2", about=N2)]
    first = await append_all(nc, events, expect=expect)

    again = await append_all(nc, events, expect=expect)

    assert again == first
    assert await _last_seq(nc) == 2


async def test_a_batch_of_one_is_an_append(nc: Client) -> None:
    assert await append_all(nc, [_cordon("e1")], expect={N1: 0}) == [1]

    with pytest.raises(ConflictError):
        await append_all(nc, [_cordon("e2")], expect={N1: 0})


async def test_a_batch_that_reuses_another_events_id_is_refused_whole(nc: Client) -> None:
    await append(nc, _cordon("e2", about=N2), expect=0)

    with pytest.raises(RefusedError, match="appended before"):
        await append_all(nc, [_cordon("e1"), _cordon("e2", about=N2)], expect={})

    assert await _last_seq(nc) == 1


@pytest.mark.parametrize("expect", [{N1: 0, N2: 0}, {}], ids=["conditional", "unconditional"])
async def test_a_batch_whose_first_event_was_stored_alone_is_refused_whole(
    nc: Client, expect: dict[str, int]
) -> None:
    await append(nc, _cordon("e1"), expect=0)
    await append(nc, _cordon("e9", about=NodeId("n9")), expect=0)

    with pytest.raises((ConflictError, RefusedError)):
        await append_all(nc, [_cordon("e1"), _cordon("e2", about=N2)], expect=expect)

    assert await _last_seq(nc) == 2


async def test_a_thousand_events_are_one_batch_and_one_more_is_refused(nc: Client) -> None:
    events = [_cordon(f"e{n}", about=NodeId(f"node-{n}")) for n in range(1001)]

    seqs = await append_all(nc, events[:1000], expect={event.about: 0 for event in events})

    assert seqs == list(range(1, 1001))
    with pytest.raises(ValueError, match="1 to 1000"):
        await append_all(nc, events, expect={})


async def test_what_is_stored_is_json_that_names_its_kind(nc: Client) -> None:
    seq = await append(nc, _cordon("e1", reason="fan"), expect=0)

    body = json.loads((await _stored(nc, seq)).raw)

    assert body == {
        "specversion": "1.0",
        "id": "e1",
        "source": "/test",
        "type": "fleetfold.operator.cordoned.v1",
        "subject": "n1",
        "time": "2026-05-01T12:00:00Z",
        "datacontenttype": "application/json",
        "data": {"owner": "ops", "reason": "fan"},
    }
