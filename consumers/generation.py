"""One throw-away consumer with its inbox, read until the first doubt (floor 3).

Complete on the wire: the consumer sequence of the deliveries must count 1, 2, 3 …, and every idle heartbeat
of the broker names the last one it sent, so even a lost last delivery is seen. Back-pressure is the pull:
what was not asked for is not sent, so a caller that stands still costs nothing and nothing is ever dropped.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import orjson
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from consumers.deliveries import Deliveries, attach
from consumers.frames import CONSUMER_SEQ, CRLF, HEADERS_BEGIN, Columns
from consumers.stream_api import ask
from events.errors import FleetfoldError

HEARTBEAT_S = 0.5
SILENCE_S = 2.5 * HEARTBEAT_S
# Two heartbeats missed and half a period for a busy broker. A frozen broker is noticed after this long.
PULL_EXPIRES_S = 30.0
PULL_BYTES = 8 << 20
# What one pull may bring at most, so that 2,000 records of 64 KiB do not come at once.
CONSUMER_IDLE_S = 30.0
# The broker forgets a consumer that nobody pulls from for this long: what a killed process leaves.


class GenerationEndedError(FleetfoldError):
    """A doubt about the deliveries. Never leaves the reader: it makes a new consumer after its cursor."""

    code = "generation_ended"


class Generation:
    """An open consumer. `arrived` records it sent so far; the caller takes them in order."""

    def __init__(self, nc: Client, stream: str, *, pull: int, expires_s: float = PULL_EXPIRES_S) -> None:
        self._nc, self._stream, self._pull = nc, stream, pull
        self._deliveries = Deliveries(on_status=self._on_status)
        self._asked = self._taken = 0
        self._fault = ""
        self._heard_at = time.monotonic()
        self._reconnects: int = nc.stats["reconnects"]
        self._inbox: str = nc.new_inbox()
        self._name = self._inbox.rsplit(".", 1)[-1]
        self._subscription: Subscription | None = None
        self._detach: Callable[[], None] = lambda: None
        self._ask = orjson.dumps(
            {
                "batch": pull,
                "max_bytes": PULL_BYTES,
                "expires": int(expires_s * 1e9),
                "idle_heartbeat": int(HEARTBEAT_S * 1e9),
            }
        )

    @property
    def waiting(self) -> int:
        """How many records arrived and were not taken."""
        return self._deliveries.waiting

    @property
    def waiting_since(self) -> float | None:
        """The monotonic time since which the oldest of them waits, None where none does."""
        return self._deliveries.waiting_since if self._deliveries.waiting else None

    @property
    def heard_at(self) -> float:
        """The monotonic time at which the broker last gave a sign of life here."""
        return self._heard_at

    async def open(self, *, after_seq: int) -> None:
        """Make the consumer, beginning after a sequence; raise GenerationEndedError or NotAnsweredError."""
        if not self._nc.is_connected:
            raise GenerationEndedError("not connected")
        # No pending limits: they can only lose, and what can arrive is bounded by what was asked for.
        self._subscription = await self._nc.subscribe(
            self._inbox, cb=self._unexpected, pending_msgs_limit=0, pending_bytes_limit=0
        )
        self._detach = attach(self._nc, self._subscription, self._deliveries)
        config = {
            "name": self._name,
            "ack_policy": "none",
            "mem_storage": True,
            "num_replicas": 1,
            "max_waiting": 16,
            "deliver_policy": "by_start_sequence",
            "opt_start_seq": after_seq + 1,
            "inactive_threshold": int(CONSUMER_IDLE_S * 1e9),
        }
        await ask(
            self._nc,
            f"CONSUMER.CREATE.{self._stream}.{self._name}",
            {"stream_name": self._stream, "config": config, "action": "create"},
        )

    async def close(self) -> None:
        """Give the consumer back; twice is fine."""
        subscription, self._subscription = self._subscription, None
        self._detach()
        if subscription is None or self._nc.is_closed or self._nc.is_draining:
            return
        await subscription.unsubscribe()
        if self._nc.is_connected:
            await self._nc.publish(f"$JS.API.CONSUMER.DELETE.{self._stream}.{self._name}")

    async def arrived(self, want: int, *, within_s: float) -> bool:
        """Wait until `want` records wait to be taken; False where the time was over before.

        Raises GenerationEndedError on any doubt, but never before what already arrived was taken.
        """
        until = time.monotonic() + within_s
        silent_since = time.monotonic()  # a caller that let us wait is not the broker's silence
        while self.waiting < want:
            now = time.monotonic()
            if not self._nc.is_connected or self._nc.stats["reconnects"] != self._reconnects:
                raise GenerationEndedError("the connection was lost")
            if not self.waiting:
                if self._fault:
                    raise GenerationEndedError(self._fault)
                if now > max(self._heard_at, silent_since) + SILENCE_S:
                    raise GenerationEndedError("heartbeats missed")
            elif self._fault:
                return False
            if now >= until:
                return False
            asked_at = await self._top_up(want)
            await self._deliveries.wait(min(want, asked_at), timeout_s=min(HEARTBEAT_S, until - now))
        return True

    def take(self, most: int) -> Columns:
        """Return the oldest waiting records, at most `most`; raise GenerationEndedError where one is lost."""
        columns = self._deliveries.take(most)
        first, count = self._taken + 1, len(columns.payloads)
        self._taken += count
        self._heard_at = time.monotonic()
        if not np.array_equal(columns.numbers[:, CONSUMER_SEQ], np.arange(first, first + count)):
            raise GenerationEndedError("deliveries lost")
        return columns

    async def _top_up(self, want: int) -> int:
        """Keep two pulls on their way beyond what is wanted; return at how many waiting to ask again."""
        deliveries = self._deliveries
        while self._asked - deliveries.arrived + max(0, deliveries.waiting - want) <= self._pull:
            self._asked += self._pull
            await self._nc.publish(
                f"$JS.API.CONSUMER.MSG.NEXT.{self._stream}.{self._name}", self._ask, reply=self._inbox
            )
        return deliveries.waiting + self._asked - deliveries.arrived - self._pull

    async def _unexpected(self, msg: Msg) -> None:
        """Never called: the inbox is attached before anything can be sent to it."""
        self._fault = f"a message took another way: {msg.subject[:200]}"

    def _on_status(self, status: bytes) -> None:
        self._heard_at = time.monotonic()
        first, *lines = status.split(CRLF)
        headers = dict(line.split(b": ", 1) for line in lines if b": " in line)
        code = first.removeprefix(HEADERS_BEGIN).strip()
        if code.startswith(b"100") and b"Nats-Last-Consumer" in headers:
            if int(headers[b"Nats-Last-Consumer"]) != self._deliveries.arrived:
                self._fault = "deliveries lost"
        elif b"Nats-Pending-Messages" in headers:
            # 408 and some 409: one pull is over (time, bytes), what it did not bring may be asked for again.
            self._asked -= int(headers[b"Nats-Pending-Messages"])
        else:
            # Consumer deleted, leadership change, shutdown, no responders, anything that we do not know.
            self._fault = code.decode(errors="replace")[:200] or "a message that is no record"
