"""Holds that end by themselves: once their time has come, a fact releases them (floor 3).

It runs beside the API, on the service's own connection, and reads what the projector committed. The broker's
clock says what time it is, laid out on our steady one, so that a step of our own wall clock ends nothing. A
release is appended under the version of the node that was read, with the same event id whoever appends it: of
several services one ends a hold, and one that was replaced or prolonged meanwhile stands.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import nats.errors

from consumers.ending import end
from consumers.looks import look
from consumers.stream_api import NotAnsweredError
from events.append import append_all
from events.envelope import new_event
from events.errors import BrokerUnavailableError, ConflictError, OversizedError, RefusedError
from events.loops import call_soon
from events.streams import FLEET_NAME
from projections.directory import NodeFilter
from projections.hold_ends import ended, next_end
from projections.situations import KINDS

if TYPE_CHECKING:
    from collections.abc import Callable

    from nats.aio.client import Client

    from events.ids import NodeId
    from projections.applied import Applied
    from projections.projection import Projection

log = logging.getLogger(__name__)

SOURCE = "/holds"
ROUND_S = 0.05
# Commits come up to a hundred times a second; nobody notices whether a hold ends a twentieth later.
LOOK_EVERY_S = 30.0
# How soon a broker's clock that was set is noticed while a hold is still to end.
AGAIN_S = 1.0
# After a broker that did not answer.
PAGE = 1_000


class HoldEnds:
    """Ends holds between `start` and `stop`, on the loop that the connection is on.

    `counts` are of this process: `ended` holds, `lost_races` where a node had changed, `failed` attempts.
    """

    def __init__(self, projection: Projection, nc: Client) -> None:
        self.counts = Counter({"ended": 0, "lost_races": 0, "failed": 0})
        self._projection, self._nc = projection, nc
        self._ends: dict[NodeId, datetime] = {}
        self._touched: set[NodeId] = set()
        self._is_scan_due, self._scanned_at, self._openings = True, 0.0, projection.openings
        self._offset_s: float | None = None
        self._looked_at = 0.0
        self._wake = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._unsubscribe: Callable[[], None] | None = None

    async def start(self) -> None:
        """Begin; returns at once, whether the broker is there or not."""
        self._loop = asyncio.get_running_loop()
        self._unsubscribe = self._projection.subscribe(self._committed)
        self._task = asyncio.create_task(self._run(), name="ends of holds")

    async def stop(self) -> None:
        """Stop; what is being appended may or may not be. Twice is fine."""
        if self._unsubscribe is not None:
            self._unsubscribe()
        if self._task is not None:
            await end(self._task)

    async def _run(self) -> None:
        while True:
            try:
                pause_s = await self._round()
            except (NotAnsweredError, BrokerUnavailableError, nats.errors.Error) as err:
                self.counts["failed"] += 1
                log.info("holds cannot end now", extra={"why": str(err), "waiting": len(self._ends)})
                pause_s = AGAIN_S
            except Exception:
                # The outermost place of this task. Whatever it is, it is a mistake of ours: it is said, and
                # tried again with everything read anew.
                log.exception("holds were not ended", extra={"waiting": len(self._ends)})
                self.counts["failed"] += 1
                self._is_scan_due, pause_s = True, AGAIN_S
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), pause_s)
            self._wake.clear()
            await asyncio.sleep(ROUND_S)

    async def _round(self) -> float:
        """Take over what was committed, and end what is due; return for how long nothing is, in seconds."""
        await asyncio.to_thread(self._take)
        if not self._ends:
            return LOOK_EVERY_S
        now_s = await self._now_s()
        now = datetime.fromtimestamp(now_s, UTC)
        for node_id in [node_id for node_id, at in self._ends.items() if at <= now]:
            await self._end(node_id, now)
        left_s = min((at.timestamp() - now_s for at in self._ends.values()), default=LOOK_EVERY_S)
        return min(max(left_s, 0.0), LOOK_EVERY_S)

    async def _now_s(self) -> float:
        """Return the broker's time in seconds since 1970; it is asked where somebody's time has come."""
        soonest_s = min(self._ends.values()).timestamp()
        at = time.monotonic()
        is_old = at - self._looked_at > LOOK_EVERY_S
        if self._offset_s is None or is_old or soonest_s <= at + self._offset_s:
            seen = await look(self._nc)
            self._looked_at, self._offset_s = seen.answered, seen.broker_at - seen.answered
        return time.monotonic() + self._offset_s

    async def _end(self, node_id: NodeId, now: datetime) -> None:
        """Release what has ended of one node; a commit tells what became of it."""
        state = self._projection.node(node_id)
        found = [] if state is None else ended(state, now=now)
        if state is not None and found:
            events = [
                new_event(one.fact, about=node_id, source=SOURCE, event_id=one.event_id, time=now)
                for one in found
            ]
            try:
                await append_all(self._nc, events, expect={node_id: state.version})
                self.counts["ended"] += len(found)
            except ConflictError:
                self.counts["lost_races"] += 1
            except (RefusedError, OversizedError) as err:
                self.counts["failed"] += 1
                log.warning("a hold does not end", extra={"node": node_id, "why": str(err)})
        self._ends.pop(node_id, None)

    def _take(self) -> None:
        """Read when the holds end of the nodes that changed, or of all. Called in a thread."""
        projection, now = self._projection, time.monotonic()
        if projection.openings != self._openings:
            self._openings, self._is_scan_due = projection.openings, True
        if self._is_scan_due or now - self._scanned_at > LOOK_EVERY_S:
            self._is_scan_due, self._scanned_at = False, now
            self._touched.clear()
            self._ends = self._scanned()
            return
        while self._touched:
            node_id = self._touched.pop()
            state = projection.node(node_id)
            at = None if state is None else next_end(state)
            if at is None:
                self._ends.pop(node_id, None)
            else:
                self._ends[node_id] = at

    def _scanned(self) -> dict[NodeId, datetime]:
        found: dict[NodeId, datetime] = {}
        for kind in KINDS:
            held, after = NodeFilter(intent=kind.word, include_retired=True), ""
            while states := self._projection.nodes(held, after=after, limit=PAGE):
                after = states[-1].node_id
                found |= {state.node_id: at for state in states if (at := next_end(state)) is not None}
        return found

    def _committed(self, applied: Applied) -> None:
        """Called by the writer thread after each commit."""
        if applied.stream != FLEET_NAME:
            return
        if applied.pending:
            self._is_scan_due = True  # far behind, most of what is read is past: all is read at its end
            return
        self._touched.update(applied.nodes)
        if self._loop is not None:
            call_soon(self._loop, self._wake.set)
