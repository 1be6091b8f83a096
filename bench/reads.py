"""Questions over HTTP while beats are folded: a node, a page of 100, the fleet's capacity, SQL.

python -m bench.reads [--nodes 100000] [--rate 20000] [--count 2000] [--no-replica-run]
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Callable
from pathlib import Path

from bench.running import Api, Service, broker, percentile, service, simulator, workplace
from bench.steady import wait_until_steady
from bench.table import Table
from tests.support.broker import Broker

PAGE = 100


def questions(api: Api, ids: list[str], zones: list[str], *, replica: bool) -> dict[str, Callable[[], None]]:
    """Return what is asked, each a call that asks once."""
    chosen = random.Random(1)

    def get(path: str) -> None:
        status, body = api.raw("GET", path)
        assert status == 200, (path, status, body[:300])

    def sql(text: str) -> None:
        status, body = api.raw("POST", "/sql", json.dumps({"sql": text}).encode())
        assert status == 200, (status, body[:300])

    asked: dict[str, Callable[[], None]] = {
        "node by id": lambda: get(f"/nodes/{chosen.choice(ids)}"),
        "page of 100": lambda: get(f"/nodes?limit={PAGE}"),
        "page of 100, one zone": lambda: get(f"/nodes?limit={PAGE}&zone={chosen.choice(zones)}"),
        "fleet capacity": lambda: get("/capacity"),
        "fleet capacity by zone": lambda: get("/capacity?group_by=zone"),
        "status": lambda: get("/status"),
    }
    if replica:
        asked["sql: nodes by state"] = lambda: sql(
            "SELECT state, count(*) AS n FROM fleet.nodes GROUP BY state"
        )
    return asked


def measure(up: Service, *, count: int, replica: bool) -> None:
    """Ask each question `count` times, one after another, and print what it took in ms."""
    items = up.api.get("/nodes?limit=500")["items"]
    columns = (("asked", "d"), ("p50 ms", ".2f"), ("p99", ".2f"), ("max", ".2f"))
    table = Table(("question", ""), *columns)
    ids, zones = [item["id"] for item in items], sorted({item["zone"] for item in items if item["zone"]})
    for name, ask in questions(up.api, ids, zones, replica=replica).items():
        times: list[float] = []
        for _ in range(count if name in {"node by id", "status"} else count // 5):
            began = time.perf_counter()
            ask()
            times.append(1000 * (time.perf_counter() - began))
        table.row(name, len(times), percentile(times, 0.5), percentile(times, 0.99), max(times))


def run(folder: Path, running: Broker, *, nodes: int, rate: int, count: int, replica: bool) -> None:
    """Measure one service, first while it ingests, then at rest."""
    with service(running.url, folder / f"data-{replica}", replica=replica) as up:
        agents = simulator(running.url, folder / "simulator.log", nodes=nodes, interval_s=nodes / rate)
        try:
            wait_until_steady(up, running, agents.process.pid, nodes=nodes, rate=rate)
            before, began = up.folded("BEATS"), time.perf_counter()
            print(f"\nwhile ingesting, replica {'on' if replica else 'off'}")
            measure(up, count=count, replica=replica)
            rate_seen = (up.folded("BEATS") - before) / (time.perf_counter() - began)
            print(f"meanwhile folded and committed: {rate_seen:,.0f} beats/s")
        finally:
            agents.stop()
        print("\nat rest")
        measure(up, count=count // 4, replica=replica)


def main() -> None:
    """Measure with the replica off, then on."""
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--nodes", type=int, default=100_000)
    asked.add_argument("--rate", type=int, default=20_000)
    asked.add_argument("--count", type=int, default=2_000)
    asked.add_argument("--no-replica-run", action="store_true")
    chosen = asked.parse_args()
    for replica in (False,) if chosen.no_replica_run else (False, True):
        with workplace() as folder, broker(folder) as running:
            run(folder, running, nodes=chosen.nodes, rate=chosen.rate, count=chosen.count, replica=replica)


if __name__ == "__main__":
    main()
