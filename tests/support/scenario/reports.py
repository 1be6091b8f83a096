"""What is reported, decided or handed out in a script, as the records that carry it."""

from __future__ import annotations

import json
from typing import Any

from events.ids import NodeId
from events.subjects import fact_subject
from tests.support.scenario.world import World

Line = dict[str, Any]

RENAMED = {
    "inc": "boot_id",
    "machine": "machine_id",
    "ts": "sent_at",
    "name": "hostname",
    "digest": "inventory",
}
NOT_SAID = {"type", "node", "recv", "raw_json", "by"}
INTENT = {
    "cordon": "cordoned",
    "uncordon": "uncordoned",
    "drain": "drained",
    "undrain": "undrained",
    "enter_maintenance": "maintenance_entered",
    "leave_maintenance": "maintenance_left",
    "hold": "cordoned",
    "release": "uncordoned",
    "retire": "retired",
    "deleted": "retired",
    "restore": "restored",
}


class Reporter:
    """Says lines in a world. What a node registered last is kept, since a gate is reported by all of it."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._registered: dict[str, Line] = {}

    def say(self, line: Line) -> None:
        """Store the record of one line."""
        kind, node = line["type"].split(".", 1)[1], line["node"]
        said = {RENAMED.get(name, name): value for name, value in line.items() if name not in NOT_SAID}
        if "addr" in said:
            said["addresses"] = [said.pop("addr")]
        if line["type"].startswith("op."):
            self._decide(node, kind, {"actor": line.get("by", "ops"), **said})
        elif "raw_json" in line:
            verb = "registered" if kind == "inventory" else kind
            self._world.record(fact_subject("agent", NodeId(node), verb), line["raw_json"].encode())
        else:
            self._report(node, kind, said)

    def _report(self, node: str, kind: str, said: Line) -> None:
        world = self._world
        match kind:
            case "heartbeat":
                said.pop("addresses", None)
                world.beat(node, **said)
            case "registered" | "inventory":
                self._register(node, said)
            case "capacity":
                amounts = {
                    name: {"total": said.pop(name)} for name in ("cpu", "memory", "gpu") if name in said
                }
                self._register(node, {**said, "resources": amounts})
            case "gate":
                before = self._registered[node]
                left = (
                    [gate for gate in before["gates"] if gate != said["gate"]]
                    if said["ok"]
                    else before["gates"]
                )
                self._register(
                    node, {**before, "gates": left, "boot_id": said["boot_id"], "seq": said["seq"]}
                )
            case "leaving":
                body = json.dumps(said).encode()
                world.record(fact_subject("agent", NodeId(node), "leaving"), body)
            case "allocated":
                amounts = said["resources"]
                world.fact(
                    "platform", node, "allocated", workload=said.get("workload", "w1"), amounts=amounts
                )
            case "released":
                world.fact("platform", node, "released", workload=said.get("workload", "w1"))
            case other:
                raise ValueError(f"nobody reports {other}")

    def _register(self, node: str, said: Line) -> None:
        self._registered[node] = said
        body = json.dumps(said).encode()
        self._world.record(fact_subject("agent", NodeId(node), "registered"), body)

    def _decide(self, node: str, kind: str, said: Line) -> None:
        world = self._world
        said.pop("boot_id", None)
        match kind:
            case "label":
                world.fact("operator", node, "labels_set", **said)
            case "ratio":
                declared = {name: {"ratio": said.pop(name)} for name in ("cpu", "memory") if name in said}
                world.fact("operator", node, "capacity_declared", resources=declared, **said)
            case _:
                verb = INTENT[kind]
                if verb in ("cordoned", "drained", "maintenance_entered"):
                    said.setdefault("owner", said["actor"])
                world.fact("operator", node, verb, **said)
