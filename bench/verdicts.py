"""Verdicts on silence: how soon after 3 × interval, how many a second, and whether one is ever false.

Two simulated halves of a fleet beat. How quickly all are alive is the rate of verdicts. Then one half is
killed at once, as by a power cut: the latency of a verdict is the time of `lost` minus that of the node's
last heartbeat, minus 3 × interval. Then the broker is killed for a while, and the service after it: nobody of
the living half may be called lost.

    python -m bench.verdicts [--nodes 20000] [--interval 10] [--outage 40] [--stop 40]
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import time
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

from bench.running import Child, Service, broker, percentile, service, workplace
from consumers.reader import BatchReader
from events.codec import Recorded, decode_fact
from events.errors import UnreadableError
from events.facts import Alive, Lost
from events.streams import FLEET_NAME
from tests.support.broker import Broker
from tests.support.publishing import head
from tests.support.reading import reading_client

PREFIXES = ("stay", "gone")
LOOK_EVERY_S = 0.1
GIVE_UP_AFTER_S = 600.0


class Verdict(NamedTuple):
    """One verdict of the log; `after` is how long after the node's last heartbeat it was stored."""

    node: str
    is_lost: bool
    stored_s: float
    after_s: float


async def _verdicts(url: str) -> list[Verdict]:
    nc = await reading_client(url)
    reader, last, found = BatchReader(nc, FLEET_NAME), await head(nc, FLEET_NAME), []
    try:
        async for batch in reader:
            rows = zip(batch.seqs, batch.stored_at_ns, batch.subjects, batch.payloads, strict=True)
            for seq, stored_at_ns, subject, payload in rows:
                try:
                    fact = decode_fact(
                        seq=int(seq),
                        stored_at_ns=int(stored_at_ns),
                        subject=subject.decode(),
                        payload=payload,
                    )
                except UnreadableError:
                    continue
                if isinstance(fact.data, Alive | Lost):
                    found.append(_verdict(fact, fact.data))
            if batch.cursor.seq >= last:
                return found
    finally:
        await reader.close()
        await nc.close()
    raise AssertionError("a reader never ends by itself")


def _verdict(fact: Recorded, data: Alive | Lost) -> Verdict:
    after = fact.stored_at - data.last_heartbeat_at if data.last_heartbeat_at else timedelta(0)
    return Verdict(
        str(fact.node_id), isinstance(data, Lost), fact.stored_at.timestamp(), after.total_seconds()
    )


def verdicts(url: str) -> list[Verdict]:
    """Return every verdict on a node that the log holds."""
    return asyncio.run(_verdicts(url))


def simulator(url: str, folder: Path, *, prefix: str, nodes: int, interval_s: float) -> Child:
    """Start one half of the fleet."""
    arguments = ["simulate", "--nats", url, "--nodes", str(nodes), "--prefix", prefix]
    return Child(*arguments, "--interval", str(interval_s), "--json", log=folder / f"{prefix}.log")


def by_state(up: Service) -> Counter[str]:
    """Return how many nodes are in each state."""
    return Counter(up.api.get("/status")["nodes_by_state"])


def wait_for(up: Service, state: str, count: int, *, or_until: float = GIVE_UP_AFTER_S) -> float:
    """Return how long it took until so many nodes were in a state."""
    began = time.perf_counter()
    while (found := by_state(up)[state]) < count:
        if time.perf_counter() - began > or_until:
            raise RuntimeError(f"{found} of {count} nodes are {state} after {or_until:g} s: {by_state(up)}")
        time.sleep(LOOK_EVERY_S)
    return time.perf_counter() - began


def told(name: str, *numbers: str) -> None:
    """Print one line of the table."""
    print(f"{name:44} {'  '.join(numbers)}", flush=True)


def false_lost(url: str) -> int:
    """Return how many verdicts `lost` there are on the half that never fell silent."""
    return sum(one.is_lost and one.node.startswith(PREFIXES[0]) for one in verdicts(url))


def all_alive(up: Service, url: str, nodes: int) -> None:
    """Measure how quickly a fleet that registers at once is alive."""
    wait_for(up, "ready", nodes)
    at = sorted(one.stored_s for one in verdicts(url))
    span_s = max(at[-1] - at[0], 1e-9)
    busiest = max(Counter(int(second) for second in at).values())
    told("all alive", f"{nodes:,} nodes in {span_s:.1f} s", f"busiest second {busiest:,} verdicts")


def half_lost(up: Service, url: str, *, nodes: int, interval_s: float, half: Child) -> None:
    """Measure how long after 3 × interval each node of a half that is killed is lost."""
    os.killpg(half.process.pid, signal.SIGKILL)
    half.process.wait()
    wait_for(up, "lost", nodes // 2)
    late_ms = [1000 * (one.after_s - 3 * interval_s) for one in verdicts(url) if one.is_lost]
    told(
        "half of the fleet killed",
        f"{len(late_ms):,} lost",
        f"after 3 × interval: p50 {percentile(late_ms, 0.5):.0f} ms, p99 {percentile(late_ms, 0.99):.0f} ms, "
        f"max {max(late_ms):.0f} ms, min {min(late_ms):.0f} ms",
        f"false: {false_lost(url)}",
    )


def settled(up: Service, *, interval_s: float) -> None:
    """Wait until whoever could be called lost by mistake would have been."""
    while up.api.get("/status")["liveness_mode"] != "watching":
        time.sleep(LOOK_EVERY_S)
    time.sleep(4 * interval_s)


def main() -> None:
    """Measure all of it on one fleet, one thing after the other."""
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--nodes", type=int, default=20_000)
    asked.add_argument("--interval", type=float, default=10.0, help="seconds between two heartbeats")
    asked.add_argument("--outage", type=float, default=40.0, help="seconds without the broker")
    asked.add_argument("--stop", type=float, default=40.0, help="seconds without the service")
    chosen = asked.parse_args()
    interval_s, half = chosen.interval, chosen.nodes // 2
    os.environ["FLEETFOLD_LIVENESS__INTERVAL_S"] = str(interval_s)
    os.environ["FLEETFOLD_LIVENESS__GRACE_S"] = str(3 * interval_s)
    # Half of each zone is killed, and is to be called lost node by node.
    os.environ["FLEETFOLD_LIVENESS__ZONE_SHARE"] = "1"
    with workplace() as folder, broker(folder) as running:
        halves = []
        try:
            with service(running.url, folder / "data", replica=False) as up:
                for prefix in PREFIXES:
                    halves.append(
                        simulator(running.url, folder, prefix=prefix, nodes=half, interval_s=interval_s)
                    )
                all_alive(up, running.url, 2 * half)
                time.sleep(2 * interval_s)
                half_lost(up, running.url, nodes=2 * half, interval_s=interval_s, half=halves[1])
                _outage(up, running, seconds=chosen.outage, interval_s=interval_s)
            time.sleep(chosen.stop)
            with service(running.url, folder / "data", replica=False) as up:
                settled(up, interval_s=interval_s)
                told(f"no service for {chosen.stop:g} s", f"false: {false_lost(running.url)}")
        finally:
            for one in halves:
                one.stop()


def _outage(up: Service, running: Broker, *, seconds: float, interval_s: float) -> None:
    running.kill()
    time.sleep(seconds)
    running.start()
    settled(up, interval_s=interval_s)
    told(f"no broker for {seconds:g} s", f"false: {false_lost(running.url)}")


if __name__ == "__main__":
    main()
