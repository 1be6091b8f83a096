"""The parser that cuts columns: the same records, however the bytes come."""

from __future__ import annotations

import asyncio
from importlib.metadata import version
from itertools import pairwise

import nats.aio.subscription
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import ProtocolError
from nats.protocol.parser import Parser

from consumers.deliveries import ColumnParser, Deliveries, attach, new_client
from consumers.frames import cut, reply_prefix
from tests.support.frames import ACK, SID, Sent, status

NOW_NS = 1_700_000_000_000_000_000
Heard = list[tuple[bytes, bytes, tuple[int, ...]]]


class Listener(Client):
    """A client without a connection that notes what reaches nats-py itself."""

    def __init__(self) -> None:
        super().__init__()
        self.noted: list[object] = []

    async def _process_ping(self) -> None:
        self.noted.append("ping")

    async def _process_pong(self) -> None:
        self.noted.append("pong")

    async def _process_err(self, err_msg: str) -> None:
        self.noted.append(err_msg)

    async def _process_msg(self, sid: int, subject: bytes, reply: bytes, data: bytes, headers: bytes) -> None:
        self.noted.append((sid, subject, data, headers))


class Wire:
    """A parser with one attached subscription, and everything that came out of it."""

    def __init__(self) -> None:
        self.client = Listener()
        self.parser = ColumnParser(self.client)
        self.statuses: list[bytes] = []
        self.deliveries = Deliveries(on_status=self.statuses.append)
        self.parser.sinks[b"%d" % SID] = self.deliveries

    def feed(self, *chunks: bytes) -> Wire:
        async def run() -> None:
            for chunk in chunks:
                await self.parser.parse(chunk)

        asyncio.run(run())
        return self

    def heard(self) -> Heard:
        numbers, subjects, payloads = self.deliveries.take(1_000_000)
        return [
            (subject, payload, tuple(row))
            for subject, payload, row in zip(subjects, payloads, numbers.tolist(), strict=True)
        ]


def expected(records: list[Sent]) -> Heard:
    return [(record.subject, record.payload, record.numbers) for record in records]


def beats(count: int) -> list[Sent]:
    return [
        Sent(b"fleet.v1.beat.n%d" % n, b'{"seq":%d}' % n, n + 100, n, NOW_NS + n, count - n)
        for n in range(1, count + 1)
    ]


PAYLOADS = st.one_of(
    st.binary(max_size=40),
    st.sampled_from(
        [b"", b"\r\n", b"\r", b"\n", b"a\r\n", b"\r\nb", b"x\r\ny", b"\r\n\r\n", b"PING\r\n",
         beats(1)[0].frame(), b"ends with cr\r", b"\nbegins with lf"]
    ),
)  # fmt: skip
HEADERS = st.sampled_from([b"", b"", b"", b"NATS/1.0\r\nNats-Msg-Id: a b\r\n\r\n", b"NATS/1.0\r\n\r\n"])
OTHERS = st.sampled_from(
    [b"PING\r\n", b"PONG\r\n", b"+OK\r\n", b"-ERR 'Slow Consumer'\r\n", b"MSG a.b 9 5\r\nx\r\nyz\r\n",
     b"HMSG a 9 r.s 12 14\r\nNATS/1.0\r\n\r\nhi\r\n", status(b"100 Idle Heartbeat"), status(b"408 Timeout")]
)  # fmt: skip


@st.composite
def wires(draw: st.DrawFn) -> tuple[list[Sent], list[bytes]]:
    """Draw records and the frames they and other traffic come in."""
    records: list[Sent] = []
    frames: list[bytes] = []
    kinds = st.sampled_from(["record", "record", "record", "beats", "other"])
    for kind in draw(st.lists(kinds, max_size=12)):
        match kind:
            case "other":
                frames.append(draw(OTHERS))
                continue
            case "beats":
                payloads, headers = [b"{}"] * draw(st.integers(1, 30)), b""
            case _:
                payloads, headers = [draw(PAYLOADS)], draw(HEADERS)
        for payload in payloads:
            at = len(records) + 1
            records.append(Sent(b"t.%d" % at, payload, at * 2, at, NOW_NS + at, 5, headers))
            frames.append(records[-1].frame())
    return records, frames


