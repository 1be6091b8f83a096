"""The projection: the tables and the same state in memory, with one way to change both (floor 2).

The one writer thread hands in batches of FLEET and BEATS. Each is folded, written in one transaction together
with its cursor, and only then shown in memory; so whatever anybody reads was committed, and a crash at any
moment is as if the batch had never come. Everything but `apply`, `reset_stream`, `reopen` and `close` may be
called from any thread.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from events.errors import StoreError
from events.ids import NodeId
from events.log import Batch, Cursor, Int64s
from events.moments import from_us
from events.streams import BEATS_NAME, FLEET_NAME
from projections.ahead import Ahead, FoldedAhead
from projections.applied import Applied, Listener, applied
from projections.beat_batch import fold_beat_batch
from projections.beat_tables import forget_beats
from projections.capacity_sums import CapacitySum, Group
from projections.checkpoints import Checkpoint, fresh, save_checkpoint
from projections.commits import commit_beats, commit_facts
from projections.directory import EVERY_NODE, NodeFilter
from projections.handles import Handle
from projections.heartbeats import Heartbeat
from projections.latest import Latest
from projections.memory import Contacts, Memory
from projections.roster_news import RosterNews
from projections.state import NodeState, unpack
from projections.store import Store, StoreSettings

if TYPE_CHECKING:
    import duckdb

    from projections.damaged import Recovery

TRIM_EVERY = timedelta(seconds=10)
# Of the log's time. Often, so that each deletion is small: 10 s of 20,000 beats a second are 400,000 samples.

BEHIND = 20_000
# Records: seconds of folding facts, in which nobody sees the present anyway.


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectionSettings:
    """How the file is opened, and for how long samples of usage are kept (by the broker's time)."""

    store: StoreSettings = field(default_factory=StoreSettings)
    usage_kept: timedelta = timedelta(hours=24)


class Projection:
    """An open file and its memory."""

    def __init__(self, store: Store, settings: ProjectionSettings, memory: Memory) -> None:
        self._store, self._settings, self._memory = store, settings, memory
        self._cursors = {stream: at.cursor for stream, at in memory.checkpoints.items()}
        self._lock = threading.Lock()
        self._ahead = Ahead()
        self._listeners: list[Listener] = []
        self.latest, self.news = Latest(), RosterNews()
        self._trimmed_at_us = 0
        self.openings = 1
        """How often tables were opened: with other tables, nodes have other numbers."""

    @classmethod
    def open(cls, path: Path, *, settings: ProjectionSettings | None = None) -> Projection:
        """Open the file or make it, and load its memory; raise StoreError where it cannot be had."""
        settings = settings or ProjectionSettings()
        store = Store.open(path, settings.store)
        try:
            memory = store.load(Memory.load, empty=Memory)
        except BaseException:
            store.close()
            raise
        return cls(store, settings, memory)

    @property
    def path(self) -> Path:
        return self._store.path

    @property
    def recovered(self) -> Recovery | None:
        """Why the tables began empty; None where they went on as they were left."""
        return self._store.recovered

    def cursors(self) -> Mapping[str, Cursor]:
        """Return how far each stream is folded; one that was never read is missing."""
        return self._cursors

    def holes(self) -> dict[str, int]:
        """Return how many holes were proven in each stream since it was made."""
        return {stream: at.holes for stream, at in self._memory.checkpoints.items()}

    def node(self, node_id: NodeId) -> NodeState | None:
        """Return what the facts about a node come to, None where there are none."""
        packed = self._memory.packed.get(node_id)
        return None if packed is None else unpack(packed)

    def heartbeat(self, node_id: NodeId) -> Heartbeat | None:
        """Return what a node's heartbeats say, registered or not; None where it never beat."""
        with self._lock:
            return self._memory.heartbeat(node_id)

    def conditions_shared(self, node_id: NodeId) -> tuple[str, ...]:
        """Return the conditions that a node has since another active one has the same handle."""
        return self._memory.conditions_shared(node_id)

    def sharers(self, node_id: NodeId) -> dict[Handle, list[NodeId]]:
        """Return of each handle that a node shares, by condition and text, which others have it."""
        with self._lock:
            return self._memory.sharers(node_id)

    def nodes(self, asked: NodeFilter = EVERY_NODE, *, after: str = "", limit: int) -> list[NodeState]:
        """Return the first nodes beyond `after` that fit, in order of their ids, all of one moment."""
        memory = self._memory
        with self._lock:
            packed = [
                memory.packed[node_id] for node_id in memory.directory.page(asked, after=after, limit=limit)
            ]
        return [unpack(one) for one in packed]

    def count_by_state(self) -> dict[str, int]:
        """Return how many nodes are in each state, retired ones included."""
        with self._lock:
            return self._memory.directory.count_by_state()

    def capacity(self, group: Group = "resource") -> list[CapacitySum]:
        """Return the sums over nodes that are not retired, in order of resource and place, no place first."""
        with self._lock:
            return self._memory.sums.by(group)

    def used(self, group: Group = "resource") -> dict[tuple[str, str | None], float]:
        """Return the sums of what nodes that are not lost or retired measured last, by resource and place."""
        with self._lock:
            return self._memory.used_by(group)

    def contacts(self) -> Contacts:
        """Return every node's last accepted heartbeat, all of one moment."""
        with self._lock:
            return self._memory.contacts()

    def beat_texts(self, numbers: Int64s, *, openings: int) -> tuple[list[str | None], list[str | None]]:
        """Return which boot some nodes beat for, and which inventory they say they have, by number.

        Raises StoreError where the numbers, got at so many openings, are of tables that are no more.
        """
        with self._lock:
            self._refuse_numbers_of_others(openings)
            rows = self._memory.beats
            return rows.boots[numbers].tolist(), rows.inventories[numbers].tolist()

    def node_ids(self, numbers: Int64s, *, openings: int) -> list[NodeId]:
        """Return the nodes that have these numbers; raise StoreError as `beat_texts` does."""
        with self._lock:
            self._refuse_numbers_of_others(openings)
            return self._memory.index.node_ids(numbers)

    def number(self, node_id: NodeId) -> int | None:
        """Return a node's number, None where the log never named it; it stays until `openings` changes."""
        return self._memory.index.number(node_id)

    def cursor(self) -> duckdb.DuckDBPyConnection:
        """Return a connection on which one thread may ask the tables and views; it has to close it."""
        return self._store.cursor()

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Call `listener` in the writer's thread after each commit; return what ends that."""
        self._listeners.append(listener)

        def end() -> None:
            if listener in self._listeners:
                self._listeners.remove(listener)

        return end

    def fold_ahead(self, batch: Batch) -> FoldedAhead:
        """Fold a batch of FLEET, to be handed to `apply`, while the one before it may still be committed.

        May be called from one thread besides the writer's. Raises LogGapError and EpochChangedError as
        `apply` does.
        """
        return self._ahead.fold(batch, committed=lambda: self._checkpoint(FLEET_NAME), read=self.node)

    def drop_ahead(self) -> None:
        """Forget what was folded ahead and is not committed; no thread may be folding or committing."""
        self._ahead.drop()

    def apply(self, batch: Batch | FoldedAhead) -> Applied:
        """Fold a batch, write it with its cursor in one transaction, show it; return what it came to.

        A batch may repeat records that are folded already. Raises LogGapError and EpochChangedError for one
        that does not go on where the cursor is, and StoreError where it could not be written: then nothing
        changed, and the same may be applied again.
        """
        if isinstance(batch, Batch):
            match batch.stream:
                case "FLEET":
                    self.drop_ahead()
                    batch = self.fold_ahead(batch)
                case "BEATS":
                    return self._told(self._apply_beats(batch))
                case other:
                    raise ValueError(f"the projection folds {FLEET_NAME} and {BEATS_NAME}, not {other}")
        return self._told(self._apply_facts(batch))

    def reset_stream(self, stream: str, epoch: str) -> None:
        """Begin BEATS again at its first record, since it was made again or went back; what it told stays.

        Facts are what the tables are made of: for another FLEET, `reopen`.
        """
        assert stream == BEATS_NAME, "another FLEET needs other tables"
        at = Checkpoint(Cursor(epoch))
        with self._store.transaction() as transaction:
            save_checkpoint(transaction, stream, at)
        with self._lock:
            self._reach(stream, at)

    def reopen(self, *, why: str) -> None:
        """Move the file aside and go on with empty tables and cursors; cursors given out are closed."""
        with self._lock:
            self._store.start_over(why=why)
            self._memory = Memory()
            self._ahead.drop()
            self.latest, self.news = Latest(), RosterNews()
            self._cursors = {}
            self._trimmed_at_us = 0
            self.openings += 1

    def close(self) -> None:
        """Close the file. Closing twice is fine."""
        self._store.close()

    def _told(self, applied: Applied) -> Applied:
        if applied.records or applied.holes:
            for listener in tuple(self._listeners):
                listener(applied)
        return applied

    def _checkpoint(self, stream: str) -> Checkpoint:
        return self._memory.checkpoints.get(stream, Checkpoint())

    def _apply_facts(self, ahead: FoldedAhead) -> Applied:
        new, reached, folded = ahead.new, ahead.reached, ahead.folded
        assert ahead.before == self._checkpoint(FLEET_NAME), "batches are committed in the order of the log"
        if new.is_nothing:
            self._ahead.done(ahead)
            return applied(new, reached)
        self._store.set_pace(is_behind=new.batch.pending > BEHIND)
        announced = self._memory.announced
        self._show(commit_facts(self._store, self._memory, ahead), FLEET_NAME, reached)
        self.news.add(folded, after=ahead.before.cursor.seq, reached=reached.cursor.seq)
        self.latest.add(folded, begin=announced, reached=reached.cursor, holes=new.holes)
        self._ahead.done(ahead)
        nodes, announcements = tuple(folded.states), len(folded.announcements)
        return applied(new, reached, nodes=nodes, announcements=announcements, counters=folded.counters)

    def _apply_beats(self, batch: Batch) -> Applied:
        memory, before = self._memory, self._checkpoint(BEATS_NAME)
        new = fresh(batch, before.cursor)
        if new.is_nothing:
            return applied(new, before)
        reached = Checkpoint(batch.cursor, before.holes + len(new.holes))
        self._store.set_pace(is_behind=batch.pending > BEHIND)
        folded = fold_beat_batch(new.batch, memory.index, memory.beats, memory.resources)
        self._show(commit_beats(self._store, memory, folded, new, reached), BEATS_NAME, reached)
        if len(new.batch):
            self._trim(int(new.batch.stored_at_ns[-1]) // 1000)
        nodes = tuple(memory.index.node_ids(folded.contacts))
        return applied(new, reached, nodes=nodes, counters=folded.counters)

    def _show(self, show: Callable[[], None], stream: str, reached: Checkpoint) -> None:
        with self._lock:
            show()
            self._reach(stream, reached)

    def _refuse_numbers_of_others(self, openings: int) -> None:
        if openings != self.openings:
            why, instead = "they were begun anew meanwhile", "read from the new ones again"
            raise StoreError(str(self.path), why=why, instead=instead)

    def _reach(self, stream: str, at: Checkpoint) -> None:
        self._memory.checkpoints[stream] = at
        self._cursors = {**self._cursors, stream: at.cursor}

    def _trim(self, now_us: int) -> None:
        """Forget what is older than it has to be kept, in a transaction of its own, now and then."""
        if now_us - self._trimmed_at_us < TRIM_EVERY // timedelta(microseconds=1):
            return
        self._trimmed_at_us = now_us
        before = from_us(now_us) - self._settings.usage_kept
        with self._store.transaction() as transaction:
            forget_beats(transaction, before=before)
