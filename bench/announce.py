"""Changes at subscribers: from the broker's time of the fact to whoever follows, over NATS and over HTTP.

Labels are declared at a steady rate, each of which changes one node. One subscriber reads CHANGES, one reads
`GET /fleet/v1/changes/stream`; both note when each change came. The first row of each is a tenth of the rate,
which says what of it is waiting in line.

    python -m bench.announce [--rate 1000] [--seconds 20] [--nodes 2000]
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import json
import threading
import time
from datetime import datetime
from typing import NamedTuple

from nats.aio.client import Client
from nats.aio.msg import Msg

from bench.running import Service, broker, percentile, service, workplace
from bench.table import Table
from events.facts import LabelsSet
from events.ids import NodeId
from tests.support.publishing import connected, nodes, publish_all, registrations, stream_reached
from tests.support.strategies import said

TICK_S = 0.01
KIND = "labels.changed"
SETTLED_WITHIN_S = 120.0
NEVER_LOST_S = 86_400.0
# The interval that nodes say they have: none of them beats, and 2,000 verdicts at once would be measured too.


class Arrival(NamedTuple):
    """When a change came, in seconds since 1970, and its body."""

    at_s: float
    body: bytes


class HttpReader(threading.Thread):
    """Reads the stream of changes from now on."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self.arrived: list[Arrival] = []
        self.is_live = threading.Event()
        self._link = http.client.HTTPConnection("127.0.0.1", port, timeout=60)

    def run(self) -> None:
        """Read until the connection ends."""
        self._link.request("GET", f"/fleet/v1/changes/stream?after=now&kind={KIND}")
        answer = self._link.getresponse()
        name = b""
        while line := answer.readline():
            if line.startswith(b"event: "):
                name = line[7:-1]
                if name == b"caught_up":
                    self.is_live.set()
            elif line.startswith(b"data: ") and name == b"change":
                self.arrived.append(Arrival(time.time(), line[6:]))


class Subscriber:
    """Reads CHANGES through an ordered consumer, from now on."""

    def __init__(self) -> None:
        self.arrived: list[Arrival] = []

    async def begin(self, nc: Client) -> None:
        """Subscribe."""
        await nc.jetstream().subscribe(
            f"fleet.v1.node.*.{KIND}", ordered_consumer=True, cb=self._came, deliver_policy="new"
        )

    async def _came(self, message: Msg) -> None:
        self.arrived.append(Arrival(time.time(), message.data))


def latencies_ms(arrived: list[Arrival]) -> list[float]:
    """Return how long each change took from the broker's time of its fact, in milliseconds."""
    found = []
    for at_s, body in arrived:
        told = json.loads(body)
        cause_at = datetime.fromisoformat(told.get("data", told)["cause_at"])
        found.append(1000 * (at_s - cause_at.timestamp()))
    return found


async def declare(nc: Client, fleet: list[NodeId], *, rate: float, seconds: float) -> int:
    """Declare labels at a steady rate; return how many."""
    sent, began = 0, time.perf_counter()
    while (passed_s := time.perf_counter() - began) < seconds:
        while sent < passed_s * rate:
            subject, payload = said(LabelsSet(labels={"count": f"{rate:g}-{sent}"}), fleet[sent % len(fleet)])
            await nc.publish(subject, payload)
            sent += 1
        await asyncio.sleep(TICK_S)
    await nc.flush()
    return sent


async def measure(up: Service, url: str, *, nodes_count: int, rate: float, seconds: float) -> None:
    """Print how long changes take at a tenth of a rate and at all of it."""
    fleet = nodes(nodes_count)
    async with connected(url) as nc:
        head = await publish_all(nc, "FLEET", registrations(fleet, interval_s=NEVER_LOST_S))
        await asyncio.to_thread(up.wait_for, "FLEET", head, within_s=SETTLED_WITHIN_S)
        await stream_reached(nc, "CHANGES", 3 * nodes_count, timeout_s=SETTLED_WITHIN_S)
        table = Table(
            ("reader", ""), ("asked/s", ",.0f"), ("changes", ",d"), ("p50 ms", ",.1f"), ("p99 ms", ",.1f"),
            ("max ms", ",.1f"), ("CPU cores", ".2f"),
        )  # fmt: skip
        for load in (rate / 10, rate):
            subscriber, follower = Subscriber(), HttpReader(up.port)
            await subscriber.begin(nc)
            follower.start()
            await asyncio.to_thread(follower.is_live.wait, 60)
            cpu_s, began = up.child.cpu_s(), time.perf_counter()
            sent = await declare(nc, fleet, rate=load, seconds=seconds)
            while min(len(subscriber.arrived), len(follower.arrived)) < sent:
                await asyncio.sleep(TICK_S)
                if time.perf_counter() - began > seconds + SETTLED_WITHIN_S:
                    raise RuntimeError(
                        f"{len(subscriber.arrived)} and {len(follower.arrived)} of {sent} changes came"
                    )
            cores = (up.child.cpu_s() - cpu_s) / (time.perf_counter() - began)
            for name, arrived in (("CHANGES", subscriber.arrived), ("HTTP stream", follower.arrived)):
                late = latencies_ms(arrived)
                table.row(
                    name, load, len(late), percentile(late, 0.5), percentile(late, 0.99), max(late), cores
                )


def main() -> None:
    """Measure on a service of its own."""
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--rate", type=float, default=1_000, help="changes a second")
    asked.add_argument("--seconds", type=float, default=20)
    asked.add_argument("--nodes", type=int, default=2_000)
    chosen = asked.parse_args()
    with (
        workplace() as folder,
        broker(folder) as running,
        service(running.url, folder / "data", replica=False) as up,
    ):
        asyncio.run(
            measure(up, running.url, nodes_count=chosen.nodes, rate=chosen.rate, seconds=chosen.seconds)
        )


if __name__ == "__main__":
    main()
