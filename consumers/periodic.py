"""Work that is done again and again on a loop, whatever becomes of one round (floor 3)."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable
from datetime import timedelta

import nats.errors

from consumers.ending import end
from consumers.stream_api import NotAnsweredError
from events.errors import BrokerUnavailableError, RefusedError, StoreError

log = logging.getLogger(__name__)

AWAY = (NotAnsweredError, BrokerUnavailableError, RefusedError, StoreError, nats.errors.Error)
"""What ends a round of work that the next one may do: the broker or the tables are away."""


class Periodic:
    """Runs rounds between `start` and `stop`. One that fails is counted in `counts["failed"]` and told."""

    def __init__(
        self, name: str, work: Callable[[], Awaitable[None]], *, every: timedelta, counts: Counter[str]
    ) -> None:
        self._name, self._work, self._every_s, self._counts = name, work, every.total_seconds(), counts
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin; returns at once."""
        self._task = asyncio.create_task(self._run(), name=self._name)

    async def stop(self) -> None:
        """Stop; what a round is appending may or may not be. Twice is fine."""
        if self._task is not None:
            await end(self._task)

    async def _run(self) -> None:
        while True:
            try:
                await self._work()
            except AWAY as err:
                self._counts["failed"] += 1
                log.info("a round was not done", extra={"work": self._name, "why": str(err)})
            except Exception:
                # The outermost place of this task. Whatever it is, it is a mistake of ours: it is said, and
                # tried again, since work that nobody does is worse.
                log.exception("a round ended with an error", extra={"work": self._name})
                self._counts["failed"] += 1
            await asyncio.sleep(self._every_s)
