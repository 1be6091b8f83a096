"""Flapping nodes that have settled: once one has not flipped for long enough, a fact says so (floor 3).

The fold has no clock, so it cannot notice that nothing happens; it is told. Only time in which silence was
judged counts as quiet: while the evaluator does not watch, nobody could have flipped. The fact names the flip
after which it was quiet, so one that comes too late settles nothing, and its id is the same whoever says it.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import duckdb

from consumers.looks import look
from consumers.periodic import Periodic
from events.append import append
from events.envelope import new_event
from events.errors import ConflictError, StoreError
from events.facts import Settled
from projections.change_queries import flapping
from projections.flapping import QUIET

if TYPE_CHECKING:
    from collections.abc import Callable

    from nats.aio.client import Client

    from events.ids import NodeId
    from projections.projection import Projection
    from projections.state import NodeState

SOURCE = "/liveness"
LOOK_EVERY = timedelta(seconds=5)
# A sixtieth of what a node has to be quiet for; a look costs one small question to the tables.


class Settler:
    """Says between `start` and `stop` who has settled, on the loop that the connection is on.

    `counts` are of this process: `settled` nodes, `lost_races` where a node had changed, `failed` attempts.
    """

    def __init__(
        self,
        projection: Projection,
        nc: Client,
        *,
        is_watching: Callable[[], bool],
        quiet: timedelta = QUIET,
        look_every: timedelta = LOOK_EVERY,
    ) -> None:
        self.counts = Counter({"settled": 0, "lost_races": 0, "failed": 0})
        self._projection, self._nc, self._is_watching = projection, nc, is_watching
        self._quiet_s = quiet.total_seconds()
        self._watching_since: float | None = None
        self._rounds = Periodic("settler", self._round, every=look_every, counts=self.counts)

    async def start(self) -> None:
        """Begin; returns at once, whether the broker is there or not."""
        await self._rounds.start()

    async def stop(self) -> None:
        """Stop; what is being appended may or may not be. Twice is fine."""
        await self._rounds.stop()

    async def _round(self) -> None:
        if not self._is_watching():
            self._watching_since = None
            return
        if self._watching_since is None:
            self._watching_since = time.monotonic()
        if time.monotonic() - self._watching_since < self._quiet_s:
            return
        found = await asyncio.to_thread(self._flapping)
        if not found:
            return
        now_s = (await look(self._nc)).broker_at
        for node_id in found:
            state = self._projection.node(node_id)
            if state is not None:
                await self._settle(state, now_s)

    async def _settle(self, state: NodeState, now_s: float) -> None:
        """Say of one node that it has settled, where it has."""
        flips = state.flips
        if flips is None or flips.since is None:
            return
        quiet_s = now_s - flips.times[-1].timestamp()
        if quiet_s < self._quiet_s:
            return
        said = Settled(
            boot_id=state.boot_id or "",
            last_flip_seq=flips.last_seq,
            quiet_s=round(quiet_s, 3),
            rule=f"neither lost nor back for {quiet_s:.0f} s, {self._quiet_s:g} s are asked for",
        )
        event = new_event(
            said,
            about=state.node_id,
            source=SOURCE,
            event_id=f"liveness/settled/{flips.last_seq}",
            time=datetime.fromtimestamp(now_s, UTC),
        )
        try:
            await append(self._nc, event, expect=state.version)
        except ConflictError:
            self.counts["lost_races"] += 1
        else:
            self.counts["settled"] += 1

    def _flapping(self) -> list[NodeId]:
        try:
            with closing(self._projection.cursor()) as cursor:
                return flapping(cursor)
        except duckdb.Error as err:
            raise StoreError(str(self._projection.path), why=str(err)) from err
