"""A broker, agents, a reader and an evaluator on a clock that a test moves, with a schedule of trouble.

One turn is one second. The evaluator is the real one but for its thread: roster, watch and rules. The agents
are honest and slow: one that is alive beats every interval by its own phase, and comes back nine seconds
after the broker, so that its first beat may be two intervals away.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from events.log import Cursor
from projections import judging
from projections.roster import BeatRows, NodeRows, Roster
from projections.silence import LivenessRules
from projections.watch import Look, Watch

NOON_S = 1_777_636_800.0
EPOCH = "one"
BACK_AFTER_S = 9.0


@dataclass(frozen=True)
class Trouble:
    """Something that goes wrong at `at`, for `lasts` seconds; a step moves a clock by `by_s` instead.

    In a `pause` the evaluator stands still, and `starved` the agents with it, as on one overloaded machine.
    """

    kind: Literal["outage", "pause", "starved", "lag", "restart", "broker_step", "service_step"]
    at: int
    lasts: int = 0
    by_s: float = 0.0


@dataclass
class Node:
    """An agent and what the facts say of its node. It beats from `phase_s` on, until `ends_at`."""

    phase_s: float
    ends_at: float
    word: str = "alive"
    beat_seq: int = 0
    heard_s: float = 0.0
    lost: list[float] = field(default_factory=list)


@dataclass
class World:
    """Everything at one moment of steady time, in seconds."""

    nodes: list[Node]
    troubles: Sequence[Trouble]
    rules: LivenessRules = field(default_factory=LivenessRules)
    now: float = 0.0
    stored: list[tuple[int, float]] = field(default_factory=list)
    """BEATS: node and the broker's time."""
    folded: int = 0
    restarts: int = 0

    def __post_init__(self) -> None:
        self._back_at = 0.0
        self._begin_process()

    def run(self, until: int) -> World:
        """Go on to a moment."""
        while self.now < until:
            self._agents_beat()
            self.now += 1.0
            if self._is("restart"):
                self._stopped = True
                continue
            if not self._is("lag"):
                self._fold()
            if self._stopped:
                self._begin_process()
            if not self._is("pause") and not self._is("starved"):
                self._evaluate()
        return self

    def _is(self, kind: str, at: float | None = None) -> bool:
        now = self.now if at is None else at
        return any(one.kind == kind and one.at <= now < one.at + one.lasts for one in self.troubles)

    def _wall_s(self, kind: str, at: float) -> float:
        return NOON_S + at + sum(one.by_s for one in self.troubles if one.kind == kind and one.at <= at)

    def _agents_beat(self) -> None:
        """Store the beats of the second that begins."""
        if self._is("outage"):
            self._back_at = self.now + 1.0 + BACK_AFTER_S
            return
        if self._is("starved"):
            return
        due = []
        for number, node in enumerate(self.nodes):
            since = self.now - node.phase_s
            at = node.phase_s + self.rules.interval_s * -(-since // self.rules.interval_s)
            if self.now <= at < self.now + 1.0 and at < node.ends_at and at >= self._back_at:
                due.append((at, number))
        for at, number in sorted(due):
            self.stored.append((number, self._wall_s("broker_step", at)))

    def _fold(self) -> None:
        for seq in range(self.folded + 1, len(self.stored) + 1):
            number, stored_s = self.stored[seq - 1]
            self.nodes[number].beat_seq, self.nodes[number].heard_s = seq, stored_s
        self.folded = len(self.stored)

    @property
    def _cursor(self) -> Cursor:
        if not self.folded:
            return Cursor()
        return Cursor(EPOCH, self.folded, int(self.stored[self.folded - 1][1] * 1e9))

    def _begin_process(self) -> None:
        mark_ns = self._cursor.stored_at_ns
        self.watch = Watch(shortest=self.rules.shortest, mark_s=mark_ns / 1e9 if mark_ns else None)
        self.roster = Roster(self.rules)
        self._stopped, self._due, self._was_away, self._has_nodes = False, 0.0, True, False

    def _evaluate(self) -> None:
        now = self.now
        if self._is("outage"):
            self._was_away, self._due = True, now + 1.0
        else:
            head = len(self.stored)
            seen = Look(
                asked=now,
                answered=now + 0.01,
                broker_at=self._wall_s("broker_step", now) + 0.005,
                wall_at=self._wall_s("service_step", now) + 0.01,
                beats=(EPOCH, head),
                fleet=(EPOCH, 1),
            )
            self.watch.looked(seen, due=self._due, was_interrupted=self._was_away)
            self._was_away, self._due = False, now + 1.0
        if self.watch.last_look is not None:
            self._judge(now + 0.02)

    def _judge(self, now: float) -> None:
        roster, watch = self.roster, self.watch
        roster.hold(len(self.nodes))
        seqs = np.array([node.beat_seq for node in self.nodes])
        changed = np.flatnonzero(seqs != roster.beat_seq[: len(seqs)])
        heard_s = np.array([node.heard_s for node in self.nodes])[changed]
        spoke = watch.beats.dated(seqs[changed], heard_s, now=now)
        texts = ["b1"] * len(changed)
        roster.take_beats(BeatRows(changed, seqs[changed], spoke, texts, [None] * len(changed)))
        words = [node.word for node in self.nodes]
        if not self._has_nodes or "lost" in words:
            self._take_nodes(words, now)
        fleet = Cursor(EPOCH, 1, 1)
        watch.reached(beats=self._cursor, fleet=fleet, now=now)
        watch.forget(beats=self._cursor, fleet=fleet, oldest=judging.oldest_sign(roster))
        if watch.may_judge(now) and not self._is("outage"):
            for number in judging.due(roster, watch, now=now, folded=1).numbers.tolist():
                if number not in [node for node, _ in self.stored[self.folded :]]:
                    self.nodes[number].word = "lost"
                    self.nodes[number].lost.append(self.now)
        for number in judging.newly_alive(roster, now=now, folded=1, facts_known_until=now).tolist():
            self.nodes[number].word = "alive"
        self._take_nodes([node.word for node in self.nodes], now)

    def _take_nodes(self, words: list[str], now: float) -> None:
        count = len(words)
        since = np.full(count, now)
        if not self._has_nodes:
            since = np.minimum(self.watch.steady_times(np.full(count, NOON_S)), now)
        rows = NodeRows(
            numbers=np.arange(count),
            versions=np.ones(count, np.int64),
            states=["ready"] * count,
            livenesses=words,
            boot_ids=["b1"] * count,
            zones=[None] * count,
            pools=[None] * count,
            intervals_s=[None] * count,
            is_registered=np.ones(count, bool),
            since_us=np.zeros(count, np.int64),
        )
        self.roster.take_nodes(rows, since=since)
        self._has_nodes = True
