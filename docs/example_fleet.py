"""One day of the fleet of `docs/data`, told as a log: what the SQL guide asks its questions of.

The machines are those of the file; it names no zones, so a node's number modulo three decides its zone here.
What happens to them is invented, the same on every run, and folded by the real projection.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import numpy as np
import orjson

from events import facts
from events.codec import encode_fact
from events.envelope import new_event
from events.facts import FactData
from events.ids import NodeId
from events.log import Batch, Cursor
from events.subjects import beat_subject, fact_subject
from fleetfold.simulated_nodes import SimulatedNode, from_csv
from projections.projection import Projection

NODE_LIST = Path(__file__).parent / "data" / "openb_node_list_all_node.csv"
DAY = datetime(2026, 3, 2, tzinfo=UTC)
EPOCH = "2026-03-01T00:00:00Z"
ZONES = ("zone-a", "zone-b", "zone-c")
ENDS_AT = timedelta(hours=18)

Record = tuple[datetime, str, bytes]


def fold_day(folder: Path) -> Projection:
    """Return a projection in the folder into which the whole day is folded."""
    projection = Projection.open(folder / "example.duckdb")
    for stream, records in (("FLEET", sorted(_facts(), key=_when)), ("BEATS", sorted(_beats(), key=_when))):
        projection.apply(_batch(stream, records))
    return projection


def _machines() -> list[SimulatedNode]:
    with NODE_LIST.open(encoding="utf-8") as lines:
        return list(from_csv(lines, interval_s=10))


def _facts() -> Iterator[Record]:
    machines = _machines()
    for number, machine in enumerate(machines):
        at = _at("08:00") + timedelta(milliseconds=10 * number)
        yield _registered(at, machine, ZONES[number % 3])
        yield _fact(at + timedelta(seconds=10), machine.node_id, facts.Alive(boot_id="boot-1", rule="beats"))
        yield from _handed_out(number, machine)
    yield from _maintenance(machines)
    yield from _outage(machines)
    yield from _repairs(machines)


def _handed_out(number: int, machine: SimulatedNode) -> Iterator[Record]:
    """Give three of four nodes some work at nine, and take half of that away at four."""
    if number % 4 == 3:
        return
    totals = {name: Decimal(str(told["total"])) for name, told in machine.inventory["resources"].items()}
    amounts = {
        "cpu": (totals["cpu"] / 2).quantize(Decimal(1)),
        "memory": totals["memory"] // 2,
    }
    cards = totals.get("gpu", Decimal(0))
    for name in totals:
        if name.startswith("gpu"):
            amounts[name] = max(Decimal(1), cards // 2)
    workload = f"job-{number:04d}"
    at = timedelta(milliseconds=50 * number)
    yield _fact(_at("09:00") + at, machine.node_id, facts.Allocated(workload=workload, amounts=amounts))
    if number % 8 < 4:
        yield _fact(_at("16:00") + at, machine.node_id, facts.Released(workload=workload))


def _maintenance(machines: list[SimulatedNode]) -> Iterator[Record]:
    for machine in machines[800:820]:
        why = {"actor": "storage team", "reason": "firmware of the disk controllers"}
        yield _fact(_at("10:15"), machine.node_id, facts.Cordoned(owner="storage", **why))
    for machine in machines[800:812]:
        done = facts.Uncordoned(owner="storage", actor="storage team", reason="done")
        yield _fact(_at("15:45"), machine.node_id, done)
    for machine in machines[40:43]:
        hold = facts.MaintenanceEntered(
            owner="ops", actor="ops", reason="new power supply", until=_at("17:00")
        )
        yield _fact(_at("15:00"), machine.node_id, hold)
        yield _fact(_at("16:30"), machine.node_id, facts.MaintenanceLeft(owner="ops", actor="ops"))


def _outage(machines: list[SimulatedNode]) -> Iterator[Record]:
    """Lose nine nodes at about 11:03 and get eight of them back."""
    for nth, machine in enumerate(machines[1000:1009]):
        heard = _at("11:02") + timedelta(seconds=3 * nth)
        lost = facts.Lost(
            boot_id="boot-1",
            last_heartbeat_at=heard,
            rule="silence",
            silent_s=30.0,
            grace_s=30.0,
            deadline_at=heard + timedelta(seconds=30),
        )
        yield _fact(heard + timedelta(seconds=30), machine.node_id, lost)
        if nth:
            back = facts.Alive(boot_id="boot-1", rule="beats")
            yield _fact(_at("11:30") + timedelta(minutes=4 * nth), machine.node_id, back)


def _repairs(machines: list[SimulatedNode]) -> Iterator[Record]:
    """Quarter what may be given out of two nodes, and retire the one that did not come back."""
    for machine in machines[524:526]:
        declared = facts.CapacityDeclared(
            resources={"cpu": facts.DeclaredResource(ratio=Decimal("0.25"))},
            actor="ops",
            reason="overheating",
        )
        yield _fact(_at("13:20"), machine.node_id, declared)
    retired = facts.Retired(actor="ops", reason="main board dead, sent back", force=True)
    yield _fact(_at("17:10"), machines[1000].node_id, retired)


def _beats() -> Iterator[Record]:
    """Let each node say every hour what it uses: a third of what it has, and more with its number."""
    for number, machine in enumerate(_machines()):
        cpu = machine.inventory["resources"]["cpu"]["total"]
        for hour in range(8, 18):
            used = {"cpu": round(cpu * (0.1 + 0.5 * ((number * 37 + hour * 11) % 100) / 100), 2)}
            body = {"boot_id": "boot-1", "seq": 2 + hour, "used": used}
            at = _at(f"{hour:02d}:30") + timedelta(milliseconds=number)
            yield at, beat_subject(machine.node_id), orjson.dumps(body)


def _registered(at: datetime, machine: SimulatedNode, zone: str) -> Record:
    body = {"boot_id": "boot-1", "seq": 1, "zone": zone, **machine.inventory}
    return at, fact_subject("agent", machine.node_id, "registered"), orjson.dumps(body)


def _fact(at: datetime, about: NodeId, data: FactData) -> Record:
    event = new_event(data, about=about, source="/example", event_id=f"{about}-{at:%H%M%S%f}", time=at)
    return at, event.subject, encode_fact(event)


def _at(clock: str) -> datetime:
    hours, minutes = clock.split(":")
    return DAY + timedelta(hours=int(hours), minutes=int(minutes))


def _when(record: Record) -> datetime:
    return record[0]


def _batch(stream: str, records: list[Record]) -> Batch:
    stored_at_ns = np.array([int(at.timestamp() * 1_000_000) * 1000 for at, _, _ in records], dtype=np.int64)
    return Batch(
        stream=stream,
        seqs=np.arange(1, len(records) + 1, dtype=np.int64),
        stored_at_ns=stored_at_ns,
        subjects=[subject.encode() for _, subject, _ in records],
        payloads=[payload for _, _, payload in records],
        cursor=Cursor(EPOCH, len(records), int(stored_at_ns[-1])),
    )
