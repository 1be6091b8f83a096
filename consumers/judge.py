"""Round after round: who is asked, who is alive, who is lost, which zone is silent (floor 3).

Appends are on their way beside it, and are never waited for here: the watch goes on, and whoever is in one is
not judged again until it is known what became of it.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING

from consumers.ending import end
from consumers.questions import Questions
from consumers.verdicts import Verdicts
from events.errors import StoreError
from projections.rounds import next_round

if TYPE_CHECKING:
    from nats.aio.client import Client

    from consumers.picture import Picture
    from events.log import Int64s
    from projections.judging import Due
    from projections.projection import Projection
    from projections.zones import ZoneFinding

log = logging.getLogger(__name__)

AT_ONCE = 3
# While the broker stores one, the next is written; more would only queue in front of the broker.
AGAIN_S = 0.25
# After an append that the log did not take: what was in its way is read by then, or the broker is back.


class Judge:
    """What one evaluator says, over any number of connections and pictures."""

    def __init__(self, projection: Projection, *, appended: Callable[[], None]) -> None:
        self._verdicts, self._questions = Verdicts(projection), Questions(projection)
        self._appended = appended
        self._appending: set[asyncio.Task[None]] = set()
        self._again_at = -math.inf

    @property
    def counts(self) -> Counter[str]:
        """How often what was said since the evaluator began."""
        return self._verdicts.counts + self._questions.counts

    @property
    def failure(self) -> str:
        """Why the log did not take what was said last; "" where it did."""
        return self._verdicts.failure

    async def begin(self, nc: Client, picture: Picture) -> None:
        """Judge over another connection, or another picture, from now on."""
        await self.end()
        await self._questions.open(nc, picture)
        await self._verdicts.open(nc)

    async def end(self) -> None:
        """End what is on its way; whether it was stored, the log tells."""
        await end(*self._appending)
        self._appending.clear()
        await self._questions.close()
        await self._verdicts.close()

    async def round(self, nc: Client, picture: Picture, *, now: float) -> None:
        """Ask and judge, with the picture as it is now."""
        await self._questions.ask(picture, now=now)
        self._take_results()
        if len(self._appending) >= AT_ONCE or now < self._again_at:
            return
        said = next_round(picture.roster, picture.watch, picture.book, now=now, folded=picture.folded)
        if said.recovered is not None:
            found = said.recovered
            self._append(self._verdicts.append_zone(nc, picture, found, is_silent=False, now=now))
        elif said.silent is not None:
            picture.book.begin_hold(said.silent.zone, now=now)
            self._append(self._tell_silent(nc, picture, said.silent, now=now))
        else:
            due = said.due
            if picture.roster.rules.probe and len(due.numbers):
                due = await self._questions.probed(picture, due, now=now)
            self._judge(nc, picture, said.alive, due, now=now)

    def _judge(self, nc: Client, picture: Picture, alive: Int64s, due: Due, *, now: float) -> None:
        if len(alive) or len(due.numbers):
            folded = picture.beats.seq
            self._append(self._verdicts.append(nc, picture, alive, due, now=now, folded=folded))
        elif not self._appending:
            self._verdicts.failure = ""  # nothing is owed to the log any more

    async def _tell_silent(self, nc: Client, picture: Picture, found: ZoneFinding, *, now: float) -> bool:
        is_told = await self._verdicts.append_zone(nc, picture, found, is_silent=True, now=now)
        if not is_told:
            picture.book.end_hold(found.zone)
        return is_told

    def _take_results(self) -> None:
        """Raise what an append raised that nobody expected."""
        for task in [task for task in self._appending if task.done()]:
            self._appending.remove(task)
            task.result()

    def _append(self, work: Coroutine[None, None, bool]) -> None:
        async def run() -> None:
            try:
                is_taken = await work
            except StoreError as err:
                # Of tables that were begun anew meanwhile: so is the picture, in the next round.
                log.info("not judged", extra={"why": err.why})
                is_taken = False
            if not is_taken:
                self._again_at = time.monotonic() + AGAIN_S
            self._appended()

        self._appending.add(asyncio.create_task(run()))
