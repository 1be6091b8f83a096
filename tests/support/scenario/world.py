"""A world in which minutes cost nothing: agents, a log, services that judge, and what goes wrong."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from events.asks import Ask
from events.codec import Recorded
from events.facts import Alive, Lost, ZoneRecovered, ZoneSilent
from events.ids import NodeId
from events.registry import REGISTRY
from events.subjects import Owner, beat_subject, fact_subject
from projections.derive import Derived, derive
from projections.silence import LivenessRules
from projections.state import NodeState
from tests.support.scenario.agents import Crowd, of_zone
from tests.support.scenario.clocks import Clocks
from tests.support.scenario.judging_service import JudgingService
from tests.support.scenario.stored_log import StoredLog

TICK = 0.25
# Of an interval: a commit a tick costs 20 ms.
FINE_TICK = 0.1


class World:
    """Everything at one moment. It moves by `advance` alone."""

    def __init__(self, folder: Path, *, rules: LivenessRules | None = None) -> None:
        self.rules = rules or LivenessRules()
        self.clocks, self.log = Clocks(), StoredLog()
        self.crowd = Crowd(self.log, self.clocks)
        self.asked: list[tuple[NodeId, str]] = []
        self._folder = folder
        self.services: list[JudgingService] = []
        self.add_service()

    def add_service(self) -> JudgingService:
        """Start one more service on this log, over a file of its own."""
        made = JudgingService(
            self._folder / f"tables-{len(self.services)}.duckdb",
            self.log,
            self.clocks,
            rules=self.rules,
            asked=self._hear,
        )
        made.start()
        self.services.append(made)
        return made

    @property
    def service(self) -> JudgingService:
        """The first service."""
        return self.services[0]

    def close(self) -> None:
        for service in self.services:
            service.stop()

    # Time.

    def advance(self, by_s: float, *, tick_s: float = 0.0) -> None:
        """Let time pass; agents speak, and then everybody looks, once a tick."""
        tick_s = tick_s or TICK * self.rules.interval_s
        until = self.clocks.steady + by_s
        while self.clocks.steady < until - 1e-9:
            begin, end = self.clocks.steady, min(self.clocks.steady + tick_s, until)
            self.crowd.speak(begin, end)
            self.clocks.steady = end
            self.settle()

    def settle(self) -> None:
        """Let every service fold and judge what there is, without time passing."""
        for service in self.services:
            service.due_by(self.clocks.steady)
            service.step()

    def until(self, is_so: Callable[[], bool], *, within_s: float) -> float:
        """Let time pass, a tenth of an interval at a time, until something is so; return how long it took."""
        since, tick_s = self.clocks.steady, FINE_TICK * self.rules.interval_s
        while not is_so():
            assert self.clocks.steady - since < within_s, f"not within {within_s:g} s; {self.told()}"
            self.advance(tick_s, tick_s=tick_s)
        return self.clocks.steady - since

    # What happens.

    def seed(
        self,
        count: int,
        *,
        prefix: str = "n",
        interval_s: float = 0.0,
        zones: int = 0,
        **said: Any,  # noqa: ANN401
    ) -> list[NodeId]:
        """Add nodes that register and beat, in so many zones, and wait until all are well."""
        ids = [NodeId(f"{prefix}{number}") for number in range(count)]
        interval_s = interval_s or self.rules.interval_s
        for zone in range(zones):
            self.crowd.add(ids[zone::zones], interval_s=interval_s, zone=f"z{zone}", **said)
        if not zones:
            self.crowd.add(ids, interval_s=interval_s, **said)
        self.advance(2 * self.rules.interval_s + self.rules.grace_s)
        found = Counter(self.liveness(node) for node in ids)
        assert found == {"alive": count}, found
        assert self.service.mode() == ("watching", "")
        return ids

    def power(self, node: str, *, is_on: bool) -> None:
        """Give a node power, or take it away."""
        self.crowd.is_powered[self.crowd.numbers[NodeId(node)]] = is_on

    def link(self, *, zone: str, is_up: bool) -> None:
        """Plug the switch of a zone in, or out."""
        self.crowd.is_linked[of_zone(self.crowd, zone)] = is_up

    def outage(self, for_s: float) -> None:
        """Take the broker away for a while."""
        self.log.is_up = False
        self.advance(for_s)
        self.log.is_up = True

    def restart(self, *, down_s: float) -> None:
        """End the service, and start it on the same file after a while."""
        self.service.stop()
        self.advance(down_s)
        self.service.start()

    def stand_still(self, for_s: float) -> None:
        """Keep every service from doing anything for a while; its next look is late."""
        for service in self.services:
            service.stands_still = True
        self.advance(for_s)
        for service in self.services:
            service.stands_still = False
            service.step()

    def step_clocks(self, *, broker_s: float = 0.0, service_s: float = 0.0) -> None:
        """Set the wall clock of the broker, of the service, or of both."""
        self.clocks.broker_by_s += broker_s
        self.clocks.service_by_s += service_s

    def lose_the_log(self) -> None:
        """Make both streams anew, empty, and begin with empty tables, as after the worst day."""
        self.service.stop()
        self.service.path.unlink()
        self.log.begin_again()
        self.service.start()

    def lag(self, for_s: float) -> None:
        """Keep the services from folding for a while; the rest of them goes on."""
        for service in self.services:
            service.is_folding = False
        self.advance(for_s)
        for service in self.services:
            service.is_folding = True

    def beat(self, node: str, *, boot_id: str, seq: int, **more: Any) -> None:  # noqa: ANN401
        """Store one heartbeat of a node that no agent of the crowd speaks for."""
        body = json.dumps({"boot_id": boot_id, "seq": seq, **more}).encode()
        self.log.append_beat(
            beat_subject(NodeId(node)).encode(), body, at_s=self.clocks.broker_s(self.clocks.steady)
        )

    def fact(self, owner: Owner, node: str, verb: str, /, **data: Any) -> int:  # noqa: ANN401
        """Store one fact about a node; return its position."""
        event = {
            "specversion": "1.0",
            "id": f"{node}-{verb}-{self.log.head('FLEET')[1]}",
            "source": "/test",
            "type": REGISTRY.by_verb[owner, verb].text,
            "data": data,
        }
        return self.record(fact_subject(owner, NodeId(node), verb), json.dumps(event).encode())

    def record(self, subject: str, payload: bytes) -> int:
        """Store any bytes in FLEET."""
        return self.log.append_fact(subject, payload, at_s=self.clocks.broker_s(self.clocks.steady))

    # What is.

    def node(self, node: str) -> NodeState | None:
        """What the facts say of a node, None where there are none."""
        return self.service.projection.node(NodeId(node))

    def state(self, node: str) -> NodeState:
        """What the facts say of a node that is known."""
        found = self.node(node)
        assert found is not None, f"{node} is not known"
        return found

    def derived(self, node: str) -> Derived:
        """What follows from that."""
        return derive(self.state(node))

    def liveness(self, node: str) -> str:
        """Its liveness, "" for a node that is not known."""
        found = self.node(node)
        return "" if found is None else found.liveness

    def is_suspect(self, node: str) -> bool:
        """Whether it missed a beat."""
        found = self.service.picture.outlook(NodeId(node), now=self.clocks.steady)
        return found is not None and found.is_suspect

    def verdicts(self) -> list[Recorded]:
        """Every verdict of the log, in order."""
        wanted = (Alive, Lost, ZoneSilent, ZoneRecovered)
        return [fact for fact in self.log.facts() if isinstance(fact.data, wanted)]

    def told(self) -> Counter[str]:
        """How many verdicts of each verb the log holds."""
        return Counter(fact.verb for fact in self.verdicts())

    def about(self, node: str) -> list[str]:
        """The verdicts on one node, in order."""
        return [fact.verb for fact in self.verdicts() if fact.node_id == node]

    def changes(self, node: str) -> list[str]:
        """What was announced of a node, in order, as `<kind>.<detail>`."""
        return [what for about, what in self.service.changes() if about == node]

    def _hear(self, node: NodeId, question: Ask) -> None:
        self.asked.append((node, question.word))
        self.crowd.asked(node, question.word)


@contextmanager
def world(folder: Path, *, rules: LivenessRules | None = None) -> Iterator[World]:
    """A world for the length of a block."""
    made = World(folder, rules=rules)
    try:
        yield made
    finally:
        made.close()
