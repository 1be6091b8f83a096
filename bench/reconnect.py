"""A storm of agents that come back after the broker: until all beat again, and whether one is ever false.

Two crowds beat: reference agents, each on a connection of its own, and simulated nodes that share a few. The
broker is killed for a while and started again on the same store. Told is how long it takes from then on until
the agents are connected, until every node was heard again, and until the service is less than a second
behind for good; how many registrations came of it, and how many verdicts `lost`: none, either of them.

    python -m bench.reconnect [--connections 2000] [--nodes 100000] [--interval 20] [--outage 30]
"""

from __future__ import annotations

import argparse
import asyncio
import os
import resource
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from bench.running import Child, Service, broker, service, simulator, workplace
from bench.verdicts import told, wait_for
from consumers.reader import BatchReader
from events.log import Cursor
from events.streams import BEATS_NAME, FLEET_NAME
from events.subjects import beat_subject
from fleetfold.agent.loop import Agent, Machine
from fleetfold.simulated_nodes import SimulatedNode, invented
from tests.support.publishing import head
from tests.support.reading import reading_client

PREFIX = "agent"
SAMPLE_EVERY_S = 0.1
GIVE_UP_AFTER_S = 300.0
FILES = 65_536
QUIET_S = 10.0
# So long the service has to be less than a second behind before that counts as for good.


async def run_agents(url: str, count: int, interval_s: float) -> None:
    """Run so many reference agents in this process until it is ended."""
    nodes = list(invented(count, prefix=PREFIX, seed=7, interval_s=interval_s))
    await asyncio.gather(*[Agent(_machine(node, interval_s)).run(url) for node in nodes])


def _machine(node: SimulatedNode, interval_s: float) -> Machine:
    usage: dict[str, int | float] = {"cpu": 1.5}
    return Machine(
        node_id=node.node_id,
        boot_id=f"{os.getpid()}-{node.node_id}",
        inventory=lambda: node.inventory,
        usage=lambda: usage,
        interval_s=interval_s,
    )


class AgentsProcess:
    """The reference agents, in a process of their own."""

    def __init__(self, url: str, folder: Path, *, count: int, interval_s: float) -> None:
        self._log = (folder / "agents.log").open("ab")
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-m", "bench.reconnect", "--agents-of", url),
                *("--connections", str(count), "--interval", str(interval_s)),
            ],
            stdout=self._log,
            stderr=self._log,
            cwd=Path(__file__).resolve().parent.parent,
        )

    def connections(self) -> int:
        """Return how many connections to the broker the process has."""
        import psutil  # noqa: PLC0415 - a measurement's, not the agents'

        found = psutil.Process(self.process.pid).net_connections("tcp")
        return sum(one.status == psutil.CONN_ESTABLISHED for one in found)

    def stop(self) -> None:
        """End it."""
        self.process.kill()
        self.process.wait()
        self._log.close()


async def _heads(url: str) -> tuple[int, int]:
    nc = await reading_client(url)
    try:
        return await head(nc, FLEET_NAME), await head(nc, BEATS_NAME)
    finally:
        await nc.close()


async def _heard_again(url: str, wanted: set[bytes], after: int, began: float) -> tuple[float, float]:
    """Return when half of the nodes were heard and when all were, in seconds since `began`."""
    nc = await reading_client(url)
    reader, count, half_s = BatchReader(nc, BEATS_NAME, after=Cursor(seq=after)), len(wanted), 0.0
    try:
        async with asyncio.timeout(GIVE_UP_AFTER_S):
            async for batch in reader:
                wanted.difference_update(batch.subjects)
                if not half_s and len(wanted) <= count / 2:
                    half_s = time.perf_counter() - began
                if not wanted:
                    return half_s, time.perf_counter() - began
    finally:
        await reader.close()
        await nc.close()
    raise AssertionError("a reader never ends by itself")


async def _facts_since(url: str, after: int) -> Counter[str]:
    """Return how many records of each verb FLEET has after a position."""
    nc = await reading_client(url)
    reader, last, found = (
        BatchReader(nc, FLEET_NAME, after=Cursor(seq=after)),
        await head(nc, FLEET_NAME),
        after,
    )
    verbs: Counter[str] = Counter()
    try:
        if found >= last:
            return verbs
        async for batch in reader:
            verbs.update(subject.decode().rpartition(".")[2] for subject in batch.subjects)
            if batch.cursor.seq >= last:
                return verbs
    finally:
        await reader.close()
        await nc.close()
    raise AssertionError("a reader never ends by itself")


