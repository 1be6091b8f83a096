"""Many facts on their way to the log at once, each acknowledged in the end (floor 4).

One at a time makes 3,000 a second, a window of 2,000 about 27,000. No order is kept: a repeated fact may come
later.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import orjson

from events.errors import BrokerUnavailableError, RefusedError
from events.streams import FLEET_NAME
from fleetfold.agent.messages import FactMessage

if TYPE_CHECKING:
    from nats.aio.client import Client
    from nats.aio.msg import Msg
    from nats.aio.subscription import Subscription

WINDOW = 2_000
# Above what the round trip needs at 30,000/s, below what makes the broker call us slow.
PATIENCE_S = 5.0
ATTEMPTS = 12


class AckWindow:
    """Facts on their way: published without waiting for each, and again where no answer came."""

    def __init__(self, nc: Client) -> None:
        self._nc = nc
        self._inbox = nc.new_inbox()
        self._subscription: Subscription | None = None
        self._on_way: dict[int, FactMessage] = {}
        self._answered = asyncio.Event()
        self._refusal = ""
        self._count = 0
        self.acknowledged = 0

    async def open(self) -> None:
        """Begin to listen for answers."""
        self._subscription = await self._nc.subscribe(f"{self._inbox}.*", cb=self._on_answer)

    async def close(self) -> None:
        """Stop listening."""
        if self._subscription is not None and not self._nc.is_closed:
            await self._subscription.unsubscribe()

    async def publish(self, said: FactMessage) -> None:
        """Send one fact, after waiting for room in the window.

        Raises RefusedError where the stream refused one, BrokerUnavailableError where answers stay away for a
        minute.
        """
        self._count += 1
        self._on_way[self._count] = said
        await self._send(self._count, said)
        await self._below(WINDOW)

    async def drain(self) -> None:
        """Wait until every fact is acknowledged; raises as `publish` does."""
        await self._below(1)

    async def _below(self, limit: int) -> None:
        """Wait until fewer than `limit` are on their way, sending again what gets no answer."""
        attempts = 0
        while len(self._on_way) >= limit:
            if self._refusal:
                raise RefusedError(
                    "append_refused",
                    f"the stream {FLEET_NAME} refuses facts",
                    instead=self._refusal,
                )
            self._answered.clear()
            try:
                async with asyncio.timeout(PATIENCE_S):
                    await self._answered.wait()
            except TimeoutError:
                attempts += 1
                if attempts == ATTEMPTS:
                    raise BrokerUnavailableError("publishing facts", why="no acknowledgement") from None
                if self._nc.is_connected:
                    for number, said in list(self._on_way.items()):
                        await self._send(number, said)

    async def _send(self, number: int, said: FactMessage) -> None:
        if self._nc.is_connected:
            await self._nc.publish(
                said.subject,
                said.payload,
                reply=f"{self._inbox}.{number}",
                headers={"Nats-Msg-Id": said.message_id, "Nats-Expected-Stream": FLEET_NAME},
            )

    async def _on_answer(self, msg: Msg) -> None:
        answer = orjson.loads(msg.data) if msg.data else {"error": {"description": "no stream takes them"}}
        if "error" in answer:
            self._refusal = str(answer["error"].get("description", "no reason given"))
        elif self._on_way.pop(int(msg.subject.rpartition(".")[2]), None) is not None:
            self.acknowledged += 1
        self._answered.set()