@given(wires(), st.lists(st.integers(0, 4_000), max_size=12))
@example((beats(3), [beat.frame() for beat in beats(3)]), [1, 2, 3])
@example((beats(12), [*[beat.frame() for beat in beats(12)], b"PING\r\n"]), [55])  # a PING behind records
def test_how_the_bytes_are_cut_into_chunks_does_not_matter(
    drawn: tuple[list[Sent], list[bytes]], places: list[int]
) -> None:
    records, frames = drawn
    wire = b"".join(frames)
    edges = [0, *sorted({min(place, len(wire)) for place in places}), len(wire)]
    whole, in_pieces = Wire(), Wire()

    whole.feed(wire)
    in_pieces.feed(*(wire[a:b] for a, b in pairwise(edges)))

    assert whole.heard() == in_pieces.heard() == expected(records)
    assert whole.client.noted == in_pieces.client.noted
    assert whole.statuses == in_pieces.statuses


def test_a_cut_at_any_byte_gives_the_same_records() -> None:
    records = [
        *beats(3),
        Sent(b"a.b", b"one\r\ntwo", 104, 4),
        Sent(b"a.b", b"", 105, 5),
        Sent(b"a.b", b"with headers", 106, 6, headers=b"NATS/1.0\r\nA: b\r\n\r\n"),
        *(Sent(b"a.b", b"{}", 100 + n, n) for n in range(7, 10)),
    ]
    others = [b"PING\r\n", status(b"100 Idle Heartbeat"), b"MSG x 9 2\r\nhi\r\n"]
    wire = b"".join(frame for n, record in enumerate(records) for frame in [record.frame(), others[n % 3]])

    for place in range(len(wire) + 1):
        cut_once = Wire().feed(wire[:place], wire[place:])

        assert cut_once.heard() == expected(records)
        assert len(cut_once.client.noted) == 6
        assert len(cut_once.statuses) == 3

    byte_by_byte = Wire().feed(*(wire[n : n + 1] for n in range(len(wire))))
    assert byte_by_byte.heard() == expected(records)


def test_plain_records_are_cut_by_the_chunk_once_the_consumer_is_known() -> None:
    records = beats(500)
    wire = b"".join(record.frame() for record in records)

    found = cut(wire, sid=b"%d" % SID, prefix=ACK)

    assert found is not None
    columns, taken = found
    assert taken == len(wire)
    assert columns.subjects == [record.subject for record in records]
    assert columns.payloads == [record.payload for record in records]
    assert columns.numbers.tolist() == [list(record.numbers) for record in records]


@pytest.mark.parametrize(
    "stranger",
    [
        b"PING\r\n",
        status(b"100 Idle Heartbeat"),
        Sent(b"a", b"x\r\ny", 2, 2).frame(),
        Sent(b"a", b"xy", 2, 2, headers=b"NATS/1.0\r\n\r\n").frame(),
        Sent(b"a", b"xy", 2, 2).frame(sid=8),
        Sent(b"a", b"xy", 2, 2).frame(ack=b"$JS.ACK.S.d.1."),
        Sent(b"a", b"xy", 2, 2).frame(tail=b".Xy12"),
        b"MSG a 7 2\r\nxy\r\n",
        b"MSG a 7 $JS.ACK.S.c.1.2.x.4.5 2\r\nxy\r\n",
        b"MSG a 7 $JS.ACK.S.c.1.2.3.4. 2\r\nxy\r\n",
    ],
)
def test_a_chunk_with_anything_else_in_it_is_not_cut_at_once(stranger: bytes) -> None:
    plain = beats(2)

    assert cut(plain[0].frame() + stranger + plain[1].frame(), sid=b"7", prefix=ACK) is None


@pytest.mark.parametrize(
    ("ack", "tail"),
    [
        (b"$JS.ACK.S.c.1.", b""),
        (b"$JS.ACK.hub.ACCHASH.S.c.1.", b""),
        (b"$JS.ACK.hub.ACCHASH.S.c.1.", b".rAnD0m"),
    ],
)
def test_positions_are_read_from_every_form_of_reply_subject(ack: bytes, tail: bytes) -> None:
    records = beats(6)
    frames = [record.frame(ack=ack, tail=tail) for record in records]

    wire = Wire().feed(frames[0], b"".join(frames[1:]))

    assert wire.heard() == expected(records)
    assert wire.deliveries.prefix == (None if tail else ack)


