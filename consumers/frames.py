"""Cut delivered frames into columns, many at once (floor 3, pure).

A record of a pull consumer comes as `MSG <subject> <sid> <reply> <size>\\r\\n<payload>\\r\\n`, and its
reply subject carries four numbers: `$JS.ACK.<stream>.<consumer>.<delivered>.<stream seq>.<consumer
seq>.<ns>.<pending>` (with a domain and an account hash before the stream: two tokens more, and then perhaps
a random one at the end). All but those numbers is the same in each frame of a generation, which is what
makes cutting by the chunk possible.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from events.log import Int64s

CRLF = b"\r\n"
HEADERS_BEGIN = b"NATS/1.0"
STREAM_SEQ, CONSUMER_SEQ, STORED_AT_NS, PENDING = range(4)
"""The columns of `Columns.numbers`."""
_ACK = b"$JS.ACK."


class Columns(NamedTuple):
    """Records in the order of their arrival: `numbers` has one row of four for each subject and payload."""

    numbers: Int64s
    subjects: list[bytes]
    payloads: list[bytes]


NOTHING = Columns(np.empty((0, 4), np.int64), [], [])


def reply_prefix(reply: bytes) -> bytes | None:
    """Return what all reply subjects of this consumer begin with, or None where more than numbers follows."""
    if not reply.startswith(_ACK) or reply.count(b".") not in {8, 10}:
        return None
    return reply.rsplit(b".", 4)[0] + b"."


def numbers_of(replies: list[bytes], *, prefix: bytes | None) -> Int64s:
    """Return the four numbers of each reply subject, one row each; raise ValueError where one has none."""
    if prefix is not None:
        rows = _rows(replies, prefix=prefix)
        if rows is not None:
            return rows
    return np.array([_numbers(reply) for reply in replies], np.int64).reshape(-1, 4)


def _numbers(reply: bytes) -> list[int]:
    tokens = reply.split(b".")
    if not reply.startswith(_ACK) or len(tokens) < 9 or len(tokens) == 10:
        raise ValueError(f"reply subject {reply[:200]!r} carries no positions")
    begin = 5 if len(tokens) == 9 else 7
    return [int(token) for token in tokens[begin : begin + 4]]


def _rows(replies: list[bytes], *, prefix: bytes) -> Int64s | None:
    text = b" ".join(replies).replace(prefix, b"")
    # Three dots each and digits: anything else is not a reply of this consumer, and is looked at one by one.
    if text.count(b".") != 3 * len(replies):
        return None
    text = text.replace(b".", b" ")
    if not text.replace(b" ", b"").isdigit():
        return None
    flat = np.fromstring(text, dtype=np.int64, sep=" ")
    return flat.reshape(-1, 4) if len(flat) == 4 * len(replies) else None


def cut(buf: bytes, *, sid: bytes, prefix: bytes) -> tuple[Columns, int] | None:
    """Return the records of all whole frames in `buf` and how many bytes they took, or None.

    None where there is no whole frame, or anything else than plain records of this one subscription: a
    PING, a status, headers, a payload with CRLF in it. Sound, because a frame is only accepted where the
    text up to the next CRLF is exactly as long as its size says: a payload with CRLF in it gives a shorter
    piece, and the chunk is refused.
    """
    parts = buf.split(CRLF)
    count = (len(parts) - 1) // 2
    if not count:
        return None
    payloads = parts[1 : 2 * count : 2]
    # What stands between a subject and the numbers is the same in every frame, so it need not be cut and
    # compared.
    heads = b" ".join(parts[0 : 2 * count : 2])
    tokens = heads.replace(b" %b %b" % (sid, prefix), b" ").split(b" ")
    if len(tokens) != 4 * count or tokens[0::4].count(b"MSG") != count or not _fit(payloads, tokens[3::4]):
        return None
    numbers = _rows(tokens[2::4], prefix=prefix)
    if numbers is None:
        return None
    left = len(parts[-1]) if len(parts) % 2 else len(parts[-2]) + len(CRLF) + len(parts[-1])
    return Columns(numbers, tokens[1::4], payloads), len(buf) - left


def _fit(payloads: list[bytes], sizes: list[bytes]) -> bool:
    try:
        return list(map(int, sizes)) == list(map(len, payloads))
    except ValueError:
        return False


def joined(chunks: list[Columns]) -> Columns:
    """Return the chunks as one."""
    match chunks:
        case []:
            return NOTHING
        case [only]:
            return only
    subjects: list[bytes] = []
    payloads: list[bytes] = []
    for chunk in chunks:
        subjects += chunk.subjects
        payloads += chunk.payloads
    return Columns(np.concatenate([chunk.numbers for chunk in chunks]), subjects, payloads)
