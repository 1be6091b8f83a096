"""Facts of every kind about a few nodes, as a fixed list: what a log looks like after a busy day."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal

from events import facts
from events.ids import NodeId
from events.subjects import fact_subject
from tests.support.publishing import Record, registrations
from tests.support.strategies import said

UNTIL = datetime(2030, 1, 1, tzinfo=UTC)


def busy_day(fleet: list[NodeId], *, boot_id: str = "b1") -> Iterator[Record]:
    """Yield reports, decisions, allocations and verdicts about every node, and a few that nobody can read."""
    yield from registrations(fleet, boot_id=boot_id)
    for number, node in enumerate(fleet):
        match number % 8:
            case 0:
                yield said(facts.Cordoned(owner="op", actor="op", reason="disk"), node)
                yield said(facts.Allocated(workload="w1", amounts={"cpu": Decimal("2.5")}), node)
            case 1:
                yield said(facts.MaintenanceEntered(owner="op", until=UNTIL), node)
                yield said(facts.LabelsSet(labels={"team": "a", "rack": None}), node)
            case 2:
                yield said(facts.Lost(boot_id=boot_id, silent_s=31.0, grace_s=30.0), node)
                yield said(facts.Alive(boot_id=boot_id), node)
            case 3:
                yield said(facts.CapacityDeclared(resources={"cpu": None}), node)
                yield fact_subject("agent", node, "registered"), b'{"boot_id":7}'
            case 4:
                yield said(facts.Retired(actor="op", reason="old"), node)
            case 5:
                yield said(facts.Leaving(boot_id=boot_id, seq=2, cause="reboot"), node)
                yield from registrations([node], boot_id=boot_id + "x", cpu=32)
            case 6:
                yield said(facts.Drained(owner="op"), node)
                yield said(facts.Undrained(owner="op"), node)
            case _:
                yield fact_subject("operator", node, "knighted"), b"{}"
