"""A look at the broker: its time and the head of both streams, in one round trip (floor 3)."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from consumers.stream_api import NotAnsweredError, ask, nanoseconds
from events.streams import BEATS_NAME, FLEET_NAME
from projections.watch import Look

if TYPE_CHECKING:
    from nats.aio.client import Client


async def look(nc: Client) -> Look:
    """Return what the broker answers; raise NotAnsweredError where it does not, in time or at all."""
    if not nc.is_connected:
        raise NotAnsweredError("STREAM.INFO", why="not connected")
    asked = time.monotonic()
    beats, fleet = await asyncio.gather(_head(nc, BEATS_NAME), _head(nc, FLEET_NAME))
    epoch, head, broker_at_ns = beats
    return Look(
        asked=asked,
        answered=time.monotonic(),
        broker_at=broker_at_ns / 1e9,
        wall_at=time.time(),
        beats=(epoch, head),
        fleet=fleet[:2],
    )


async def _head(nc: Client, stream: str) -> tuple[str, int, int]:
    match await ask(nc, f"STREAM.INFO.{stream}"):
        case {"created": str(epoch), "ts": str(at), "state": {"last_seq": int(last)}}:
            return epoch, last, nanoseconds(at)
        case answer:
            raise NotAnsweredError(f"STREAM.INFO.{stream}", why=f"unknown answer: {str(answer)[:200]}")
