"""A reader over random faults, one after another, while records are written all the time."""

from __future__ import annotations

import random

from tests.support.brokers import AnyBroker
from tests.support.loops import on_a_loop
from tests.support.publishing import connected, head, js_api, stream_of
from tests.support.reading import Reading, reading
from tests.support.waiting import until
from tests.support.writing import writing

FAULTS = 10
SEED = 20_260_101
FOR_EVER = b'{"pause_until":"2100-01-01T00:00:00Z"}'


@on_a_loop
async def test_random_faults_cost_no_record_and_double_none(own_broker: AnyBroker) -> None:
    chance = random.Random(SEED)
    async with connected(own_broker.url) as nc:
        await stream_of(nc, "T", ["t.*"])
    async with (
        reading(own_broker.url, "T", batch=500, linger_s=0.02, stall_s=1.0) as got,
        writing(own_broker.url, subject="t.a") as one,
        writing(own_broker.url, subject="t.b") as other,
    ):
        for _ in range(FAULTS):
            await got.reached(got.cursor.seq + chance.randrange(10, 300))
            await _fault(chance, own_broker, got)
        async with connected(own_broker.url) as nc:
            await got.reached(await head(nc, "T"))
        stored = {b"t.a": one(), b"t.b": other()}

        # Whatever was acknowledged by now is in the log; a reader without any fault says what the log is.
        async with reading(own_broker.url, "T") as whole:
            await whole.reached(got.cursor.seq)
            await got.reached(whole.cursor.seq)

    common = min(len(whole.records), len(got.records))
    assert got.seqs == list(range(1, len(got.seqs) + 1))
    assert got.records[:common] == whole.records[:common]
    assert got.holes == []
    assert got.reader.counts.generations > FAULTS // 2
    for subject, count in stored.items():
        payloads = [payload for _, written_to, payload in got.records if written_to == subject]
        assert payloads[:count] == [b"record %d" % number for number in range(1, count + 1)]


async def _fault(chance: random.Random, broker: AnyBroker, got: Reading) -> None:
    match chance.choice(["kill", "stop", "freeze", "consumer", "cut", "pause"]):
        case "kill":
            broker.kill()
            broker.start()
        case "stop":
            broker.stop()
            broker.start()
        case "freeze":
            broker.freeze()
            ended, client = len(got.reader.ended), got.client
            try:
                await until(lambda: len(got.reader.ended) > ended or not client.is_connected)
            finally:
                broker.thaw()
        case "cut":
            await got.client.force_reconnect()
        case fault:
            async with connected(broker.url) as nc:
                for name in (await js_api(nc, "CONSUMER.NAMES.T"))["consumers"] or []:
                    verb, body = ("DELETE", b"") if fault == "consumer" else ("PAUSE", FOR_EVER)
                    await nc.request(f"$JS.API.CONSUMER.{verb}.T.{name}", body, timeout=5)
