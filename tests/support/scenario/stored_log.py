"""FLEET and BEATS of a simulated world, as the deciding parts see them: positions, times, expectations.

What a broker does besides, and every way in which it fails, is tested on a real one.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from events.codec import Recorded, decode_fact
from events.errors import UnreadableError
from events.log import Batch, Cursor
from events.streams import BEATS_NAME, DUPLICATE_WINDOW, FLEET_NAME

MOST = 20_000


class BrokerDownError(Exception):
    """The broker of this world does not answer."""


class StaleError(Exception):
    """Something else was stored about the same subject; `found` is its position."""

    def __init__(self, found: int) -> None:
        self.found = found
        super().__init__(f"the last one is at {found}")


@dataclass
class StoredStream:
    """One stream; the record at position `n` is in row `n - 1`, deleted or not."""

    epoch: str
    subjects: list[bytes] = field(default_factory=list)
    payloads: list[bytes] = field(default_factory=list)
    stored_at_ns: list[int] = field(default_factory=list)
    deleted: set[int] = field(default_factory=set)

    @property
    def head(self) -> int:
        return len(self.subjects)


class StoredLog:
    """Both streams. Nothing can be stored while it is down."""

    def __init__(self) -> None:
        self.is_up = True
        self.streams = {name: StoredStream(f"{name} 1") for name in (FLEET_NAME, BEATS_NAME)}
        self._last: dict[str, int] = {}
        self._last_beat: dict[bytes, int] = {}
        self._ids: dict[str, tuple[int, int]] = {}

    def begin_again(self) -> None:
        """Forget everything: streams of another epoch."""
        self.streams = {name: StoredStream(f"{name} 2") for name in self.streams}
        self._last, self._last_beat, self._ids = {}, {}, {}

    def head(self, stream: str) -> tuple[str, int]:
        """Epoch and last position of a stream."""
        found = self.streams[stream]
        return found.epoch, found.head

    def append_fact(
        self, subject: str, payload: bytes, *, at_s: float, expect: int | None = None, message_id: str = ""
    ) -> int:
        """Store a record of FLEET, unless another about its node came since `expect`; return its position.

        A second one with the same message id within the broker's window is not stored.
        """
        if not self.is_up:
            raise BrokerDownError
        at_ns, about = int(at_s * 1e6) * 1000, _about(subject)
        if message_id and (known := self._ids.get(message_id)) is not None:
            seq, since_ns = known
            if at_ns - since_ns < DUPLICATE_WINDOW.total_seconds() * 1e9:
                return seq
        if expect is not None and self._last.get(about, 0) != expect:
            raise StaleError(self._last.get(about, 0))
        seq = self._append(FLEET_NAME, subject.encode(), payload, at_ns)
        self._last[about] = seq
        if message_id:
            self._ids[message_id] = seq, at_ns
        return seq

    def append_beat(self, subject: bytes, payload: bytes, *, at_s: float) -> None:
        """Store a record of BEATS; while the log is down, nobody hears it."""
        if self.is_up:
            self._last_beat[subject] = self._append(BEATS_NAME, subject, payload, int(at_s * 1e6) * 1000)

    def last_beat(self, subject: bytes) -> int:
        """The position of the last heartbeat of a node, 0 for none."""
        return self._last_beat.get(subject, 0)

    def version(self, about_subject: str) -> int:
        """The position of the last record about the node of a subject, 0 for none."""
        return self._last.get(_about(about_subject), 0)

    def after(self, stream: str, cursor: Cursor) -> Batch | None:
        """The next records after a cursor with the holes among them, None where there are none."""
        found = self.streams[stream]
        first, last = cursor.seq + 1, min(cursor.seq + MOST, found.head)
        if last < first:
            return None
        seqs = [seq for seq in range(first, last + 1) if seq not in found.deleted]
        rows = [seq - 1 for seq in seqs]
        return Batch(
            stream=stream,
            seqs=np.array(seqs, np.int64),
            stored_at_ns=np.array([found.stored_at_ns[row] for row in rows], np.int64),
            subjects=[found.subjects[row] for row in rows],
            payloads=[found.payloads[row] for row in rows],
            cursor=Cursor(found.epoch, last, found.stored_at_ns[last - 1]),
            holes=tuple((seq, seq) for seq in range(first, last + 1) if seq in found.deleted),
            pending=found.head - last,
        )

    def facts(self, *, after: int = 0) -> list[Recorded]:
        """Every fact that can be read, in order."""
        found, stream = [], self.streams[FLEET_NAME]
        for seq in range(after + 1, stream.head + 1):
            try:
                fact = decode_fact(
                    seq=seq,
                    stored_at_ns=stream.stored_at_ns[seq - 1],
                    subject=stream.subjects[seq - 1].decode(),
                    payload=stream.payloads[seq - 1],
                )
            except UnreadableError:
                continue
            found.append(fact)
        return found

    def _append(self, stream: str, subject: bytes, payload: bytes, at_ns: int) -> int:
        found = self.streams[stream]
        found.subjects.append(subject)
        found.payloads.append(payload)
        found.stored_at_ns.append(at_ns)
        return found.head


def _about(subject: str) -> str:
    parts = subject.split(".")
    return f"zone.{parts[3]}" if parts[2] == "zone" else parts[3]
