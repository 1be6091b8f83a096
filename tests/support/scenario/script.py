"""Scripts of scenarios: JSON objects, called lines. One with `type` is reported, one with `op` is a step.

    {"type": "node.heartbeat", "node": "n1", "inc": "b1", "seq": 2, "recv": "2026-05-01T12:00:10Z"}
    {"op": "broker_down", "for_s": 41}
    {"op": "assert", "lost_events": 0, "within_s": 120}

`recv` lets time pass until the broker's clock says so. `rules` stands first where the rules are not the
default. In `assert`, `within_s` lets time pass: until it is so where something has to become so (`state`,
`event`), else all of it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from events.facts import Lost, ZoneRecovered, ZoneSilent
from projections.capacity import capacity
from projections.silence import LivenessRules
from tests.support.scenario.reports import Line, Reporter
from tests.support.scenario.world import World

DAY_S = 86_400
SLOW_FROM_S, SLOW_TICK_S = 3_600.0, 300.0
# For hours and days in which little happens.


class Script:
    """A script that runs in a world."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._reporter = Reporter(world)
        self._ops: dict[str, Callable[[Line], None]] = {
            "seed": self._seed,
            "advance": self._advance,
            "broker_down": lambda line: world.outage(line["for_s"]),
            "pause": lambda line: world.stand_still(line["for_s"]),
            "lag": lambda line: world.lag(line["for_s"]),
            "stop_projector": self._stop,
            "start_projector": lambda _: world.service.start(),
            "restart_projector": lambda line: world.restart(down_s=line["down_s"]),
            "second_service": lambda _: world.add_service() and None,
            "step_service_clock": self._step_service,
            "step_broker_clock": self._step_broker,
            "kill_node": lambda line: world.power(line["node"], is_on=False),
            "power_node": lambda line: world.power(line["node"], is_on=True),
            "silence": lambda line: world.link(zone=line["zone"], is_up=False),
            "speak": lambda line: world.link(zone=line["zone"], is_up=True),
            "flap": self._flap,
            "repeat": self._repeat,
            "wipe_projection": self._wipe,
            "assert": self._assert,
        }

    def run(self, lines: list[Line]) -> None:
        """Run every line."""
        for line in lines:
            if "type" in line:
                self._report(line)
            else:
                self._ops[line["op"]](line)

    def _report(self, line: Line) -> None:
        world = self.world
        if "recv" in line:
            at = world.clocks.steady_of(datetime.fromisoformat(line["recv"]))
            self._pass(max(0.0, at - world.clocks.steady))
        self._reporter.say(line)
        world.settle()

    def _pass(self, by_s: float) -> None:
        if by_s > SLOW_FROM_S:
            self.world.advance(SLOW_TICK_S)
            self.world.advance(by_s - SLOW_TICK_S, tick_s=SLOW_TICK_S)
        else:
            self.world.advance(by_s)

    def _seed(self, line: Line) -> None:
        said = {name: value for name, value in line.items() if name not in ("op", "nodes", "prefix")}
        self.world.seed(line["nodes"], prefix=line.get("prefix", f"{line.get('zone', 'n')}-"), **said)

    def _advance(self, line: Line) -> None:
        if "to" in line:
            at = self.world.clocks.steady_of(datetime.fromisoformat(line["to"]))
            self._pass(at - self.world.clocks.steady)
        else:
            self._pass(line.get("by_s", 0) + DAY_S * line.get("by_days", 0))

    def _stop(self, line: Line) -> None:
        self.world.service.stop()
        self._pass(line["for_s"])

    def _step_service(self, line: Line) -> None:
        self.world.clocks.service_by_s += line["by_s"]

    def _step_broker(self, line: Line) -> None:
        self.world.clocks.broker_by_s += line["by_s"]

    def _flap(self, line: Line) -> None:
        for _ in range(line["cycles"]):
            for is_on in (False, True):
                self.world.power(line["node"], is_on=is_on)
                self.world.advance(line["period_s"], tick_s=self.world.rules.interval_s / 2)

    def _repeat(self, line: Line) -> None:
        for _ in range(line["times"]):
            self._reporter.say(line["event"])
        self.world.settle()

    def _wipe(self, _line: Line) -> None:
        self.world.service.stop()
        self.world.service.path.unlink()
        self.world.service.start()
        self.world.settle()

    def _assert(self, line: Line) -> None:
        world, within_s = self.world, line.get("within_s", 0)
        if "event" in line:
            world.until(lambda: world.told()[line["event"].partition(".")[2]] > 0, within_s=within_s)
            (said,) = [
                one.data for one in world.verdicts() if isinstance(one.data, ZoneSilent | ZoneRecovered)
            ]
            assert said.count == line["count"]
        elif "state" in line and within_s:
            world.until(lambda: world.derived(line["node"]).state == line["state"], within_s=within_s)
        else:
            world.advance(within_s)
        for name, wanted in line.items():
            if name in CHECKS:
                found = CHECKS[name](world, line.get("node", ""))
                assert found == wanted, f"{name}: {found!r} is not {wanted!r}"
            elif name not in ("op", "node", "within_s", "event", "count"):
                assert _resource(world, line["node"], name, wanted) == wanted


def _lost(world: World, node: str) -> int:
    return sum(isinstance(one.data, Lost) and (not node or one.node_id == node) for one in world.verdicts())


def _resource(world: World, node: str, name: str, wanted: Line) -> Line:
    (found,) = [one for one in capacity(world.state(node)) if one.resource == name]
    return {
        member: getattr(found, "last_known" if member == "total_last_known" else member) for member in wanted
    }


def _last_question(world: World, node: str) -> str | None:
    return next((word for about, word in reversed(world.asked) if about == node), None)


CHECKS: dict[str, Callable[[World, str], Any]] = {
    "lost_events": _lost,
    "state": lambda world, node: world.derived(node).state,
    "listed": lambda world, node: world.service.get(f"/nodes/{node}").status == 200,
    "conditions": lambda world, node: list(world.derived(node).conditions),
    "holds": lambda world, node: [hold.owner for hold in world.state(node).standing_holds],
    "labels": lambda world, node: world.state(node).effective_labels,
    "schedulable": lambda world, node: world.derived(node).schedulable,
    "question": _last_question,
    "mode": lambda world, _: world.service.mode()[0],
    "changes": lambda world, node: world.changes(node),
    "incarnation": lambda world, node: world.state(node).incarnation,
    "boot": lambda world, node: world.state(node).boot_id,
}


def lines_of(text: str) -> Iterator[Line]:
    """The objects that follow one another in a text."""
    decoder, text = json.JSONDecoder(), text.strip()
    while text:
        line, end = decoder.raw_decode(text)
        yield line
        text = text[end:].lstrip()


@contextmanager
def scenario(folder: Path, text: str) -> Iterator[World]:
    """Run a script for the length of a block; what it did is looked at inside."""
    lines = list(lines_of(text))
    said = lines.pop(0) if lines[0].get("op") == "rules" else {"op": "rules"}
    rules = LivenessRules(**{name: value for name, value in said.items() if name != "op"})
    made = World(folder, rules=rules)
    try:
        Script(made).run(lines)
        yield made
    finally:
        made.close()
