"""Facts replayed: registrations of a fleet in the log, folded into empty tables by the service.

python -m bench.replay [--nodes 100000]
"""

from __future__ import annotations

import argparse
import asyncio
import time

from bench.ceiling import raw_socket, timed
from bench.running import broker, cpu_s, service, simulator, workplace
from bench.table import Table
from tests.support.publishing import connected, head


async def _head(url: str, stream: str) -> int:
    async with connected(url) as nc:
        return await head(nc, stream)


def main() -> None:
    """Register a fleet, then fold its facts with empty tables, and start once more with full ones."""
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--nodes", type=int, default=100_000)
    nodes = asked.parse_args().nodes
    with workplace() as folder, broker(folder) as running:
        with service(running.url, folder / "declares", replica=False):
            agents = simulator(
                running.url, folder / "simulator.log", nodes=nodes, interval_s=3600, duration_s=1
            )
            agents.process.wait(600)
            agents.stop()
        count = asyncio.run(_head(running.url, "FLEET"))
        ceiling = timed(lambda: raw_socket(running.url, "FLEET", count))
        print(f"{count:,} facts in the log, of {nodes:,} nodes")
        table = Table(("way", ""), ("facts/s", ",.0f"), ("of ceiling", ".2f"), ("CPU µs/fact", ".1f"))
        table.row("raw socket, only counted", ceiling.per_s, 1.0, ceiling.cpu_us)
        for replica in (False, True):
            folder_of = folder / f"replays-{replica}"
            with service(running.url, folder_of, replica=replica, wait=False) as up:
                while (first := up.folded("FLEET")) == 0:
                    time.sleep(0.005)
                began, cpu_began = time.perf_counter(), cpu_s(up.child.process.pid)
                up.wait_for("FLEET", count, within_s=600)
                seconds, spent = time.perf_counter() - began, cpu_s(up.child.process.pid) - cpu_began
            folded = count - first
            table.row(
                f"service, folded and committed, replica {'on' if replica else 'off'}",
                folded / seconds,
                folded / seconds / ceiling.per_s,
                spent / folded * 1e6,
            )
        with service(running.url, folder / "replays-False", replica=False) as up:
            restart_s = up.started_s
        print(f"restart with {nodes:,} nodes: ready after {restart_s:.1f} s")


if __name__ == "__main__":
    main()
