"""Facts that the API appends: decided on the newest state, folded when the answer comes."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from api.answers import Answers
from api.writing import Writer
from events.errors import BrokerUnavailableError, ConflictError
from events.facts import Cordoned, FactData, LabelsSet
from events.ids import node_id
from projections.state import NodeState
from tests.support.brokers import AnyBroker
from tests.support.loops import on_a_loop
from tests.support.serving import serving

N1 = node_id("n1")


def _count(state: NodeState | None) -> list[FactData]:
    have = int(state.effective_labels.get("count", "0")) if state else 0
    return [LabelsSet(labels={"count": str(have + 1)})]


@on_a_loop
async def test_a_write_is_folded_when_it_is_answered(broker: AnyBroker, tmp_path: Path) -> None:
    async with serving(broker, tmp_path) as served:
        writer = Writer(served.answers, source="/api")

        written = await writer.write(N1, lambda _state: [Cordoned(owner="ops", reason="disk")])

        assert written.before is None
        assert written.state is not None
        assert [hold.reason for hold in written.state.holds] == ["disk"]
        assert written.state.version == written.seqs[-1]


@on_a_loop
async def test_writers_that_meet_lose_no_update(broker: AnyBroker, tmp_path: Path) -> None:
    async with serving(broker, tmp_path) as served:
        writers = [
            Writer(served.answers, source="/api") for _ in range(4)
        ]  # four processes, as far as locks go

        await asyncio.gather(*(writer.write(N1, _count) for writer in writers for _ in range(5)))

        state = served.answers.projection.node(N1)
        assert state is not None
        assert state.effective_labels["count"] == "20"


@on_a_loop
async def test_a_version_that_was_read_is_held_to(broker: AnyBroker, tmp_path: Path) -> None:
    async with serving(broker, tmp_path) as served:
        writer = Writer(served.answers, source="/api")
        first = await writer.write(N1, _count)

        with pytest.raises(ConflictError):
            await writer.write(N1, _count, expect=first.seqs[-1] - 1)

        assert (await writer.write(N1, _count, expect=first.seqs[-1])).seqs


@on_a_loop
async def test_a_node_with_unreadable_records_alone_can_be_written(broker: AnyBroker, tmp_path: Path) -> None:
    async with serving(broker, tmp_path) as served:
        await served.publish("fleet.v1.agent.n1.registered", b"not json")

        written = await Writer(served.answers, source="/api").write(N1, _count)

        assert written.seqs == (2,)


@on_a_loop
async def test_what_is_already_so_appends_nothing(broker: AnyBroker, tmp_path: Path) -> None:
    async with serving(broker, tmp_path) as served:
        written = await Writer(served.answers, source="/api").write(N1, lambda _state: [])

        assert (written.seqs, written.state) == ((), None)


@on_a_loop
async def test_without_a_connection_nothing_is_half_done(broker: AnyBroker, tmp_path: Path) -> None:
    async with serving(broker, tmp_path) as served:
        answers = Answers(replace(served.answers.service, nc=None))
        try:
            with pytest.raises(Exception, match="no connection"):
                await Writer(answers, source="/api").write(N1, _count)
        finally:
            answers.close()
        assert served.answers.projection.node(N1) is None


@on_a_loop
async def test_whoever_waits_behind_a_broker_that_is_gone_is_told_with_the_first(
    own_broker: AnyBroker, tmp_path: Path
) -> None:
    async with serving(own_broker, tmp_path) as served:
        writer = Writer(served.answers, source="/api")
        await writer.write(N1, _count)
        own_broker.freeze()
        try:
            first = asyncio.create_task(writer.write(N1, _count))
            behind = [asyncio.create_task(writer.write(N1, _count)) for _ in range(50)]
            with pytest.raises(BrokerUnavailableError, match="no answer within"):
                await first
            told = await asyncio.gather(*behind, return_exceptions=True)
        finally:
            own_broker.thaw()

        assert {str(one) for one in told} == {
            "writing about n1: the broker did not answer (nor to others before in the queue): "
            "check that it runs and retry"
        }


@on_a_loop
async def test_after_a_broker_that_was_gone_the_next_one_writes(
    own_broker: AnyBroker, tmp_path: Path
) -> None:
    async with serving(own_broker, tmp_path) as served:
        writer = Writer(served.answers, source="/api")
        own_broker.freeze()
        try:
            with pytest.raises(BrokerUnavailableError):
                await writer.write(N1, _count)
        finally:
            own_broker.thaw()

        again = await writer.write(N1, _count)

        assert again.state is not None
        assert int(again.state.effective_labels["count"]) in (1, 2)  # nobody knows whether the first arrived
