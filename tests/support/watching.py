"""An evaluator at work beside a projector, and agents that beat as long as they are told to."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

from nats.aio.client import Client

from consumers.evaluator import Evaluator
from consumers.projector import Projector
from events import facts
from events.append import append
from events.asks import decode_ask
from events.digest import inventory_digest
from events.envelope import new_event
from events.ids import NodeId, token
from events.stream_admin import ensure_streams
from events.subjects import ask_subject, beat_subject, fact_subject
from projections.judging import Outlook
from projections.projection import Projection
from projections.silence import LivenessRules
from tests.support.projecting import shown
from tests.support.publishing import connect, connected
from tests.support.reading import reading_client

INTERVAL_S, GRACE_S = 0.2, 0.6
BOOT = "b1"
RULES = LivenessRules(interval_s=INTERVAL_S, grace_s=GRACE_S)


@dataclass
class Watching:
    """Everything that one core process has of it."""

    projection: Projection
    projector: Projector
    evaluator: Evaluator

    def liveness(self, node: str) -> str:
        """What the facts say of a node; "" where there are none."""
        state = self.projection.node(NodeId(node))
        return "" if state is None else state.liveness

    def verdicts(self) -> list[tuple[str, str, dict[str, Any]]]:
        """Every verdict in the log, in order: node or zone, verb, data."""
        with self.projection.cursor() as cursor:
            rows = cursor.execute(
                "SELECT coalesce(node_id, url_decode(substr(split_part(subject, '.', 4), 2))), "
                'split_part("type", \'.\', 3), "data" FROM main.fact '
                "WHERE split_part(\"type\", '.', 2) IN ('liveness', 'zone') ORDER BY seq"
            ).fetchall()
        return [(about, verb, json.loads(data)) for about, verb, data in rows]

    def count(self) -> Counter[str]:
        """How many verdicts of each verb the log holds."""
        return Counter(verb for _, verb, _ in self.verdicts())

    def about(self, node: str) -> list[str]:
        """The verdicts on one node, in order."""
        return [verb for about, verb, _ in self.verdicts() if about == node]

    def first_stored(self, verb: str) -> str:
        """When the first verdict of a verb was stored, as RFC 3339."""
        with self.projection.cursor() as cursor:
            query = "SELECT min(stored_at)::VARCHAR FROM main.fact WHERE subject LIKE ?"
            found = str(cursor.execute(query, [f"%.{verb}"]).fetchall()[0][0])
        return found.replace(" ", "T")

    def outlook(self, node: str) -> Outlook:
        """What is to be expected of a node that is known."""
        found = self.evaluator.outlook(NodeId(node))
        assert found is not None
        return found

    async def says(self, liveness: str, *nodes: str, timeout_s: float = 20) -> None:
        """Wait until the facts say so of every node."""
        try:
            await shown(lambda: {self.liveness(node) for node in nodes} == {liveness}, timeout_s=timeout_s)
        except TimeoutError:
            found = Counter(self.liveness(node) for node in nodes)
            raise AssertionError(
                f"{liveness} was awaited, found {found}, {self.evaluator.status()}"
            ) from None


@asynccontextmanager
async def watching(
    url: str, path: Path, *, rules: LivenessRules = RULES, tables: Projection | None = None
) -> AsyncIterator[Watching]:
    """Fold and judge for the length of a block."""
    async with AsyncExitStack() as closing:
        projection = tables if tables is not None else Projection.open(path)
        closing.callback(projection.close)
        projector = Projector(projection, lambda: reading_client(url))
        evaluator = Evaluator(projection, lambda: connect(url), rules)
        closing.push_async_callback(projector.stop)
        await projector.start()
        closing.push_async_callback(evaluator.stop)
        await evaluator.start()
        yield Watching(projection, projector, evaluator)


class Agents:
    """Agents on one connection. Those in `beating` beat every interval, each in its phase."""

    def __init__(self, nc: Client, *, interval_s: float = INTERVAL_S) -> None:
        self.beating: list[NodeId] = []
        self.asked: list[tuple[NodeId, str]] = []
        self._nc, self._interval_s, self._seq = nc, interval_s, 1

    async def register(self, nodes: Iterable[str], **more: Any) -> None:  # noqa: ANN401 (members of the report)
        """Say what each node is."""
        for node in nodes:
            await self.publish_registration(NodeId(node), **more)
        await self._nc.flush()

    async def publish_registration(self, node: NodeId, **more: Any) -> None:  # noqa: ANN401
        self._seq += 1
        said = {"boot_id": BOOT, "seq": self._seq, "machine_id": f"m-{node}", **more}
        await self._nc.publish(fact_subject("agent", node, "registered"), json.dumps(said).encode())

    def digest_of(self, node: str, **more: Any) -> str:  # noqa: ANN401 (members of the report)
        """The digest of what `register` says."""
        return inventory_digest({"machine_id": f"m-{node}", **more})

    async def beat(self, nodes: Iterable[str], *, boot_id: str = BOOT, inventory: str = "") -> None:
        """Let each node beat once."""
        self._seq += 1
        said = {"boot_id": boot_id, "seq": self._seq} | ({"inventory": inventory} if inventory else {})
        for node in nodes:
            await self._nc.publish(beat_subject(NodeId(node)), json.dumps(said).encode())

    async def listen(self, *nodes: str, probe: Callable[[NodeId], bytes | None] = lambda _: None) -> None:
        """Take note of what these nodes are asked; `probe` gives the answer of one that is probed."""
        by_token = {token(NodeId(node)): NodeId(node) for node in nodes}

        async def asked(msg: Any) -> None:  # noqa: ANN401 (nats-py has no types)
            node, ask = by_token[msg.subject.rpartition(".")[2]], decode_ask(msg.data)
            assert ask is not None
            self.asked.append((node, ask.word))
            if ask.word == "probe" and (answer := probe(node)) is not None:
                await msg.respond(answer)

        for node in by_token.values():
            await self._nc.subscribe(ask_subject(node), cb=asked)
        await self._nc.flush()
        await self._nc.flush()

    async def keep_beating(self) -> None:
        """Beat until cancelled; an agent that is not connected misses its beat."""
        loop, steps = asyncio.get_running_loop(), 8
        due, step = loop.time(), 0
        while True:
            if self._nc.is_connected:
                await self.beat(self.beating[step % steps :: steps])
            step, due = step + 1, due + self._interval_s / steps
            await asyncio.sleep(max(0.0, due - loop.time()))


@asynccontextmanager
async def agents(url: str, *beating: str, interval_s: float = INTERVAL_S) -> AsyncIterator[Agents]:
    """Agents for the length of a block."""
    nc = await connect(url)
    crowd = Agents(nc, interval_s=interval_s)
    crowd.beating = [NodeId(node) for node in beating]
    task = asyncio.create_task(crowd.keep_beating())
    try:
        yield crowd
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await nc.close()


@asynccontextmanager
async def fleet_log(url: str) -> AsyncIterator[Client]:
    """A connection to a broker with our streams."""
    async with connected(url) as nc:
        await ensure_streams(nc)
        yield nc


async def all_alive(crowd: Agents, watch: Watching, nodes: list[str], **said: object) -> None:
    """Register nodes and let them beat until each is alive."""
    await crowd.register(nodes, **said)
    crowd.beating += [NodeId(node) for node in nodes]
    await watch.says("alive", *nodes)


async def operator_says(nc: Client, node: str, verb: str) -> int:
    """Append what an operator decided, whatever was said before; return the position."""
    said = {"retired": facts.Retired, "restored": facts.Restored}[verb](actor="ops", reason="test")
    event = new_event(said, about=NodeId(node), source="/test", event_id=uuid4().hex, time=datetime.now(UTC))
    return await append(nc, event, expect=None)


def later(seconds: float) -> Callable[[], bool]:
    """Say when so much time has passed: for what lasts by intention, such as an outage."""
    until = time.monotonic() + seconds
    return lambda: time.monotonic() >= until
