"""The agents of a simulated world: each beats in its phase, comes back after an outage in its own time.

They are honest, and no quicker than real ones: after an outage, the first beat may be two intervals away.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from events.digest import inventory_digest
from events.ids import NodeId
from events.log import Int64s
from events.subjects import beat_subject, fact_subject
from fleetfold.agent.messages import phase
from tests.support.scenario.clocks import Clocks
from tests.support.scenario.stored_log import StoredLog

BACK_WITHIN_S = 9.0
# Of the default interval nearly one whole: slower than the reference agent, which waits a second at most.


class Crowd:
    """Nodes by their number in it. One without power, or behind a dead switch, says nothing."""

    def __init__(self, log: StoredLog, clocks: Clocks, *, seed: int = 1) -> None:
        self.ids: list[NodeId] = []
        self.said: list[dict[str, Any]] = []
        """What each registers, but for boot and counter."""
        self.boots: list[str] = []
        self.seqs: list[int] = []
        self.numbers: dict[NodeId, int] = {}
        self.registrations = 0
        self.is_powered = np.zeros(0, bool)
        self.is_linked = np.zeros(0, bool)
        self.skew_s: dict[int, float] = {}
        """By how much a node's clock is wrong; a node that is not named here says no time."""
        self.tells_digest = False
        self._log, self._clocks, self._random = log, clocks, np.random.default_rng(seed)
        self._phase_s, self._interval_s = np.zeros(0), np.zeros(0)
        self._back_at = np.zeros(0)
        self._subjects: list[bytes] = []
        self._asked: set[int] = set()
        self._was_up = True

    def add(self, ids: Iterable[NodeId], *, interval_s: float, **said: Any) -> list[int]:  # noqa: ANN401
        """Give power to new nodes, which register; return their numbers."""
        new = list(ids)
        first = len(self.ids)
        for node in new:
            self.numbers[node] = len(self.ids)
            self.ids.append(node)
            self.boots.append("b1")
            self.seqs.append(0)
            self.said.append({"machine_id": f"m-{node}", "interval_s": interval_s, **said})
            self._subjects.append(beat_subject(node).encode())
        grown = np.ones(len(new), bool)
        self.is_powered = np.concatenate([self.is_powered, grown])
        self.is_linked = np.concatenate([self.is_linked, grown])
        self._interval_s = np.concatenate([self._interval_s, np.full(len(new), interval_s)])
        phases = np.array([phase(node) for node in new]) * interval_s
        self._phase_s = np.concatenate([self._phase_s, phases])
        self._back_at = np.concatenate([self._back_at, np.zeros(len(new))])
        for number in range(first, len(self.ids)):
            self.register(number)
        return list(range(first, len(self.ids)))

    def register(self, number: int) -> None:
        """Say what a node is; the broker drops the same from the same boot."""
        node, self.seqs[number] = self.ids[number], self.seqs[number] + 1
        body = {"boot_id": self.boots[number], "seq": self.seqs[number], **self.said[number]}
        self._log.append_fact(
            fact_subject("agent", node, "registered"),
            json.dumps(body).encode(),
            at_s=self._clocks.broker_s(self._clocks.steady),
            message_id=f"{node}/{self.boots[number]}/{self.digest(number)}",
        )
        self.registrations += 1

    def reboot(self, number: int, *, boot_id: str, **said: Any) -> None:  # noqa: ANN401
        """Start a node's agent again, of another machine where `machine_id` says so."""
        self.boots[number], self.seqs[number] = boot_id, 0
        self.said[number] |= said
        self.is_powered[number] = True
        self.register(number)

    def digest(self, number: int) -> str:
        """The digest of what a node registers."""
        return inventory_digest(self.said[number])

    def asked(self, node: NodeId, word: str) -> None:
        """Hear a question, where there is a node with power to hear it."""
        number = self.numbers.get(node)
        if number is None or not (self.is_powered[number] and self.is_linked[number]):
            return
        if word == "register":
            self._asked.add(number)
        elif word == "gone":
            self.is_powered[number] = False

    def speak(self, begin: float, end: float) -> None:
        """Store what is said from `begin` until before `end`."""
        if not self._log.is_up:
            self._was_up = False
            return
        if not self._was_up:
            self._was_up = True
            self._back_at = begin + self._random.uniform(0.0, BACK_WITHIN_S, len(self.ids))
        for number in self._registering(begin):
            self.register(number)
        for number, at in self._due(begin, end):
            self.seqs[number] += 1
            self._log.append_beat(
                self._subjects[number], self._beat(number, at), at_s=self._clocks.broker_s(at)
            )

    def _registering(self, begin: float) -> Sequence[int]:
        ready = sorted(number for number in self._asked if self._back_at[number] <= begin)
        self._asked.difference_update(ready)
        return ready

    def _due(self, begin: float, end: float) -> list[tuple[int, float]]:
        """The beats of a time in their order: with a tick longer than an interval, several of one node."""
        can = np.flatnonzero(self.is_powered & self.is_linked)
        found: list[tuple[int, float]] = []
        first = self._phase_s[can] + self._interval_s[can] * np.ceil(
            (begin - self._phase_s[can]) / self._interval_s[can]
        )
        while len(can):
            is_due = (first < end) & (first >= self._back_at[can])
            found += zip(can[is_due].tolist(), first[is_due].tolist(), strict=True)
            first = first + self._interval_s[can]
            more = first < end
            can, first = can[more], first[more]
        return sorted(found, key=lambda one: one[1])

    def _beat(self, number: int, at: float) -> bytes:
        if number not in self.skew_s and not self.tells_digest:
            return b'{"boot_id":"%b","seq":%d}' % (self.boots[number].encode(), self.seqs[number])
        body: dict[str, Any] = {"boot_id": self.boots[number], "seq": self.seqs[number]}
        if self.tells_digest:
            body["inventory"] = self.digest(number)
        if number in self.skew_s:
            said_s = self._clocks.broker_s(at) + self.skew_s[number]
            body["sent_at"] = np.datetime64(int(said_s * 1e6), "us").item().isoformat() + "Z"
        return json.dumps(body).encode()


def of_zone(crowd: Crowd, zone: str) -> Int64s:
    """The numbers of the nodes that say they are in a zone."""
    return np.array([n for n, said in enumerate(crowd.said) if said.get("zone") == zone], np.int64)
