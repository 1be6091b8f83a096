"""Verdicts on their way into the log, each under the version that was judged (floor 3).

A verdict is appended only if its node is still as it was judged. So several evaluators, or one that is told
"no answer" and judges again, never say a thing twice: the second is refused and reads what the first said.
"""

from __future__ import annotations

import logging
from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from consumers.last_beats import LastBeats
from consumers.stream_api import NotAnsweredError
from consumers.verdict_events import VerdictEvents
from events.append import MAX_BATCH, append, append_all
from events.errors import BrokerUnavailableError, ConflictError, FleetfoldError, RefusedError
from projections.judging import Due

if TYPE_CHECKING:
    from nats.aio.client import Client

    from consumers.picture import Picture
    from events.log import Int64s
    from projections.projection import Projection
    from projections.zones import ZoneFinding

log = logging.getLogger(__name__)

SMALLEST_BATCH = 10
# After conflicts, a batch shrinks to so many: one node that others write about all the time must not keep
# hundreds from their verdict.

IN_FLIGHT = 2**62
# A position that is never reached.


class Verdicts:
    """Writes and appends the verdicts of one evaluator. `counts` says what became of them."""

    def __init__(self, projection: Projection) -> None:
        self.counts: Counter[str] = Counter()
        self.failure = ""
        """Why the log did not take the last verdicts; "" where it did."""
        self._projection = projection
        self._events = VerdictEvents(projection)
        self._at_once = MAX_BATCH
        self._last_beats = LastBeats()

    async def open(self, nc: Client) -> None:
        """Ask the broker over another connection from now on."""
        await self._last_beats.open(nc)

    async def close(self) -> None:
        """Listen for answers no more."""
        await self._last_beats.close()

    async def append(
        self, nc: Client, picture: Picture, alive: Int64s, due: Due, *, now: float, folded: int
    ) -> bool:
        """Append as many verdicts as fit in a batch; say whether the log took them.

        Until that is known, nobody in it is judged again. `folded` is the position in BEATS that `due` is of.
        """
        alive = alive[: self._at_once]
        due = due.only(np.arange(min(len(due.numbers), self._at_once - len(alive))))
        numbers, waits_for = np.concatenate([alive, due.numbers]), picture.roster.waits_for
        waits_for[numbers] = IN_FLIGHT
        try:
            due = await self._silent_still(picture, due, folded=folded)
            return await self._append(nc, picture, alive, due, now=now)
        except (BrokerUnavailableError, NotAnsweredError, RefusedError) as err:
            # Whether they are stored shows when the log is read; if not, they are judged anew.
            return self._failed(err)
        finally:
            waits_for[numbers] = np.where(waits_for[numbers] == IN_FLIGHT, 0, waits_for[numbers])

    async def _silent_still(self, picture: Picture, due: Due, *, folded: int) -> Due:
        """Return those of whom the broker holds no heartbeat after a position in BEATS.

        Folding is behind by tenths of a second, by more while many are lost at once: whoever spoke in that
        time is not lost, and whoever did not need not wait for it.
        """
        if not len(due.numbers):
            return due
        known = picture.roster.beat_seq[due.numbers]
        node_ids = self._projection.node_ids(due.numbers, openings=picture.openings)
        last = await self._last_beats.seqs(node_ids)
        return due.only((last <= folded) & (picture.roster.beat_seq[due.numbers] == known))

    async def _append(self, nc: Client, picture: Picture, alive: Int64s, due: Due, *, now: float) -> bool:
        numbers, roster = np.concatenate([alive, due.numbers]), picture.roster
        if not len(numbers):
            return True
        events = [*self._events.alive(picture, alive, now=now), *self._events.lost(picture, due, now=now)]
        expect: dict[str, int] = {
            event.about: version
            for event, version in zip(events, roster.version[numbers].tolist(), strict=True)
        }
        try:
            roster.waits_for[numbers] = await append_all(nc, events, expect=expect)
        except ConflictError as err:
            self.counts["conflicts"] += 1
            self._at_once = max(SMALLEST_BATCH, self._at_once // 4)
            roster.waits_for[numbers] = self._seen_by(picture, numbers, err)
            return False
        self._at_once, self.failure = min(MAX_BATCH, self._at_once * 2), ""
        roster.again_at[numbers] = now + roster.grace_s[numbers]
        self.counts["alive"] += len(alive)
        self.counts["lost"] += len(due.numbers)
        return True

    async def append_zone(
        self, nc: Client, picture: Picture, found: ZoneFinding, *, is_silent: bool, now: float
    ) -> bool:
        """Append that a zone went silent, or speaks again; say whether the log took it."""
        book, version = picture.book, picture.book.version(found.zone)
        about = self._events.silent if is_silent else self._events.recovered
        event = about(picture, found, now=now)
        book.waits_for[found.zone] = IN_FLIGHT
        waits_for = 0
        try:
            waits_for = await append(nc, event, expect=max(version, book.unread.get(found.zone, 0)))
        except ConflictError as err:
            self.counts["conflicts"] += 1
            waits_for = book.unread[found.zone] = err.found or 0
            return False
        except (BrokerUnavailableError, RefusedError) as err:
            return self._failed(err)
        finally:
            book.waits_for[found.zone] = waits_for
        self.failure = ""
        self.counts["zone_silent" if is_silent else "zone_recovered"] += 1
        return True

    def _failed(self, err: FleetfoldError) -> bool:
        if str(err) != self.failure:
            log.warning("verdicts are not stored", extra={"why": str(err), "code": err.code})
        self.failure = str(err)
        return False

    def _seen_by(self, picture: Picture, numbers: Int64s, err: ConflictError) -> int:
        """Return which position in FLEET shows what was in the way of a batch."""
        found = err.found or 0
        if found <= picture.folded:
            # It is read already and changed nothing that we know: a record that can't be read, about a node
            # of which nothing else is known. It counts for the broker all the same.
            node_ids = self._projection.node_ids(numbers, openings=picture.openings)
            for number, node_id in zip(numbers.tolist(), node_ids, strict=True):
                if node_id == err.about:
                    picture.roster.version[number] = max(int(picture.roster.version[number]), found)
        return found
