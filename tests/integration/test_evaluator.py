"""Verdicts on silence on a real broker: alive, lost, heard again, and nothing said that is not so."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from nats.aio.client import Client

from consumers.evaluator import Evaluator
from events.stream_admin import ensure_streams
from projections.projection import Projection
from tests.support.brokers import AnyBroker
from tests.support.loops import on_a_loop
from tests.support.projecting import at_work, shown
from tests.support.publishing import connect, connected
from tests.support.watching import GRACE_S, RULES, agents, watching

FILE = "t.duckdb"


@on_a_loop
async def test_a_node_is_alive_with_its_first_beat_lost_when_it_falls_silent_and_alive_again(
    broker: AnyBroker, tmp_path: Path
) -> None:
    async with connected(broker.url) as nc:
        await ensure_streams(nc)
    async with agents(broker.url) as crowd, watching(broker.url, tmp_path / FILE) as watch:
        await crowd.register(["n1", "n2"])
        await watch.says("pending", "n1", "n2")
        crowd.beating = ["n1", "n2"]
        await watch.says("alive", "n1", "n2")
        crowd.beating = ["n2"]
        await watch.says("lost", "n1")
        crowd.beating = ["n1", "n2"]
        await watch.says("alive", "n1")
        said = [(about, verb) for about, verb, _ in watch.verdicts() if about == "n1"]
        lost = next(data for about, verb, data in watch.verdicts() if (about, verb) == ("n1", "lost"))

        assert said == [("n1", "alive"), ("n1", "lost"), ("n1", "alive")]
        assert [verb for about, verb, _ in watch.verdicts() if about == "n2"] == ["alive"]
        assert lost["grace_s"] == GRACE_S
        assert lost["silent_s"] >= GRACE_S
        assert lost["boot_id"] == "b1"
        assert lost["beat_seq"] > 0


@on_a_loop
async def test_a_connection_that_fails_is_replaced_by_another(broker: AnyBroker, tmp_path: Path) -> None:
    made: list[Client] = []

    async def connecting() -> Client:
        nc = await connect(broker.url)
        if not made:
            await nc.close()
        made.append(nc)
        return nc

    async with connected(broker.url) as nc:
        await ensure_streams(nc)
    with closing(Projection.open(tmp_path / FILE)) as projection:
        async with at_work(broker.url, projection):
            evaluator = Evaluator(projection, connecting, RULES)
            await evaluator.start()
            try:
                await shown(lambda: evaluator.mode() == "watching")
            finally:
                await evaluator.stop()

    assert len(made) == 2
