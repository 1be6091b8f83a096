"""How dialects reach the log: beats and registrations that meet, verdicts that are waited for."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from pathlib import Path

from api.dialects.gateway import Gateway
from api.dialects.registration import Report
from consumers.evaluator import Evaluator
from events.facts import FactData
from events.ids import node_id
from projections.silence import LivenessRules
from projections.state import NodeState
from tests.support.brokers import AnyBroker
from tests.support.loops import on_a_loop
from tests.support.publishing import connect
from tests.support.serving import Serving, serving
from tests.support.waiting import until

N1 = node_id("stratum:n1")
REPORT = Report(native_id="n1", attributes={"role": "hybrid"})


async def _registered(served: Serving, gateway: Gateway) -> NodeState:
    def decide(state: NodeState | None) -> list[FactData]:
        return gateway.registration(state, REPORT)

    written = await gateway.write("n1", decide)
    assert written.state is not None
    return written.state


def _gateway(served: Serving) -> Gateway:
    return Gateway(served.answers, dialect="stratum", interval_s=60.0)


@on_a_loop
async def test_beats_through_two_gateways_are_all_taken(broker: AnyBroker, tmp_path: Path) -> None:
    async with serving(broker, tmp_path) as served:
        gateways = [_gateway(served), _gateway(served)]  # two processes, as far as locks go
        state = await _registered(served, gateways[0])

        await asyncio.gather(
            *(gateway.beat(state, used={"cpu": Decimal(n)}) for n in range(3) for gateway in gateways)
        )
        beat = served.projection.heartbeat(N1)

    assert beat is not None
    assert (beat.boot_id, beat.last_seq, beat.missed, beat.reordered) == ("stratum-1", 6, 0, 0)


@on_a_loop
async def test_registrations_that_meet_are_one_fact(broker: AnyBroker, tmp_path: Path) -> None:
    async with serving(broker, tmp_path) as served:
        gateways = [_gateway(served), _gateway(served)]

        states = await asyncio.gather(*(_registered(served, gateway) for gateway in gateways * 3))
        seq = await served.fleet_seq()

    assert {state.version for state in states} == {seq} == {1}


@on_a_loop
async def test_the_first_beat_is_answered_once_the_node_is_judged_alive(
    broker: AnyBroker, tmp_path: Path
) -> None:
    judging: list[Evaluator] = []
    mode = lambda: judging[0].mode() if judging else "off"  # noqa: E731
    async with serving(broker, tmp_path, liveness_mode=mode) as served:
        evaluator = Evaluator(served.projection, lambda: connect(broker.url), LivenessRules())
        judging.append(evaluator)
        await evaluator.start()
        try:
            await until(lambda: evaluator.status().reason.startswith("it has to watch"))
            gateway = _gateway(served)
            registered = await _registered(served, gateway)
            state = await gateway.beat(registered)
            seq = await served.fleet_seq()
            again = await gateway.beat(state)
        finally:
            await evaluator.stop()

    assert (registered.liveness, state.liveness, again.liveness) == ("pending", "alive", "alive")
    assert seq == again.version == 2


@on_a_loop
async def test_nodes_of_another_dialect_are_not_there(broker: AnyBroker, tmp_path: Path) -> None:
    async with serving(broker, tmp_path) as served:
        await served.publish("fleet.v1.agent.stratum%3An2.registered", b'{"boot_id":"b1","seq":1}')
        other = Gateway(served.answers, dialect="aria-pin", interval_s=30.0)
        gateway = _gateway(served)
        await _registered(served, gateway)

        found = [gateway.find("n1"), gateway.find("n2"), gateway.find("x" * 300), other.find("n1")]
        listed = [[state.node_id for state in await one.all()] for one in (gateway, other)]

    assert [state is not None for state in found] == [True, False, False, False]
    assert listed == [[N1], []]
