"""What verdicts say: each with its evidence and its rule in words (floor 3). Knows no broker.

The times in it are the broker's, by its clock as it is when the verdict is made.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import TYPE_CHECKING
from uuid import uuid4

from events.envelope import FactEvent, new_event
from events.facts import Alive, Lost, ZoneRecovered, ZoneSilent
from events.ids import NodeId, Zone
from events.moments import from_us
from projections.roster import Word

if TYPE_CHECKING:
    from consumers.picture import Picture
    from events.log import Int64s
    from projections.judging import Due
    from projections.projection import Projection
    from projections.zones import ZoneFinding

SOURCE = "/liveness"

_ALIVE_RULES = {
    Word.NOBODY: "it was heard before it registered",
    Word.PENDING: "its first heartbeat of this boot was received",
    Word.LOST: "it was heard again after it was lost",
}


class VerdictEvents:
    """Writes the verdicts of one evaluator, whose ids no other evaluator gives."""

    def __init__(self, projection: Projection) -> None:
        self._projection = projection
        self._run, self._nth = uuid4().hex[:12], count(1)

    def alive(self, picture: Picture, numbers: Int64s, *, now: float) -> Iterator[FactEvent]:
        """Yield that each of these nodes is alive, in their order."""
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

    def lost(self, picture: Picture, due: Due, *, now: float) -> Iterator[FactEvent]:
        """Yield that each of these nodes is lost, in their order."""
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

    def silent(self, picture: Picture, found: ZoneFinding, *, now: float) -> FactEvent:
        """Return that a zone fell silent, by which rule, and until when its nodes' verdicts are held."""
        rules = picture.roster.rules
        held_until_s = picture.watch.broker_time(now + rules.zone_hold_s)
        said = ZoneSilent(
            count=found.count,
            members=found.members,
            rule=(
                f"{found.count} of {found.members} nodes that were alive missed a beat together: from "
                f"{rules.zone_min} nodes and a share of {rules.zone_share:g} on a zone is silent, and single "
                f"verdicts are held for {rules.zone_hold_s:g} s"
            ),
            held_until=from_us(int(held_until_s * 1_000_000)),
        )
        return self._event(said, Zone(found.zone), picture.watch.broker_time(now))

    def recovered(self, picture: Picture, found: ZoneFinding, *, now: float) -> FactEvent:
        """Return that a zone speaks again."""
        said = ZoneRecovered(
            count=found.count,
            members=found.members,
            rule="at least half of the nodes that went silent together speak again",
        )
        return self._event(said, Zone(found.zone), picture.watch.broker_time(now))

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


def _lost_rule(silent_s: float, grace_s: float, passed_s: float, *, has_beat: bool) -> str:
    said = "silent since its last heartbeat" if has_beat else "registered and never heard"
    unwatched_s = passed_s - silent_s
    told = f"{said} for {silent_s:.1f} s that were watched, allowed are {grace_s:g} s"
    return f"{told}; {unwatched_s:.1f} s more do not count" if unwatched_s >= 0.05 else told
