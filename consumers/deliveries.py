"""What the broker delivers to one subscription, as columns, without a Python call per message (floor 3).

nats-py hands every chunk it reads to its protocol parser. `ColumnParser` stands in that place: for
subscriptions that have a `Deliveries` it cuts a whole chunk at once, and everything else (other
subscriptions, PING, INFO, errors) it gives frame by frame to the parser it extends. It relies on three
members of nats-py that are not documented: the client's `_ps`, which is replaced before connecting, a
subscription's `_id`, and that the parser's `parse` takes whole frames. `tests/unit/test_deliveries.py` pins
them, and `pyproject.toml` pins the version.

The size of a chunk is nats-py's 32 KiB; there is no public way to raise it, and four times as much gained
nothing.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable

from nats.aio.client import Client
from nats.aio.subscription import Subscription
from nats.errors import ProtocolError
from nats.protocol.parser import Parser

from consumers.frames import CRLF, Columns, cut, joined, numbers_of, reply_prefix


class Deliveries:
    """The records that one subscription was sent and nobody took yet, in order of arrival.

    `arrived` counts all since the beginning, `waiting` those not taken. It has no limit of its own: what
    can arrive is what was asked for. `on_status` gets the head and headers of every message that is no
    record.
    """

    def __init__(self, *, on_status: Callable[[bytes], None]) -> None:
        self.arrived = self.waiting = 0
        self.waiting_since = 0.0
        self.prefix: bytes | None = None
        self._on_status = on_status
        self._chunks: deque[Columns] = deque()
        self._run: tuple[list[bytes], list[bytes], list[bytes]] = ([], [], [])
        self._wake_at = 0
        self._awake = asyncio.Event()

    def add(self, subject: bytes, reply: bytes, payload: bytes) -> None:
        """Add one record to the run that `close_run` ends."""
        replies, subjects, payloads = self._run
        replies.append(reply)
        subjects.append(subject)
        payloads.append(payload)

    def close_run(self) -> None:
        """Make a chunk of the records added one by one."""
        replies, subjects, payloads = self._run
        if not replies:
            return
        self._run = ([], [], [])
        if self.prefix is None:
            self.prefix = reply_prefix(replies[0])
        try:
            numbers = numbers_of(replies, prefix=self.prefix)
        except ValueError as err:
            self.tell(str(err).encode())  # no broker sends such: whoever reads ends this generation
            return
        self.add_columns(Columns(numbers, subjects, payloads))

    def add_columns(self, columns: Columns) -> None:
        """Add a chunk of records."""
        self._chunks.append(columns)
        count = len(columns.payloads)
        if not self.waiting:
            self.waiting_since = time.monotonic()
        self.arrived += count
        self.waiting += count
        if self.waiting >= self._wake_at:
            self._awake.set()

    def tell(self, status: bytes) -> None:
        """Pass on what is no record, and wake whoever waits."""
        self._on_status(status)
        self._awake.set()

    async def wait(self, count: int, *, timeout_s: float) -> None:
        """Wait until `count` records wait, a status came or the time is over; the caller looks which."""
        if self.waiting >= count:
            return
        self._wake_at = count
        self._awake.clear()
        try:
            await asyncio.wait_for(self._awake.wait(), timeout_s)
        except TimeoutError:
            return

    def take(self, most: int) -> Columns:
        """Return the oldest records, at most so many, and forget them; what is left waits from now on."""
        self.waiting_since = time.monotonic()
        taken: list[Columns] = []
        while most > 0 and self._chunks:
            chunk = self._chunks.popleft()
            size = len(chunk.payloads)
            if size > most:
                numbers, subjects, payloads = chunk
                self._chunks.appendleft(Columns(numbers[most:], subjects[most:], payloads[most:]))
                chunk, size = Columns(numbers[:most], subjects[:most], payloads[:most]), most
            taken.append(chunk)
            self.waiting -= size
            most -= size
        return joined(taken)


class ColumnParser(Parser):
    """A parser of nats-py that cuts the frames of attached subscriptions itself."""

    def __init__(self, nc: Client) -> None:
        self.sinks: dict[bytes, Deliveries] = {}
        self._resets = 0
        self._rest, self._needed = b"", 0
        super().__init__(nc)

    def reset(self) -> None:
        """Forget a half-read frame: its connection is gone."""
        super().reset()
        self._resets += 1
        self._rest, self._needed = b"", 0

    async def parse(self, data: bytes = b"") -> None:
        """Take one chunk off the wire; raise nats.errors.ProtocolError where it is not NATS."""
        if self.nc.is_reconnecting:
            return  # a given-up connection's last words: they would be glued to the next one's first
        buf = self._rest + data if self._rest else bytes(data)
        if len(buf) < self._needed:
            self._rest = buf
            return
        self._needed = 0
        taken = self._by_columns(buf)
        # What is left may be a whole PING, which must not wait for what comes next.
        self._rest = b""
        await self._by_frames(buf[taken:] if taken else buf)

    def _by_columns(self, buf: bytes) -> int:
        if not self.sinks:
            return 0
        head = buf[: max(buf.find(CRLF), 0)].split(b" ")
        if len(head) != 5 or head[0] != b"MSG":
            return 0
        sink = self.sinks.get(head[2])
        if sink is None or sink.prefix is None:
            return 0
        found = cut(buf, sid=head[2], prefix=sink.prefix)
        if found is None:
            return 0
        columns, taken = found
        self.nc.stats["in_msgs"] += len(columns.payloads)
        self.nc.stats["in_bytes"] += taken
        sink.add_columns(columns)
        return taken

    async def _by_frames(self, buf: bytes) -> None:
        resets, at, size, sinks = self._resets, 0, len(buf), self.sinks
        while at < size:
            eol = buf.find(CRLF, at)
            if eol < 0:
                break
            head, body = buf[at:eol].split(), eol + 2
            verb = head[0] if head else b""
            if verb not in {b"MSG", b"HMSG"}:
                self._close_runs()
                await self._by_nats(buf[at:body])
                if self._resets != resets:
                    return  # an error of the server ended this connection, and with it the rest of the chunk
                at = body
                continue
            has_headers = len(verb) == 4
            try:
                end = body + int(head[-1])
                payload = body + int(head[-2]) if has_headers else body
                sink = sinks.get(head[2])
            except (ValueError, IndexError) as err:
                raise ProtocolError("nats: malformed MSG") from err
            if end + 2 > size:
                self._needed = end + 2 - at
                break
            if sink is not None and len(head) == 5 + has_headers:
                sink.add(head[1], head[3], buf[payload:end])
            elif sink is not None:
                sink.close_run()
                sink.tell(buf[body:payload])
            else:
                self._close_runs()
                await self._by_nats(buf[at : end + 2])
                if self._resets != resets:
                    return
            at = end + 2
        self._close_runs()
        self._rest = buf[at:]

    def _close_runs(self) -> None:
        for sink in self.sinks.values():
            sink.close_run()

    async def _by_nats(self, frame: bytes) -> None:
        await super().parse(frame)
        if self.buf:
            raise ProtocolError("nats: unknown protocol")


def new_client() -> Client:
    """Return a nats-py client, not connected yet, whose subscriptions can be given a `Deliveries`."""
    nc = Client()
    nc._ps = ColumnParser(nc)
    return nc


def attach(nc: Client, subscription: Subscription, deliveries: Deliveries) -> Callable[[], None]:
    """Send what a subscription gets to `deliveries` instead of its callback; return what ends that.

    Raises TypeError for a client that does not come from `new_client`.
    """
    parser = nc._ps
    if not isinstance(parser, ColumnParser):
        raise TypeError("a reader needs a client made by consumers.deliveries.new_client")
    sid = b"%d" % subscription._id
    parser.sinks[sid] = deliveries

    def detach() -> None:
        parser.sinks.pop(sid, None)

    return detach
