"""The broker configuration of the operations guide: an agent speaks for its own node and for no other."""

from __future__ import annotations

import asyncio
from pathlib import Path

import nats.errors
import pytest

from events.ids import node_id
from events.stream_admin import ensure_streams
from events.subjects import beat_subject, fact_subject
from fleetfold.agent.loop import Agent, End, Machine
from tests.support.broker import Broker, binary
from tests.support.publishing import connected, head, stream_reached

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(binary() is None, reason="needs a nats-server of its own, with a configuration"),
]

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "operations.md"
N1, N2 = node_id("n1"), node_id("n2")


def configured(folder: Path) -> Broker:
    """Return a broker with the users of the guide, not started."""
    text = GUIDE.read_text("utf-8").split("```text\nauthorization", 1)[1].split("```", 1)[0]
    text = text.replace('"change me"', "secret-0").replace('"change me too"', "secret-1")
    file = folder / "nats.conf"
    file.write_text(f"authorization{text}", "utf-8")
    return Broker(folder / "broker", config=file)


def as_user(broker: Broker, user: str, password: str) -> str:
    return broker.url.replace("nats://", f"nats://{user}:{password}@")


async def test_b34_an_agent_may_not_speak_on_another_nodes_subjects(tmp_path: Path) -> None:
    broker = configured(tmp_path).start()
    try:
        core, agent = as_user(broker, "core", "secret-0"), as_user(broker, "agent-n1", "secret-1")
        async with connected(core) as nc, connected(agent) as own:
            await ensure_streams(nc)
            for subject in (
                beat_subject(N2),
                fact_subject("agent", N2, "registered"),
                fact_subject("operator", N1, "cordoned"),
                fact_subject("liveness", N1, "alive"),
            ):
                await own.publish(subject, b"{}")
            # The broker takes them in order: once these are stored, what came before them was refused.
            for subject in (beat_subject(N1), fact_subject("agent", N1, "registered")):
                await own.publish(subject, b"{}")
            await own.flush()
            await stream_reached(nc, "FLEET", 1)
            await stream_reached(nc, "BEATS", 1)

            assert await head(nc, "FLEET") == 1
            assert await head(nc, "BEATS") == 1
            with pytest.raises(nats.errors.Error):
                await own.jetstream(timeout=1).stream_info("FLEET")
    finally:
        broker.stop()


async def test_the_reference_agent_lives_with_these_permissions(tmp_path: Path) -> None:
    broker = configured(tmp_path).start()
    try:
        async with connected(as_user(broker, "core", "secret-0")) as nc:
            await ensure_streams(nc)
            agent = Agent(Machine(node_id=N1, boot_id="b1", inventory=dict, usage=dict, interval_s=0.1))
            running = asyncio.create_task(agent.run(as_user(broker, "agent-n1", "secret-1")))
            try:
                await stream_reached(nc, "FLEET", 1)
                await stream_reached(nc, "BEATS", 3)
            finally:
                agent.stop()
                ended = await running

            assert ended is End.STOPPED
            assert await head(nc, "FLEET") == 2
    finally:
        broker.stop()
