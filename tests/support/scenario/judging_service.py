"""The service of a simulated world: the projection over its file, the evaluator without thread and broker.

All that decides is the product's own: fold, roster, watch, rounds, and the verdicts as they are written. What
stands in for the rest is here: a look is a value, and an append happens at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from consumers.picture import Picture
from consumers.questions import GONE, IN_TURN, OTHER_BOOT, OTHER_INVENTORY, UNKNOWN
from consumers.retention import SOURCE
from consumers.verdict_events import VerdictEvents
from events.asks import Ask
from events.codec import encode_fact
from events.envelope import FactEvent, new_event
from events.ids import NodeId
from events.log import Cursor, Int64s
from events.streams import BEATS_NAME, FLEET_NAME
from events.subjects import beat_subject, fact_subject, zone_subject
from projections import asking
from projections.directory import NodeFilter
from projections.judging import Due
from projections.projection import Projection
from projections.retention import overdue
from projections.rounds import next_round
from projections.silence import LivenessRules
from projections.watch import Look
from tests.support.scenario.clocks import Clocks
from tests.support.scenario.stored_log import BrokerDownError, StaleError, StoredLog

if TYPE_CHECKING:
    from api.service import StreamReading
    from tests.support.asgi import Got

ROUNDS = 64

Asked = Callable[[NodeId, Ask], None]


class JudgingService:
    """One core process over a file. `is_folding` False is one whose folding stands still."""

    def __init__(
        self, path: Path, log: StoredLog, clocks: Clocks, *, rules: LivenessRules, asked: Asked
    ) -> None:
        self.path, self.rules = path, rules
        self.is_running, self.is_folding = False, True
        self.stands_still = False
        """The whole evaluator, as on a machine that is starved."""
        self.conflicts = 0
        self.retire_after: timedelta | None = None
        self._log, self._clocks, self._asked = log, clocks, asked
        self._was_away, self._look_due = True, 0.0

    def start(self) -> None:
        """Open the file and begin to watch, as a new process does."""
        self.projection = Projection.open(self.path)
        self.picture = Picture(self.projection, self.rules)
        self.events = VerdictEvents(self.projection)
        self._was_away, self.is_running = True, True

    def stop(self) -> None:
        """End the process. All it knew is what it committed, however it ends."""
        if self.is_running:
            self.picture.close()
            self.projection.close()
            self.is_running = False

    def step(self) -> None:
        """Look, fold and judge at the present moment."""
        if not self.is_running:
            return
        if self.stands_still:
            return
        self._look()
        if self.is_folding:
            self.fold()
        if self.picture.watch.last_look is not None:
            now = self._clocks.steady
            self.picture.refresh(now)
            self._ask(now)
            self._judge(now)
            self._retire()

    def fold(self) -> None:
        """Fold all that is stored."""
        for stream in (FLEET_NAME, BEATS_NAME):
            while batch := self._log.after(stream, self.projection.cursors().get(stream, Cursor())):
                self.projection.apply(batch)

    def mode(self) -> tuple[str, str]:
        """`watching`, `waiting` or `degraded`, and why."""
        return self.picture.watch.mode(self._clocks.steady)

    def get(self, target: str) -> Got:
        """Ask the API, below `/fleet/v1`."""
        from api.app import create_app  # half a second, and few worlds are asked
        from api.service import Service
        from tests.support.asgi import ask

        now = self._clocks.steady
        service = Service(
            projection=self.projection,
            readings=self._readings,
            version="0.1.0",
            nats_url="nats://127.0.0.1:4222",
            liveness_mode=lambda: self.mode()[0],
            outlook=lambda node: self.picture.outlook(node, now=now),
        )
        app = create_app(service)
        try:
            return asyncio.run(ask(app, f"/fleet/v1{target}"))
        finally:
            app.state.answers.close()

    def changes(self) -> list[tuple[str, str]]:
        """Every announcement that is due or was told, in order: node, and `<kind>.<detail>`."""
        with self.projection.cursor() as cursor:
            rows = cursor.execute(
                "SELECT node_id, kind || '.' || detail FROM fleet.changes ORDER BY cause_seq, seq"
            ).fetchall()
        return [(str(node), str(what)) for node, what in rows]

    def _readings(self) -> dict[str, StreamReading]:
        from api.service import StreamReading

        found = {}
        for name in (FLEET_NAME, BEATS_NAME):
            epoch, head = self._log.head(name)
            folded = self.projection.cursors().get(name, Cursor()).seq
            lag_ms = 0.0 if folded == head else 1000.0 * (self._clocks.steady - self._stored_at(name, folded))
            found[name] = StreamReading(
                name, epoch=epoch, head=head, head_at_start=0, pending=head - folded, lag_ms=lag_ms,
                generations=1, state="reading",
            )  # fmt: skip
        return found

    def _stored_at(self, stream: str, folded: int) -> float:
        return self._log.streams[stream].stored_at_ns[folded] / 1e9 - self._clocks.broker_s(0.0)

    def _look(self) -> None:
        now = self._clocks.steady
        if not self._log.is_up:
            self._was_away, self._look_due = True, now
            return
        seen = Look(
            asked=now,
            answered=now,
            broker_at=self._clocks.broker_s(now),
            wall_at=self._clocks.service_s(now),
            beats=self._log.head(BEATS_NAME),
            fleet=self._log.head(FLEET_NAME),
        )
        self.picture.watch.looked(seen, due=self._look_due, was_interrupted=self._was_away)
        self._was_away = False

    def due_by(self, at: float) -> None:
        """Say when the next look is due: a world that takes larger steps looks more seldom."""
        if not self.stands_still:
            self._look_due = at

    def _ask(self, now: float) -> None:
        picture = self.picture
        picture.read_digests()
        found = asking.to_ask(picture.roster, now=now, facts_known_until=picture.watch.facts_known_until)
        for numbers, question in (
            (found.unknown, UNKNOWN),
            (found.other_boot, OTHER_BOOT),
            (found.other_inventory, OTHER_INVENTORY),
            (found.in_turn, IN_TURN),
            (found.gone, GONE),
        ):
            for node in self._node_ids(numbers):
                self._asked(node, question)

    def _judge(self, now: float) -> None:
        picture = self.picture
        for _ in range(ROUNDS):
            said = next_round(picture.roster, picture.watch, picture.book, now=now, folded=picture.folded)
            if said.recovered is not None:
                self._append([self.events.recovered(picture, said.recovered, now=now)])
            elif said.silent is not None:
                picture.book.begin_hold(said.silent.zone, now=now)
                if not self._append([self.events.silent(picture, said.silent, now=now)]):
                    picture.book.end_hold(said.silent.zone)
            else:
                numbers, events = self._verdicts(said.alive, said.due, now=now)
                if not events or not self._append(events):
                    return
                picture.roster.again_at[numbers] = now + picture.roster.grace_s[numbers]
            if not self.is_folding:
                return
            self.fold()
            picture.refresh(now)
        raise AssertionError("the rounds of one moment do not end")

    def _retire(self) -> None:
        if self.retire_after is None or self.mode()[0] != "watching":
            return
        for state in self.projection.nodes(NodeFilter(liveness="lost"), limit=1_000):
            found = overdue(state, now=self._clocks.broker_now, after=self.retire_after)
            if found is not None:
                about, at_s = state.node_id, self._clocks.broker_s(self._clocks.steady)
                event = new_event(
                    found.fact, about=about, source=SOURCE, event_id=found.event_id,
                    time=self._clocks.broker_now,
                )  # fmt: skip
                subject = fact_subject("operator", about, "retired")
                self._log.append_fact(subject, encode_fact(event), at_s=at_s, expect=state.version)

    def _verdicts(self, alive: Int64s, due: Due, *, now: float) -> tuple[Int64s, list[FactEvent]]:
        picture = self.picture
        last = [self._log.last_beat(beat_subject(node).encode()) for node in self._node_ids(due.numbers)]
        due = due.only(np.array(last, np.int64) <= picture.beats.seq)
        events = [*self.events.alive(picture, alive, now=now), *self.events.lost(picture, due, now=now)]
        return np.concatenate([alive, due.numbers]), events

    def _append(self, events: list[FactEvent]) -> bool:
        roster, book = self.picture.roster, self.picture.book
        for event in events:
            about, at_s = event.about, self._clocks.broker_s(self._clocks.steady)
            is_zone = event.kind.owner == "zone"
            subject = (
                zone_subject(about, event.kind.verb) if is_zone
                else fact_subject(event.kind.owner, NodeId(about), event.kind.verb)
            )  # fmt: skip
            number = None if is_zone else self.projection.number(NodeId(about))
            version = book.version(about) if number is None else int(roster.version[number])
            try:
                seq = self._log.append_fact(subject, encode_fact(event), at_s=at_s, expect=version)
            except StaleError as err:
                self.conflicts += 1
                seq = err.found
            except BrokerDownError:
                return False
            if number is None:
                book.waits_for[about] = seq
            else:
                roster.waits_for[number] = seq
        return True

    def _node_ids(self, numbers: Int64s) -> list[NodeId]:
        return self.projection.node_ids(numbers, openings=self.picture.openings)
