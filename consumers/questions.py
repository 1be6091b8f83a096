"""Questions to agents on `fleet.v1.ask.<node>` (floor 3): register, gone, probe. Nobody has to answer."""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from typing import TYPE_CHECKING

import nats.errors

from events.asks import Ask, encode_ask
from events.subjects import ask_subject
from projections import asking

if TYPE_CHECKING:
    from nats.aio.client import Client
    from nats.aio.msg import Msg
    from nats.aio.subscription import Subscription

    from consumers.picture import Picture
    from events.log import Int64s
    from projections.judging import Due
    from projections.projection import Projection

PROBE_WITHIN_S = 1.0
# An agent answers in milliseconds; it is late by this much only on a machine that is stuck.

UNKNOWN = Ask("register", "the fleet does not know this node: it beats and has not registered")
OTHER_BOOT = Ask("register", "the fleet knows this node under another boot id")
OTHER_INVENTORY = Ask("register", "the fleet knows another inventory of this node")
IN_TURN = Ask("register", "several machines beat under this id: each needs one of its own")
GONE = Ask("gone", "this node was retired")
PROBE = Ask("probe")


class Questions:
    """Asks agents over one connection after another. `counts` says how often what."""

    def __init__(self, projection: Projection) -> None:
        self.counts: Counter[str] = Counter()
        self._projection = projection
        self._nc: Client | None = None
        self._picture: Picture | None = None
        self._inbox = ""
        self._subscription: Subscription | None = None

    async def open(self, nc: Client, picture: Picture) -> None:
        """Listen for answers to probes of this picture's nodes."""
        await self.close()
        self._nc, self._picture, self._inbox = nc, picture, nc.new_inbox()
        self._subscription = await nc.subscribe(f"{self._inbox}.*", cb=self._answered)

    async def close(self) -> None:
        """Listen no more; twice is fine."""
        subscription, self._subscription = self._subscription, None
        if subscription is not None and self._nc is not None and not self._nc.is_closed:
            with contextlib.suppress(nats.errors.Error):  # the connection is going, and it goes along
                await subscription.unsubscribe()

    async def ask(self, picture: Picture, *, now: float) -> None:
        """Ask whoever beat since the last time and has to be asked."""
        picture.read_digests()
        found = asking.to_ask(picture.roster, now=now, facts_known_until=picture.watch.facts_known_until)
        await self._send(picture, found.unknown, UNKNOWN)
        await self._send(picture, found.other_boot, OTHER_BOOT)
        await self._send(picture, found.other_inventory, OTHER_INVENTORY)
        await self._send(picture, found.in_turn, IN_TURN)
        await self._send(picture, found.gone, GONE)

    async def probed(self, picture: Picture, due: Due, *, now: float) -> Due:
        """Return those that were probed and did not answer in time; probe the others."""
        at = picture.roster.probed_at[due.numbers]
        # A probe from before its last sign is of an earlier silence.
        is_open = at > picture.roster.heard[due.numbers]
        new = due.numbers[~is_open]
        picture.roster.probed_at[new] = now
        await self._send(picture, new, PROBE, is_answered=True)
        return due.only(is_open & (now - at >= PROBE_WITHIN_S))

    async def _send(self, picture: Picture, numbers: Int64s, ask: Ask, *, is_answered: bool = False) -> None:
        if not len(numbers) or self._nc is None or not self._nc.is_connected:
            return
        payload = encode_ask(ask)
        node_ids = self._projection.node_ids(numbers, openings=picture.openings)
        for number, node_id in zip(numbers.tolist(), node_ids, strict=True):
            reply = f"{self._inbox}.{number}" if is_answered else ""
            await self._nc.publish(ask_subject(node_id), payload, reply=reply)
        self.counts[f"asked_{ask.word}"] += len(numbers)

    async def _answered(self, msg: Msg) -> None:
        number = msg.subject.rpartition(".")[2]
        picture = self._picture
        if picture is None or not number.isdigit() or int(number) >= picture.roster.count or not msg.data:
            return
        self.counts["probes_answered"] += 1
        picture.roster.since[int(number)] = time.monotonic()
