"""What a large fleet goes through in half an hour of its own time: nobody is called lost who beats."""

from __future__ import annotations

from pathlib import Path

from events.facts import Lost
from tests.support.scenario.world import world

NODES = 20_000
DAY_S = 86_400
SETTLED_S = 50
# Longer than any grace that could still end in a false verdict.


def test_a_large_fleet_goes_through_outage_stop_and_steps_of_clocks_without_one_false_verdict(
    tmp_path: Path,
) -> None:
    with world(tmp_path) as fleet:
        fleet.seed(NODES, zones=8)
        modes = []
        for disturb in (
            lambda: fleet.outage(60),
            lambda: fleet.restart(down_s=600),
            lambda: fleet.step_clocks(broker_s=DAY_S),
            lambda: fleet.step_clocks(broker_s=-2 * DAY_S, service_s=DAY_S),
            lambda: fleet.step_clocks(service_s=-2 * DAY_S),
        ):
            disturb()
            fleet.advance(SETTLED_S)
            modes.append(fleet.service.mode())
        told = fleet.told()
        fleet.power("n17", is_on=False)
        fleet.advance(35)
        lost = [one.node_id for one in fleet.verdicts() if isinstance(one.data, Lost)]

        assert told == {"alive": NODES}
        assert modes == [("watching", "")] * 5
        assert lost == ["n17"]
