"""Many agents from one process over the real protocol, for a first look and for measuring (floor 4).

Node `n` of `N` beats at `n/N` of the interval, so the stream of beats is even. A beat costs a few
microseconds because all of it but the counter, the time and the usage is encoded before the first one is
sent.
"""

from __future__ import annotations

import asyncio
import random
import secrets
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import orjson

from events.asks import decode_ask
from events.ids import token
from events.subjects import ROOT, beat_subject
from fleetfold.ack_window import WINDOW, AckWindow
from fleetfold.agent import messages
from fleetfold.agent.messages import FactMessage
from fleetfold.connection import connect
from fleetfold.simulated_nodes import SimulatedNode

if TYPE_CHECKING:
    from nats.aio.client import Client
    from nats.aio.msg import Msg

TICK_S = 0.02
# Beats that fall due within it go out together: 200 a tick at 10,000 a second, invisible beside an interval
# of seconds.
USAGE_STEPS = 32
# A node walks round this many usages of its kind; more would not look more real.
TELL_EVERY_S = 0.25
# Often enough for a person to see it move.


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a simulation is. `behind_s` is how late the last beats went out."""

    registered: int
    beats: int
    missed: int
    gone: int
    behind_s: float
    elapsed_s: float


@dataclass(frozen=True, slots=True)
class Report:
    """What a simulation did. `cpu_us_per_beat` is the time of this process, registrations excluded."""

    nodes: int
    registered: int
    register_s: float
    beats: int
    missed: int
    beat_s: float
    cpu_us_per_beat: float
    max_behind_s: float


OnProgress = Callable[[Progress], None]


async def simulate(
    url: str,
    nodes: Iterable[SimulatedNode],
    *,
    interval_s: float,
    duration_s: float | None = None,
    connections: int = 1,
    seed: int = 0,
    on_progress: OnProgress = lambda progress: None,
    stop: asyncio.Event | None = None,
) -> Report:
    """Register the nodes, then let each beat every interval for `duration_s` seconds, or until `stop` is set.

    The nodes fall silent in the end, as machines without power do. Raises BrokerUnavailableError where
    registrations are not acknowledged, RefusedError where the stream refuses them.
    """
    ncs = [await connect(url, name=f"simulator {number}") for number in range(connections)]
    try:
        crowd = _Crowd(list(nodes), ncs, interval_s=interval_s, seed=seed, on_progress=on_progress)
        return await crowd.run(duration_s, stop or asyncio.Event())
    finally:
        for nc in ncs:
            await nc.close()


class _Crowd:
    """The nodes of one simulation and what they have said so far."""

    def __init__(
        self,
        nodes: Sequence[SimulatedNode],
        ncs: Sequence[Client],
        *,
        interval_s: float,
        seed: int,
        on_progress: OnProgress,
    ) -> None:
        self._nodes, self._ncs, self._interval_s = nodes, ncs, interval_s
        self._on_progress = on_progress
        self._run_id = secrets.token_hex(4)
        self._subjects = [beat_subject(node.node_id) for node in nodes]
        self._heads = [f'{{"boot_id":"{self._boot_id(n)}","seq":'.encode() for n in range(len(nodes))]
        self._tails = [f'","inventory":"{node.digest}","used":'.encode() for node in nodes]
        chosen = random.Random(seed)
        kinds: dict[tuple[tuple[str, float], ...], list[bytes]] = {}
        self._usages: list[list[bytes]] = []
        for node in nodes:
            totals = tuple((name, r["total"]) for name, r in node.inventory["resources"].items())
            if totals not in kinds:
                kinds[totals] = list(_walk(dict(totals), chosen))
            self._usages.append(kinds[totals])
        self._steps = bytes(chosen.randrange(USAGE_STEPS) for _ in nodes)
        self._by_token = {token(node.node_id): number for number, node in enumerate(nodes)}
        self._is_gone = bytearray(len(nodes))
        self._asked: set[int] = set()
        self._registered = self._beats = self._missed = self._gone = 0
        self._behind_s = self._max_behind_s = 0.0
        self._began = time.monotonic()

    async def run(self, duration_s: float | None, stop: asyncio.Event) -> Report:
        await self._ncs[0].subscribe(f"{ROOT}.ask.*", cb=self._on_ask)
        await _first_of(self._register(range(len(self._nodes))), stop.wait())
        register_s = time.monotonic() - self._began
        cpu_s, began = time.process_time(), time.monotonic()
        if self._nodes:
            await self._beat_until(None if duration_s is None else began + duration_s, stop)
        self._tell()
        return Report(
            nodes=len(self._nodes),
            registered=self._registered,
            register_s=register_s,
            beats=self._beats,
            missed=self._missed,
            beat_s=time.monotonic() - began,
            cpu_us_per_beat=(time.process_time() - cpu_s) / max(self._beats, 1) * 1e6,
            max_behind_s=self._max_behind_s,
        )

    async def _beat_until(self, end: float | None, stop: asyncio.Event) -> None:
        """Send what falls due, tick by tick. Beat number `b` is that of node `b % N`, at `b/N` intervals."""
        count, began, sent = len(self._nodes), time.monotonic(), 0
        told = began
        while not stop.is_set() and (end is None or time.monotonic() < end):
            now = time.monotonic()
            due = int((now - began) / self._interval_s * count) + 1
            if due - sent > count:  # we slept for more than an interval: what was missed is not made up for
                self._missed += due - count - sent
                sent = due - count
            await self._send(sent, due)
            self._behind_s = time.monotonic() - began - sent / count * self._interval_s
            self._max_behind_s = max(self._max_behind_s, self._behind_s)
            sent = due
            if self._asked:
                asked, self._asked = self._asked, set()
                await self._register(sorted(asked))
            if now - told >= TELL_EVERY_S:
                told = now
                self._tell()
            next_due_s = began + (sent / count) * self._interval_s - time.monotonic()
            await asyncio.sleep(max(next_due_s, TICK_S - (time.monotonic() - now), 0))

    async def _send(self, first: int, after: int) -> None:
        """Publish the beats `first` to `after` - 1."""
        count = len(self._nodes)
        sent_at = messages.rfc3339(datetime.now(UTC)).encode()
        cycle, number = divmod(first, count)
        middle = b'%d,"sent_at":"%b' % (cycle + 2, sent_at)
        heads, tails, usages, steps, subjects = (
            self._heads,
            self._tails,
            self._usages,
            self._steps,
            self._subjects,
        )
        is_gone, ncs, width = self._is_gone, self._ncs, len(self._ncs)
        can_send = [nc.is_connected for nc in ncs]
        for _ in range(first, after):
            if is_gone[number]:
                pass
            elif can_send[number % width]:
                used = usages[number][(steps[number] + cycle) % USAGE_STEPS]
                payload = b"%b%b%b%b}" % (heads[number], middle, tails[number], used)
                await ncs[number % width].publish(subjects[number], payload)
                self._beats += 1
            else:
                self._missed += 1
            number += 1
            if number == count:
                number, cycle = 0, cycle + 1
                middle = b'%d,"sent_at":"%b' % (cycle + 2, sent_at)

    async def _register(self, numbers: Sequence[int]) -> None:
        """Publish registrations, many at once, until each is acknowledged."""
        window = AckWindow(self._ncs[0])
        await window.open()
        try:
            for position, number in enumerate(numbers, 1):
                await window.publish(self._registration(number))
                if position % WINDOW == 0:
                    self._tell(window.acknowledged)
            await window.drain()
        finally:
            self._registered += window.acknowledged
            await window.close()
        self._tell()

    def _registration(self, number: int) -> FactMessage:
        node = self._nodes[number]
        return messages.registration(
            node.node_id,
            boot_id=self._boot_id(number),
            seq=1,
            at=datetime.now(UTC),
            inventory=node.inventory,
            digest=node.digest,
        )

    def _boot_id(self, number: int) -> str:
        return f"{self._run_id}-{number:x}"

    async def _on_ask(self, msg: Msg) -> None:
        number = self._by_token.get(msg.subject.rpartition(".")[2])
        ask = decode_ask(msg.data)
        if number is None or ask is None:
            return
        match ask.word:
            case "register":
                self._asked.add(number)
            case "gone":
                self._gone += not self._is_gone[number]
                self._is_gone[number] = 1
            case "probe":
                if msg.reply:
                    node = self._nodes[number]
                    await msg.respond(
                        messages.self_portrait(
                            node.node_id,
                            boot_id=self._boot_id(number),
                            seq=self._beats // len(self._nodes) + 2,
                            at=datetime.now(UTC),
                            digest=node.digest,
                        )
                    )

    def _tell(self, registering: int = 0) -> None:
        self._on_progress(
            Progress(
                registered=self._registered + registering,
                beats=self._beats,
                missed=self._missed,
                gone=self._gone,
                behind_s=self._behind_s,
                elapsed_s=time.monotonic() - self._began,
            )
        )


async def _first_of(*works: Coroutine[Any, Any, object]) -> None:
    """Wait for one of several; the others are cancelled, and what one raises is raised."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in done:
        task.result()


def _walk(totals: dict[str, float], chosen: random.Random) -> Iterator[bytes]:
    """Make the usages of one kind of machine, each near the one before, as JSON."""
    load = chosen.uniform(0.1, 0.8)
    for _ in range(USAGE_STEPS):
        load = min(0.98, max(0.02, load + chosen.uniform(-0.08, 0.08)))
        used: dict[str, int | float] = {"cpu": round(totals["cpu"] * load, 3)}
        used["memory"] = int(totals["memory"] * min(0.95, load * 0.9 + 0.05))
        if "disk" in totals:
            used["disk"] = int(totals["disk"] * (0.2 + load * 0.3))
        if "gpu" in totals:
            used["gpu"] = round(totals["gpu"] * load, 2)
        yield orjson.dumps(used)
