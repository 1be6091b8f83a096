"""The liveness evaluator: verdicts on silence, and on its end, appended as facts (floor 3).

It runs beside the projector, in a thread with a loop and a connection of its own, and reads what the
projector committed. It looks at the broker now and then, and often while somebody is about to be lost; the
rest of the time it sleeps until something is committed. What may be said when, `projections.silence` and
`projections.watch` decide.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import nats.errors

from consumers.judge import Judge
from consumers.looks import look
from consumers.loop_thread import LoopThread
from consumers.picture import Picture
from consumers.stream_api import NotAnsweredError
from events.errors import BrokerUnavailableError, StoreError
from events.ids import NodeId
from projections import judging
from projections.judging import Outlook
from projections.silence import LivenessRules

if TYPE_CHECKING:
    from nats.aio.client import Client

    from consumers.following import Connect
    from projections.applied import Applied
    from projections.projection import Projection

log = logging.getLogger(__name__)

ROUND_S = (0.02, 0.2)
ROUND_TIMES = 3
# Commits come up to a hundred times a second. Between two rounds lie 20 ms, and three times the processor
# time of a round, up to 0.2 s: below what counts as late, and a fraction of a core however large the fleet.
WAITING_ROUND_S, WAITING_TIMES = 1.0, 10
# While a log is caught up with, nobody is judged: then the writer needs the processor more than the picture.
AGAIN_S = 0.25
# After a look that was not answered, and after tables that were closed.
OFF = "off"


@dataclass(frozen=True, slots=True)
class EvaluatorStatus:
    """How the evaluator is: its mode with a reason, and how often it said what since it began."""

    mode: str
    reason: str
    counts: Mapping[str, int]


class Evaluator:
    """Judges between `start` and `stop`. All but these two may be called from any thread."""

    def __init__(self, projection: Projection, connect: Connect, rules: LivenessRules) -> None:
        self._projection, self._connect, self._rules = projection, connect, rules
        # Made before anything is read, so that it knows up to when the process before this one had read.
        self._picture = Picture(projection, rules)
        self._judge = Judge(projection, appended=self._wake_up)
        self._idle_s, self._busy_s = pauses_s(rules)
        self._thread = LoopThread("evaluator", self._main, ended=self._ended, failed=self._failed)
        self._wake: asyncio.Event | None = None
        self._unsubscribe: Callable[[], None] = lambda: None
        self._look_at = 0.0
        self._was_away = True
        self._reconnects = 0
        self._failure = ""

    async def start(self) -> None:
        """Begin to watch; returns at once, whether the broker is there or not."""
        self._thread.start()

    async def stop(self) -> None:
        """Stop watching; what is being appended may or may not be. Twice is fine."""
        await self._thread.stop()

    def mode(self) -> str:
        """Return `watching`, `waiting`, `degraded` or `off`."""
        return self.status().mode

    def status(self) -> EvaluatorStatus:
        """Return how it is now; costs microseconds."""
        counts = self._judge.counts
        if self._failure or self._judge.failure:
            return EvaluatorStatus("degraded", self._failure or self._judge.failure, counts)
        if not self._thread.is_alive():
            return EvaluatorStatus(OFF, "the evaluator does not run", counts)
        mode, reason = self._picture.watch.mode(time.monotonic())
        return EvaluatorStatus(mode, reason, counts)

    def outlook(self, node_id: NodeId) -> Outlook | None:
        """Return what is to be expected of a node, None for one of which nothing is known here."""
        return self._picture.outlook(node_id, now=time.monotonic())

    def _failed(self, err: Exception) -> None:
        """Say so: nobody is called lost any more."""
        log.error("the evaluator stopped", exc_info=err, extra={"folded": self._picture.folded})
        self._failure = f"internal error: {type(err).__name__}"

    async def _main(self) -> None:
        self._wake = asyncio.Event()
        self._unsubscribe = self._projection.subscribe(self._committed)
        await self._work()

    async def _ended(self) -> None:
        self._unsubscribe()
        self._picture.close()

    async def _work(self) -> None:
        while True:
            nc = await self._connection()
            self._was_away = True
            try:
                await self._watch(nc)
            except nats.errors.Error as err:
                # Closed, or lost with more questions on their way than it keeps: the next one goes on.
                log.warning("the evaluator's connection failed", extra={"why": str(err)})
                await asyncio.sleep(AGAIN_S)
            finally:
                await self._judge.end()
                await nc.close()

    async def _connection(self) -> Client:
        while True:
            try:
                return await self._connect()
            except (nats.errors.Error, OSError, TimeoutError, BrokerUnavailableError) as err:
                log.warning("the evaluator has no connection", extra={"why": str(err)})
                await asyncio.sleep(AGAIN_S)

    async def _watch(self, nc: Client) -> None:
        """Look and judge until the connection is closed for good."""
        await self._judge.begin(nc, self._picture)
        while not nc.is_closed:
            worked_s = time.thread_time()
            try:
                if time.monotonic() >= self._look_at:
                    await self._look(nc)
                if self._picture.watch.last_look is not None:
                    now = time.monotonic()
                    self._picture.refresh(now)
                    if not self._picture.is_outdated:
                        await self._judge.round(nc, self._picture, now=now)
            except StoreError as err:
                log.info("the tables were closed", extra={"why": err.why})
                await asyncio.sleep(AGAIN_S)
                await self._begin_again(nc)
            if self._picture.is_outdated:
                await self._begin_again(nc)
            await self._sleep(time.thread_time() - worked_s)

    async def _begin_again(self, nc: Client) -> None:
        """Take the whole fleet over anew: other tables have other numbers, and are folded from the log."""
        self._picture.close()
        self._picture = Picture(self._projection, self._rules)
        await self._judge.begin(nc, self._picture)

    async def _look(self, nc: Client) -> None:
        watch, due = self._picture.watch, self._look_at
        try:
            seen = await look(nc)
        except NotAnsweredError:
            self._was_away = True
            self._look_at = time.monotonic() + self._idle_s
            return
        reconnects = int(nc.stats["reconnects"])
        was_away = self._was_away or reconnects != self._reconnects
        self._was_away, self._reconnects = False, reconnects
        watch.looked(seen, due=due, was_interrupted=was_away)
        deadline = judging.next_deadline(self._picture.roster)
        is_busy = watch.watching_since == math.inf or deadline < seen.answered + 2 * self._idle_s
        self._look_at = seen.answered + (self._busy_s if is_busy else self._idle_s)

    async def _sleep(self, worked_s: float) -> None:
        """Sleep until the next look, or until something was committed or appended; a while in any case."""
        assert self._wake is not None, "made with the loop"
        shortest_s, longest_s = ROUND_S
        times = ROUND_TIMES
        if self.mode() == "waiting":
            longest_s, times = WAITING_ROUND_S, WAITING_TIMES
        await asyncio.sleep(min(max(times * worked_s, shortest_s), longest_s))
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._wake.wait(), max(self._look_at - time.monotonic(), 0))
        self._wake.clear()

    def _committed(self, _applied: Applied) -> None:
        """Called by the writer thread after each commit."""
        self._wake_up()

    def _wake_up(self) -> None:
        self._thread.call_soon_set(self._wake)


def pauses_s(rules: LivenessRules) -> tuple[float, float]:
    """Return how long the broker is not looked at while nobody is about to be lost, and while somebody is.

    A verdict is late by one busy pause and by the fold of what was stored before it: a twentieth of a second
    is small beside that, and four requests a second while all is well cost next to nothing.
    """
    interval_s = rules.shortest.interval_s
    return min(0.5, interval_s / 4), min(0.05, interval_s / 8)
