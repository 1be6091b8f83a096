"""Verdicts on silence on a real broker: alive, lost, heard again, and nothing said that is not so."""

from __future__ import annotations

from pathlib import Path

from events.stream_admin import ensure_streams
from tests.support.brokers import AnyBroker
from tests.support.loops import on_a_loop
from tests.support.publishing import connected
from tests.support.watching import GRACE_S, agents, watching

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
