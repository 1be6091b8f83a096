"""Memory of the service: bytes a node resident, and whether it stays flat while beats are folded.

The same service is started with a small fleet and with a large one; the difference of both, by the
difference of their nodes, is what a node costs. Then agents beat for a while, and the resident memory is
printed as it goes.

    python -m bench.memory [--nodes 100000] [--rate 20000] [--seconds 120]
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from bench.running import Service, broker, service, simulator, workplace
from bench.steady import wait_until_steady
from bench.table import Table

SMALL = 1_000


def _registered(folder: Path, url: str, data: Path, nodes: int) -> None:
    with service(url, data, replica=False) as up:
        agents = simulator(url, folder / "simulator.log", nodes=nodes, interval_s=3600, duration_s=1)
        agents.process.wait(600)
        agents.stop()
        while up.api.get("/status")["nodes"] < nodes:
            time.sleep(0.1)


def resident_bytes(nodes: int) -> int:
    """Return the resident memory of a service that started with so many nodes in its tables."""
    with workplace() as folder, broker(folder) as running:
        _registered(folder, running.url, folder / "data", nodes)
        with service(running.url, folder / "data", replica=False) as up:
            up.api.get("/nodes?limit=100")
            return up.child.rss_bytes()


def flat(up: Service, *, seconds: float) -> None:
    """Print the resident memory a few times while beats are folded."""
    table = Table(("after s", ".0f"), ("RSS MB", ",.0f"), ("folded", ",d"))
    began = time.perf_counter()
    for step in range(9):
        time.sleep(max(0.0, began + seconds * step / 8 - time.perf_counter()))
        table.row(time.perf_counter() - began, up.child.rss_bytes() / 1e6, up.folded("BEATS"))


def main() -> None:
    """Print what a node costs, then the memory over time."""
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--nodes", type=int, default=100_000)
    asked.add_argument("--rate", type=int, default=20_000)
    asked.add_argument("--seconds", type=float, default=120.0)
    chosen = asked.parse_args()
    small, large = resident_bytes(SMALL), resident_bytes(chosen.nodes)
    each = (large - small) / (chosen.nodes - SMALL)
    print(f"RSS with {SMALL:,} nodes {small / 1e6:.0f} MB, with {chosen.nodes:,} {large / 1e6:.0f} MB")
    print(f"a node costs {each:.0f} bytes")
    with (
        workplace() as folder,
        broker(folder) as running,
        service(running.url, folder / "data", replica=False) as up,
    ):
        agents = simulator(
            running.url, folder / "simulator.log", nodes=chosen.nodes, interval_s=chosen.nodes / chosen.rate
        )
        try:
            wait_until_steady(up, running, agents.process.pid, nodes=chosen.nodes, rate=chosen.rate)
            flat(up, seconds=chosen.seconds)
        finally:
            agents.stop()


if __name__ == "__main__":
    main()
