"""Verdicts on their way into the log: with evidence, and under the version that was judged (floor 3).

A verdict is appended only if its node is still as it was judged. So several evaluators, or one that is told
"no answer" and judges again, never say a thing twice: the second is refused and reads what the first said.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from itertools import count
from typing import TYPE_CHECKING
from uuid import uuid4

import numpy as np

from consumers.last_beats import LastBeats
from consumers.stream_api import NotAnsweredError
from events.append import MAX_BATCH, append, append_all
from events.envelope import FactEvent, new_event
from events.errors import BrokerUnavailableError, ConflictError, FleetfoldError, RefusedError
from events.facts import Alive, Lost, ZoneRecovered, ZoneSilent
from events.ids import NodeId, Zone
from events.moments import from_us
from projections.judging import Due
from projections.roster import Word

if TYPE_CHECKING:
    from nats.aio.client import Client

    from consumers.picture import Picture
    from events.log import Int64s
    from projections.projection import Projection
    from projections.zones import ZoneFinding

log = logging.getLogger(__name__)

SOURCE = "/liveness"
SMALLEST_BATCH = 10
# After conflicts, a batch shrinks to so many: one node that others write about all the time must not keep
# hundreds from their verdict.

IN_FLIGHT = 2**62
# A position that is never reached.

_ALIVE_RULES = {
    Word.NOBODY: "it was heard before it registered",
    Word.PENDING: "its first heartbeat of this boot was received",
    Word.LOST: "it was heard again after it was lost",
}


class Verdicts:
    """Writes and appends the verdicts of one evaluator. `counts` says what became of them."""

    def __init__(self, projection: Projection) -> None:
        self.counts: Counter[str] = Counter()
        self.failure = ""
        """Why the log did not take the last verdicts; "" where it did."""
        self._projection = projection
        self._run, self._nth = uuid4().hex[:12], count(1)
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
        events = [*self._alive(picture, alive, now=now), *self._lost(picture, due, now=now)]
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
        event = self._event(
            self._silent(picture, found, now=now) if is_silent else self._recovered(found),
            Zone(found.zone),
            picture.watch.broker_time(now),
        )
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

    def _alive(self, picture: Picture, numbers: Int64s, *, now: float) -> Iterator[FactEvent]:
        boots, _ = self._projection.beat_texts(numbers, openings=picture.openings)
        roster, at_s = picture.roster, picture.watch.broker_time(now)
        rows = zip(
            self._projection.node_ids(numbers, openings=picture.openings),
            boots,
            roster.word[numbers].tolist(),
            roster.beat_seq[numbers].tolist(),
            picture.heard_us[numbers].tolist(),
            strict=True,
        )
        for node_id, boot_id, word, beat_seq, heard_us in rows:
            said = Alive(
                boot_id=boot_id or "",
                last_heartbeat_at=from_us(heard_us),
                beat_seq=beat_seq,
                rule=_ALIVE_RULES[Word(word)],
            )
            yield self._event(said, node_id, at_s)

    def _lost(self, picture: Picture, due: Due, *, now: float) -> Iterator[FactEvent]:
        numbers = due.numbers
        boots, _ = self._projection.beat_texts(numbers, openings=picture.openings)
        roster, watch = picture.roster, picture.watch
        at_s = watch.broker_time(now)
        rows = zip(
            numbers.tolist(),
            self._projection.node_ids(numbers, openings=picture.openings),
            due.silent_s.tolist(),
            roster.grace_s[numbers].tolist(),
            (watch.until(now) - roster.heard[numbers]).tolist(),
            boots,
            strict=True,
        )
        for number, node_id, silent_s, grace_s, passed_s, beat_boot in rows:
            has_beat = bool(roster.beat_seq[number])
            boot_id = beat_boot if roster.boot[number] == roster.beat_boot[number] else None
            if boot_id is None and roster.boot[number]:
                state = self._projection.node(node_id)
                boot_id = state.boot_id if state is not None else None
            deadline_s = watch.broker_time(watch.until(now) - silent_s + grace_s)
            said = Lost(
                boot_id=boot_id or "",
                last_heartbeat_at=from_us(int(picture.heard_us[number])) if has_beat else None,
                beat_seq=int(roster.beat_seq[number]) if has_beat else None,
                rule=_lost_rule(silent_s, grace_s, passed_s, has_beat=has_beat),
                silent_s=round(silent_s, 3),
                grace_s=grace_s,
                deadline_at=from_us(int(deadline_s * 1_000_000)),
            )
            yield self._event(said, node_id, at_s)

    def _silent(self, picture: Picture, found: ZoneFinding, *, now: float) -> ZoneSilent:
        rules = picture.roster.rules
        held_until_s = picture.watch.broker_time(now + rules.zone_hold_s)
        return ZoneSilent(
            count=found.count,
            members=found.members,
            rule=(
                f"{found.count} of {found.members} nodes that were alive missed a beat together: from "
                f"{rules.zone_min} nodes and a share of {rules.zone_share:g} on a zone is silent, and single "
                f"verdicts are held for {rules.zone_hold_s:g} s"
            ),
            held_until=from_us(int(held_until_s * 1_000_000)),
        )

    def _recovered(self, found: ZoneFinding) -> ZoneRecovered:
        return ZoneRecovered(
            count=found.count,
            members=found.members,
            rule="at least half of the nodes that went silent together speak again",
        )

    def _event(
        self, said: Alive | Lost | ZoneSilent | ZoneRecovered, about: NodeId | Zone, at_s: float
    ) -> FactEvent:
        return new_event(
            said,
            about=about,
            source=SOURCE,
            event_id=f"liveness/{self._run}/{next(self._nth)}",
            time=from_us(int(at_s * 1_000_000)),
        )

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


def _lost_rule(silent_s: float, grace_s: float, passed_s: float, *, has_beat: bool) -> str:
    said = "silent since its last heartbeat" if has_beat else "registered and never heard"
    unwatched_s = passed_s - silent_s
    told = f"{said} for {silent_s:.1f} s that were watched, allowed are {grace_s:g} s"
    return f"{told}; {unwatched_s:.1f} s more do not count" if unwatched_s >= 0.05 else told
