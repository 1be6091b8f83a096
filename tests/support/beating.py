"""Heartbeats as a reader hands them on, and a fold of them that is too simple to be wrong."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import orjson

from events.ids import NodeId
from events.log import Batch, Cursor
from events.streams import BEATS_NAME
from events.subjects import beat_subject
from projections.heartbeats import MOST_MISSED

EPOCH = "beats-1"
NOON_NS = 1_777_636_800_000_000_000
"""2026-05-01 12:00:00 UTC."""


class Beat(NamedTuple):
    """One heartbeat and when the broker stored it, in microseconds after noon."""

    node: str
    boot_id: str = "b1"
    seq: int = 1
    at_us: int = 0
    used: dict[str, Any] | None = None
    inventory: str | None = None
    sent_at: str | None = None

    @property
    def payload(self) -> bytes:
        """The body; members that are None are left out."""
        said = {"used": self.used, "inventory": self.inventory, "sent_at": self.sent_at}
        members = {name: value for name, value in said.items() if value is not None}
        return orjson.dumps({"boot_id": self.boot_id, "seq": self.seq, **members})


class Stored(NamedTuple):
    """One record of BEATS."""

    seq: int
    stored_at_ns: int
    subject: bytes
    payload: bytes


def stored(beats: Iterable[Beat | tuple[bytes, bytes]], *, first: int = 1) -> list[Stored]:
    """Return beats, or pairs of subject and payload, as records at `first` and on."""
    return [
        Stored(seq, NOON_NS + one.at_us * 1000, beat_subject(NodeId(one.node)).encode(), one.payload)
        if isinstance(one, Beat)
        else Stored(seq, NOON_NS, *one)
        for seq, one in enumerate(beats, start=first)
    ]


def beats_batch(
    records: list[Stored], *, holes: tuple[tuple[int, int], ...] = (), epoch: str = EPOCH
) -> Batch:
    """Return records as one batch."""
    last = records[-1]
    return Batch(
        stream=BEATS_NAME,
        seqs=np.array([one.seq for one in records], dtype=np.int64),
        stored_at_ns=np.array([one.stored_at_ns for one in records], dtype=np.int64),
        subjects=[one.subject for one in records],
        payloads=[one.payload for one in records],
        cursor=Cursor(epoch, last.seq, last.stored_at_ns),
        holes=holes,
    )


def cut(records: list[Stored], cuts: Iterable[int]) -> list[Batch]:
    """Return records as batches, cut before these positions."""
    edges = sorted({0, len(records), *[one for one in cuts if 0 < one < len(records)]})
    return [beats_batch(records[begin:end]) for begin, end in pairwise(edges)]


@dataclass
class Simple:
    """What the rules make of one node's beats, one by one."""

    boot_id: str | None = None
    last_seq: int = 0
    at_us: int = 0
    beat_seq: int = 0
    missed: int = 0
    duplicates: int = 0
    reordered: int = 0
    other_boot: int = 0
    inventory: str | None = None
    previous: list[str] = field(default_factory=list)

    def fold(self, beat: Beat, stream_seq: int) -> bool:
        """Fold one beat; say whether it was accepted."""
        if beat.boot_id == self.boot_id:
            if beat.seq == self.last_seq:
                self.duplicates += 1
                return False
            if beat.seq < self.last_seq:
                self.reordered += 1
                self.missed -= 1 if self.missed else 0
                return False
            self.missed = min(self.missed + beat.seq - self.last_seq - 1, MOST_MISSED)
        elif beat.boot_id in self.previous:
            self.other_boot += 1
            return False
        else:
            if self.boot_id is not None:
                self.previous = [self.boot_id, *self.previous][:8]
            self.boot_id, self.inventory = beat.boot_id, None
        self.last_seq, self.at_us, self.beat_seq = beat.seq, beat.at_us, stream_seq
        self.inventory = beat.inventory if beat.inventory is not None else self.inventory
        return True
