"""Who has settled is said as a fact, once, and not while nobody watched."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

from consumers.settler import Settler
from events.facts import Alive, FactData, Lost, Registered
from events.ids import node_id
from projections.flapping import FLIPS
from tests.support.announcing import Announced, all_at_work
from tests.support.brokers import AnyBroker
from tests.support.loops import on_a_loop
from tests.support.projecting import shown
from tests.support.publishing import head, publish_all
from tests.support.strategies import said

N1 = node_id("n1")
SOON = timedelta(milliseconds=10)


@asynccontextmanager
async def settling(
    at: Announced, *, quiet: timedelta = SOON, is_watching: bool = True
) -> AsyncIterator[Settler]:
    settler = Settler(at.projection, at.nc, is_watching=lambda: is_watching, quiet=quiet, look_every=SOON)
    await settler.start()
    try:
        yield settler
    finally:
        await settler.stop()


async def flap(at: Announced, count: int = FLIPS + 2) -> None:
    flips: list[FactData] = [
        Lost(boot_id="b1", silent_s=31, grace_s=30) if n % 2 == 0 else Alive(boot_id="b1")
        for n in range(count)
    ]
    facts: list[FactData] = [Registered(boot_id="b1", seq=1), Alive(boot_id="b1"), *flips]
    await publish_all(at.nc, "FLEET", [said(fact, N1) for fact in facts])


def is_flapping(at: Announced) -> bool:
    state = at.projection.node(N1)
    return state is not None and state.flapping_since is not None


@on_a_loop
async def test_a_node_that_is_quiet_has_settled_and_that_is_announced_once(
    broker: AnyBroker, tmp_path: Path
) -> None:
    async with all_at_work(broker.url, tmp_path) as at:
        await flap(at)
        await shown(lambda: is_flapping(at))
        async with settling(at) as one, settling(at) as other:
            await shown(lambda: not is_flapping(at))
            told = await at.all_told()

        states = [event["data"]["detail"] for event in told if event["data"]["kind"] == "state"]
        assert states[-2:] == ["flapping", "settled"]
        assert await head(at.nc, "FLEET") == 2 + FLIPS + 2 + 1
        assert one.counts["settled"] + other.counts["settled"] >= 1
        settled = told[-1]["data"]
        assert (settled["cause_type"], settled["actor"]) == ("fleetfold.liveness.settled.v1", "liveness")
        assert settled["after"]["flapping_since"] is None


@on_a_loop
async def test_nobody_settles_while_nobody_watches(broker: AnyBroker, tmp_path: Path) -> None:
    async with all_at_work(broker.url, tmp_path) as at:
        await flap(at)
        await shown(lambda: is_flapping(at))
        async with settling(at, is_watching=False), settling(at, quiet=timedelta(hours=1)) as busy:
            await flap(at, count=1)
            await at.all_told()

            assert is_flapping(at)
            assert sum(busy.counts.values()) == 0
