"""Holds that end by themselves, on a real broker: once, by a fact, and never one that was prolonged."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from consumers.hold_ends import HoldEnds
from events.ids import NodeId
from projections.projection import Projection
from tests.support.broker import Broker
from tests.support.brokers import AnyBroker
from tests.support.deciding import act, register
from tests.support.loops import on_a_loop
from tests.support.serving import Serving, serving
from tests.support.waiting import until

PAST = "2026-01-01T00:00:00Z"
FUTURE = "2126-01-01T00:00:00Z"


@asynccontextmanager
async def _ending(served: Serving) -> AsyncIterator[HoldEnds]:
    ends = HoldEnds(served.projection, served.nc)
    await ends.start()
    try:
        yield ends
    finally:
        await ends.stop()


async def _holds(served: Serving, node: str, verb: str, **data: Any) -> int:  # noqa: ANN401
    """Append a hold as another program may, whatever its end."""
    event = {
        "specversion": "1.0",
        "id": f"{node}-{verb}-{await served.fleet_seq()}",
        "source": "/test",
        "type": f"fleetfold.operator.{verb}.v1",
        "data": {"reason": "disk", "actor": "ada", **data},
    }
    return await served.publish(f"fleet.v1.operator.{node}.{verb}", json.dumps(event).encode())


def _held(projection: Projection, node: str) -> list[tuple[str, str]]:
    state = projection.node(NodeId(node))
    return [(hold.kind, hold.owner) for hold in state.standing_holds] if state else []


async def _is_held(served: Serving, node: str, *holds: tuple[str, str]) -> None:
    await until(lambda: _held(served.projection, node) == list(holds), what=f"{node} held by {holds}")


def _releases(served: Serving) -> list[tuple[str, str, str]]:
    """Node, actor and reason of every release in the log."""
    with served.projection.cursor() as cursor:
        rows = cursor.execute(
            'SELECT node_id, "data" FROM main.fact WHERE "type" IN (\'fleetfold.operator.uncordoned.v1\', '
            "'fleetfold.operator.undrained.v1', 'fleetfold.operator.maintenance_left.v1') ORDER BY seq"
        ).fetchall()
    return [(node, json.loads(data)["actor"], json.loads(data)["reason"]) for node, data in rows]


@on_a_loop
async def test_a_hold_ends_when_its_time_has_come_and_says_whose_it_was(
    broker: AnyBroker, tmp_path: Path
) -> None:
    async with serving(broker, tmp_path) as served, _ending(served) as ends:
        await register(served, "n1")
        await act(served, "n1", "cordon", owner="ops")
        soon = (datetime.now(UTC) + timedelta(seconds=0.5)).isoformat()

        await _holds(served, "n1", "drained", owner="ops", reason="firmware", until=soon)
        await _is_held(served, "n1", ("cordoned", "ops"))

        (release,) = _releases(served)
        assert release[:2] == ("n1", "fleetfold")
        assert release[2].startswith("its end at ")
        assert release[2].endswith("has passed (placed by ada: firmware)")
        assert ends.counts["ended"] == 1


@on_a_loop
async def test_what_ended_while_nobody_ran_ends_at_the_start(broker: AnyBroker, tmp_path: Path) -> None:
    async with serving(broker, tmp_path) as served:
        await _holds(served, "n1", "cordoned", owner="ops", until=PAST)
        await _holds(served, "n1", "drained", owner="hw-team", until=PAST)
        await _holds(served, "n1", "maintenance_entered", owner="hw-team", until=FUTURE)
        await _holds(served, "old", "cordoned", owner="ops", until=PAST)
        await act(served, "old", "retire")

    async with serving(broker, tmp_path) as served, _ending(served):
        await _is_held(served, "n1", ("maintenance", "hw-team"))
        await _is_held(served, "old")

        assert sorted(node for node, _, _ in _releases(served)) == ["n1", "n1", "old"]


@on_a_loop
async def test_of_several_services_one_ends_a_hold(broker: AnyBroker, tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("a", "b", "c")]
    for folder in folders:
        folder.mkdir()
    nodes = [f"n{number}" for number in range(5)]
    async with (
        serving(broker, folders[0]) as a,
        serving(broker, folders[1]) as b,
        serving(broker, folders[2]) as c,
    ):
        for node in nodes:
            await _holds(a, node, "cordoned", owner="ops", until=PAST)

        async with _ending(a), _ending(b), _ending(c):
            await asyncio.gather(*(_is_held(one, node) for one in (a, b, c) for node in nodes))

        assert sorted(node for node, _, _ in _releases(a)) == nodes
        assert await a.fleet_seq() == 2 * len(nodes)


@on_a_loop
async def test_a_hold_that_was_prolonged_stands(broker: AnyBroker, tmp_path: Path) -> None:
    async with serving(broker, tmp_path) as served:
        await _holds(served, "n1", "cordoned", owner="ops", until=PAST)
        await _holds(served, "n1", "cordoned", owner="ops", until=FUTURE)

        async with _ending(served) as ends:
            await _holds(served, "n2", "cordoned", owner="ops", until=PAST)
            await _is_held(served, "n2")

            assert _held(served.projection, "n1") == [("cordoned", "ops")]
            assert [node for node, _, _ in _releases(served)] == ["n2"]
            assert ends.counts["ended"] == 1


@on_a_loop
async def test_holds_end_when_the_broker_is_back(own_broker: Broker, tmp_path: Path) -> None:
    async with serving(own_broker, tmp_path) as served:
        await _holds(served, "n1", "cordoned", owner="ops", until=PAST)
        own_broker.kill()
        await until(lambda: not served.nc.is_connected)

        async with _ending(served) as ends:
            await until(lambda: ends.counts["failed"] > 0)
            own_broker.start()
            await _is_held(served, "n1")

            assert ends.counts["ended"] == 1