def test_a_reply_subject_without_positions_is_told_and_not_guessed() -> None:
    wire = Wire().feed(b"MSG a 7 some.reply 2\r\nxy\r\n")

    assert wire.heard() == []
    assert wire.statuses == [b"reply subject b'some.reply' carries no positions"]


def test_a_status_comes_after_the_records_that_were_sent_before_it() -> None:
    wire = Wire()
    counted: list[int] = []
    wire.deliveries = Deliveries(on_status=lambda _status: counted.append(wire.deliveries.arrived))
    wire.parser.sinks[b"%d" % SID] = wire.deliveries
    headers = b"NATS/1.0\r\nA: b\r\n\r\n"
    one, other = Sent(b"a", b"1", 1, 1, headers=headers).frame(), Sent(b"a", b"2", 2, 2).frame()

    wire.feed(one + status(b"100 Idle Heartbeat") + other + status(b"100 Idle Heartbeat"))

    assert counted == [1, 2]


def test_taking_fewer_than_wait_leaves_the_rest_in_order() -> None:
    records = beats(10)
    wire = Wire().feed(*(record.frame() for record in records))

    first = wire.deliveries.take(3)
    waiting = wire.deliveries.waiting
    second = wire.deliveries.take(100)

    assert first.payloads + second.payloads == [record.payload for record in records]
    assert first.numbers[:, 1].tolist() == [1, 2, 3]
    assert waiting == 7
    assert wire.deliveries.waiting == 0


def test_a_reset_forgets_the_half_frame_of_the_lost_connection() -> None:
    records = beats(4)
    wire = Wire().feed(records[0].frame() + records[1].frame()[:-5])

    wire.parser.reset()
    wire.feed(records[2].frame(), records[3].frame())

    assert wire.heard() == expected([records[0], *records[2:]])


@pytest.mark.parametrize("rubbish", [b"WHAT\r\n", b"MSG a 7 r x\r\n", b"HMSG a\r\n", b"MSG\r\n"])
def test_what_is_not_nats_is_a_protocol_error(rubbish: bytes) -> None:
    with pytest.raises(ProtocolError):
        Wire().feed(rubbish)


def test_a_payload_much_larger_than_a_chunk_comes_whole() -> None:
    big = Sent(b"a.b", bytes(range(256)) * 4_000, 1, 1)
    wire = big.frame()

    heard = Wire().feed(*(wire[n : n + 32_768] for n in range(0, len(wire), 32_768))).heard()

    assert heard == expected([big])


def test_the_members_of_nats_py_that_the_parser_relies_on_are_there() -> None:
    assert version("nats-py") == "2.16.0"

    async def run() -> None:
        client = new_client()
        plain = Client()
        subscription = nats.aio.subscription.Subscription(client, id=SID, subject="x", cb=_ignore)
        attach(client, subscription, Deliveries(on_status=print))

        assert isinstance(plain._ps, Parser)
        assert isinstance(client._ps, ColumnParser)
        assert list(client._ps.sinks) == [b"7"]
        with pytest.raises(TypeError):
            attach(plain, subscription, Deliveries(on_status=print))

    asyncio.run(run())


async def _ignore(_msg: Msg) -> None:
    """A subscription needs a callback."""


def test_a_prefix_is_only_taken_from_a_reply_that_ends_in_its_numbers() -> None:
    assert reply_prefix(b"$JS.ACK.S.c.1.2.3.4.5") == b"$JS.ACK.S.c.1."
    assert reply_prefix(b"$JS.ACK.d.h.S.c.1.2.3.4.5") == b"$JS.ACK.d.h.S.c.1."
    assert reply_prefix(b"$JS.ACK.d.h.S.c.1.2.3.4.5.r") is None
    assert reply_prefix(b"a.b.c.d.1.2.3.4.5") is None
