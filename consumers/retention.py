"""Nodes that stay lost leave the fleet, where a time is set for it: a fact retires each, once (floor 3).

The tombstone stays, the history too, and an operator may restore the node. The broker's clock says how long
it has been lost; nobody is retired while the evaluator does not watch. Of several services one does it, and a
node that came back meanwhile stays.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from consumers.looks import look
from consumers.periodic import Periodic
from events.append import append
from events.envelope import new_event
from events.errors import ConflictError
from projections.directory import NodeFilter
from projections.retention import LOST, overdue

if TYPE_CHECKING:
    from collections.abc import Callable

    from nats.aio.client import Client

    from projections.projection import Projection
    from projections.state import NodeState

SOURCE = "/retention"
LOOK_EVERY = timedelta(minutes=1)
# What waits for days may wait a minute more.
PAGE = 1_000


class Retention:
    """Retires between `start` and `stop`, on the loop that the connection is on.

    `counts` are of this process: `retired` nodes, `lost_races` where a node had changed, `failed` attempts.
    """

    def __init__(
        self,
        projection: Projection,
        nc: Client,
        *,
        after: timedelta,
        is_watching: Callable[[], bool],
        look_every: timedelta = LOOK_EVERY,
    ) -> None:
        self.counts = Counter({"retired": 0, "lost_races": 0, "failed": 0})
        self._projection, self._nc, self._is_watching = projection, nc, is_watching
        self._after = after
        self._rounds = Periodic("retention", self._round, every=look_every, counts=self.counts)

    async def start(self) -> None:
        """Begin; returns at once, whether the broker is there or not."""
        await self._rounds.start()

    async def stop(self) -> None:
        """Stop; what is being appended may or may not be. Twice is fine."""
        await self._rounds.stop()

    async def _round(self) -> None:
        if not self._is_watching():
            return
        found = await asyncio.to_thread(self._lost)
        if not found:
            return
        now = datetime.fromtimestamp((await look(self._nc)).broker_at, UTC)
        for state in found:
            await self._retire(state, now)

    async def _retire(self, state: NodeState, now: datetime) -> None:
        found = overdue(state, now=now, after=self._after)
        if found is None:
            return
        event = new_event(found.fact, about=state.node_id, source=SOURCE, event_id=found.event_id, time=now)
        try:
            await append(self._nc, event, expect=state.version)
        except ConflictError:
            self.counts["lost_races"] += 1
        else:
            self.counts["retired"] += 1

    def _lost(self) -> list[NodeState]:
        wanted, after, found = NodeFilter(liveness=LOST), "", []
        while states := self._projection.nodes(wanted, after=after, limit=PAGE):
            after = states[-1].node_id
            found += states
        return found
