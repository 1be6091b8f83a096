"""The fleet as the evaluator sees it, brought up to date from the projection (floor 3).

Nothing is handed over: what is committed is read, from memory (heartbeats and the last facts) and from the
tables (facts), so nothing can be missed and a restart needs nothing of its own. Called by the evaluator's
thread only, but for `outlook`, and the mode and the times of its watch.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from events.ids import NodeId
from events.log import Cursor, Int64s
from events.streams import BEATS_NAME, FLEET_NAME
from projections import asking, judging
from projections.judging import Outlook
from projections.roster import BeatRows, Roster, Word
from projections.roster_news import Changes
from projections.roster_tables import changes, digests_at, everything
from projections.silence import LivenessRules, is_late
from projections.watch import Watch
from projections.zones import ZoneBook, members_of

if TYPE_CHECKING:
    import duckdb

    from projections.projection import Projection

FORGET_EVERY_S = 1.0
DIGESTS_AT_ONCE = 500
# Ten milliseconds of computing.


class Picture:
    """Roster, zones and watch over one opening of the tables. `close` gives the reading connection back."""

    def __init__(self, projection: Projection, rules: LivenessRules) -> None:
        self._projection = projection
        self.openings = projection.openings
        self.roster, self.book = Roster(rules), ZoneBook(hold_s=rules.zone_hold_s)
        marks = [cursor.stored_at_ns for cursor in projection.cursors().values()]
        mark_s = max(marks, default=0) / 1e9
        self.watch = Watch(shortest=rules.shortest, mark_s=mark_s or None)
        self.heard_us: Int64s = np.zeros(0, np.int64)
        self.folded = 0
        """The position in FLEET of which everything is taken over."""
        self.beats = Cursor()
        """The same in BEATS."""
        self._cursor: duckdb.DuckDBPyConnection | None = None
        self._forget_at = -math.inf

    @property
    def is_outdated(self) -> bool:
        """Whether the tables are others by now, in which nodes have other numbers."""
        return self._projection.openings != self.openings

    def close(self) -> None:
        """Close the reading connection; twice is fine."""
        cursor, self._cursor = self._cursor, None
        if cursor is not None:
            cursor.close()

    def refresh(self, now: float) -> None:
        """Take over what was committed since; there must have been a look. Raises StoreError."""
        cursors = self._projection.cursors()
        fleet = cursors.get(FLEET_NAME, Cursor())
        if cursors.get(BEATS_NAME, Cursor()) != self.beats:
            self._take_beats(now)
        if fleet.seq > self.folded:
            self._take_facts(self._said(until=fleet.seq), now)
            self.folded = fleet.seq
        self.watch.reached(beats=self.beats, fleet=fleet, now=now)
        if now >= self._forget_at:
            self._forget_at = now + FORGET_EVERY_S
            self.watch.forget(beats=self.beats, fleet=fleet, oldest=judging.oldest_sign(self.roster))

    def read_digests(self) -> None:
        """Compute the digests of registrations that heartbeats have to be compared with, some at a time."""
        numbers = asking.unread_digests(self.roster, most=DIGESTS_AT_ONCE)
        if not len(numbers):
            return
        seqs = self.roster.registered_at_seq[numbers].tolist()
        found = digests_at(self._connection(), seqs, path=self._projection.path)
        node_ids = self._projection.node_ids(numbers, openings=self.openings)
        for number, node_id in zip(numbers.tolist(), node_ids, strict=True):
            # One that cannot be computed agrees with everything: asking again would not change that.
            self.roster.registered_at_seq[number] = 0
            if node_id in found:
                self.roster.registered(number, found[node_id], seq=0)

    def outlook(self, node_id: NodeId, *, now: float) -> Outlook | None:
        """Return what is to be expected of a node, None for one that is not known here yet."""
        number = self._projection.number(node_id)
        if number is None or number >= self.roster.count or self.is_outdated:
            return None
        return judging.outlook(self.roster, self.watch, self.book, number, now=now)

    def _connection(self) -> duckdb.DuckDBPyConnection:
        if self._cursor is None:
            self._cursor = self._projection.cursor()
        return self._cursor

    def _said(self, *, until: int) -> Changes:
        if self.folded == 0:
            return everything(self._connection(), path=self._projection.path)
        projection = self._projection
        news = projection.news.since(self.folded, until=until, number_of=projection.number)
        if news is not None and not self.is_outdated:
            return news
        return changes(self._connection(), after=self.folded, path=projection.path)

    def _take_beats(self, now: float) -> None:
        contacts, roster = self._projection.contacts(), self.roster
        roster.hold(len(contacts.beat_seqs))
        numbers = np.flatnonzero(contacts.beat_seqs != roster.beat_seq[: len(contacts.beat_seqs)])
        seqs, heard_us = contacts.beat_seqs[numbers], contacts.heard_us[numbers]
        boots, digests = self._projection.beat_texts(numbers, openings=self.openings)
        spoke = self.watch.beats.dated(seqs, heard_us / 1e6, now=now)
        roster.take_beats(BeatRows(numbers, seqs, spoke, boots, digests))
        roster.take_other_boots(contacts.other_boot)
        self.heard_us, self.beats = contacts.heard_us, contacts.cursor

    def _take_facts(self, said: Changes, now: float) -> None:
        nodes, roster = said.nodes, self.roster
        if self.folded == 0:
            since = np.minimum(self.watch.steady_times(nodes.since_us / 1e6), now)
        else:
            since = np.full(len(nodes.numbers), now)
        roster.take_nodes(nodes, since=since)
        for node_id, beat_seq in said.lost.items():
            number = self._projection.number(node_id)
            if number is not None:
                roster.knew(number, beat_seq)
        for node_id, (seq, digest) in said.registrations.items():
            number = self._projection.number(node_id)
            if number is not None:
                roster.registered(number, digest, seq=seq)
        if said.zones:
            self._take_zones(said, now)

    def _take_zones(self, said: Changes, now: float) -> None:
        were_silent = set(self.book.silent)
        self.book.take(said.zones, now=now, broker_now_s=self.watch.broker_time(now))
        for zone in were_silent.difference(self.book.silent):
            # Most of a zone speaks again: the rest is on its way too, and gets a grace of its own.
            here = members_of(self.roster, zone)
            here = here[self.roster.word[here] == Word.ALIVE]
            late = is_late(
                self.roster.heard[here],
                until=now,
                interval_s=self.roster.interval_s[here],
                gaps=self.watch.gaps,
            )
            self.roster.since[here[late]] = now