async def _storm(
    up: Service, url: str, agents: AgentsProcess, wanted: set[bytes], after: int, *, connections: int
) -> dict[str, Any]:
    """Watch what comes back from now on; return the figures, in seconds and milliseconds."""
    began = time.perf_counter()
    hearing = asyncio.create_task(_heard_again(url, wanted, after, began))
    connected_s, behind_until_s, most_lag_ms = 0.0, 0.0, 0.0
    while time.perf_counter() - began < GIVE_UP_AFTER_S:
        at_s = time.perf_counter() - began
        status = await asyncio.to_thread(up.api.get, "/status")
        lag_ms = float(status["lag_ms"] or 0.0)
        most_lag_ms = max(most_lag_ms, lag_ms)
        if lag_ms >= 1_000 or status["liveness_mode"] == "degraded":
            behind_until_s = at_s
        if not connected_s and await asyncio.to_thread(agents.connections) >= connections:
            connected_s = at_s
        if hearing.done() and connected_s and at_s - behind_until_s > QUIET_S:
            break
        await asyncio.sleep(SAMPLE_EVERY_S)
    half_s, all_s = await hearing
    return {
        "connected_s": connected_s, "half_s": half_s, "all_s": all_s,
        "behind_until_s": behind_until_s, "most_lag_ms": most_lag_ms,
    }  # fmt: skip


def main() -> None:
    """Measure one storm."""
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--connections", type=int, default=2_000, help="agents with a connection of their own")
    asked.add_argument("--nodes", type=int, default=100_000, help="simulated nodes, on a few connections")
    asked.add_argument("--interval", type=float, default=20.0, help="seconds between two heartbeats")
    asked.add_argument("--outage", type=float, default=30.0, help="seconds without the broker")
    asked.add_argument("--agents-of", default="", help=argparse.SUPPRESS)
    chosen = asked.parse_args()
    _allow_files()
    if chosen.agents_of:
        asyncio.run(run_agents(chosen.agents_of, chosen.connections, chosen.interval))
        return
    os.environ["FLEETFOLD_LIVENESS__INTERVAL_S"] = str(chosen.interval)
    os.environ["FLEETFOLD_LIVENESS__GRACE_S"] = str(3 * chosen.interval)
    count = chosen.nodes + chosen.connections
    with workplace() as folder, broker(folder) as running:
        crowd: Child | None = None
        agents: AgentsProcess | None = None
        try:
            with service(running.url, folder / "data", replica=False) as up:
                crowd = simulator(
                    running.url, folder / "crowd.log", nodes=chosen.nodes, interval_s=chosen.interval
                )
                agents = AgentsProcess(
                    running.url, folder, count=chosen.connections, interval_s=chosen.interval
                )
                ready_s = wait_for(up, "ready", count, or_until=GIVE_UP_AFTER_S)
                told("all alive", f"{count:,} nodes after {ready_s:.0f} s")
                time.sleep(1.5 * chosen.interval)
                wanted = _subjects(up, chosen.nodes, chosen.connections, chosen.interval)
                running.kill()
                time.sleep(chosen.outage)
                running.start()
                fleet, beats = asyncio.run(_heads(running.url))
                found = asyncio.run(
                    _storm(up, running.url, agents, wanted, beats, connections=chosen.connections)
                )
                told(f"{chosen.connections:,} agents connected", f"after {found['connected_s']:.1f} s")
                told(
                    f"{count:,} nodes heard again",
                    f"half after {found['half_s']:.1f} s",
                    f"all after {found['all_s']:.1f} s",
                )
                told(
                    "service less than 1 s behind for good",
                    f"after {found['behind_until_s']:.1f} s",
                    f"most lag {found['most_lag_ms']:.0f} ms",
                )
                time.sleep(4 * chosen.interval)
                facts = asyncio.run(_facts_since(running.url, fleet))
                told(
                    "said after the outage",
                    f"registrations: {facts['registered']}",
                    f"false lost: {facts['lost'] + facts['silent']}",
                )
                told(
                    "memory",
                    f"service {up.child.rss_bytes() / 2**20:.0f} MB",
                    f"2,000 bytes a node are {2_000 * count / 2**20:.0f} MB",
                )
        finally:
            if agents is not None:
                agents.stop()
            if crowd is not None:
                crowd.stop()


def _subjects(up: Service, nodes: int, connections: int, interval_s: float) -> set[bytes]:
    """Return the subjects on which all nodes beat."""
    agents = {node.node_id for node in invented(connections, prefix=PREFIX, seed=7, interval_s=interval_s)}
    found, cursor = set(), ""
    while True:
        page = up.api.get(f"/nodes?limit=1000{cursor}")
        found.update(item["id"] for item in page["items"])
        if not page["next_cursor"]:
            break
        cursor = f"&cursor={page['next_cursor']}"
    assert agents <= found, "every agent registered"
    assert len(found) == nodes + connections, "nobody else did"
    return {beat_subject(node).encode() for node in found}


def _allow_files() -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(
        resource.RLIMIT_NOFILE, (FILES if most == resource.RLIM_INFINITY else min(FILES, most), most)
    )


if __name__ == "__main__":
    main()
