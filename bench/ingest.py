"""Heartbeats published, folded and committed: rate, lag and CPU, beside what a bare reader reaches.

Live: agents of a simulated fleet publish at a steady rate; the service is watched from outside. Each look
at its position dates the commit of every beat since the look before, so a lag here is never too small. The
broker's receive time of the oldest and the newest of those beats bounds them; between, beats are even.

Backlog: a service with empty tables folds all that the live runs left in the log, and the same records are
read by a bare socket that only counts them (the ceiling) and by nats-py's `fetch`, in the same run.

    python -m bench.ingest [--nodes 100000] [--rates 20000 30000] [--seconds 30] [--no-replica-run]
"""

from __future__ import annotations

import argparse
import asyncio
import time
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from pathlib import Path

from nats.aio.client import Client

from bench.ceiling import fetch, raw_socket, timed
from bench.running import Service, broker, cpu_s, percentile, service, simulator, workplace
from bench.steady import head_of_beats, wait_until_steady
from bench.table import Table
from tests.support.broker import Broker
from tests.support.publishing import connected, js_api

WARM_UP_S = 10.0
LOOK_EVERY_S = 0.02
MOST_LOOKS_DATED = 400


@dataclass(frozen=True, slots=True)
class Live:
    """What one live run came to: rates per second, lags in milliseconds, processor time in µs a beat."""

    asked: int
    replica: bool
    published: float
    committed: float
    lag_p50: float
    lag_p99: float
    lag_max: float
    service_us: float
    broker_us: float
    agents_us: float
    rss_mb: float


def live(folder: Path, running: Broker, *, nodes: int, rate: int, seconds: float, replica: bool) -> Live:
    """Run agents against the service at a steady rate, and watch."""
    with service(running.url, folder / f"live-{rate}-{replica}", replica=replica) as up:
        agents = simulator(running.url, folder / "simulator.log", nodes=nodes, interval_s=nodes / rate)
        try:
            wait_until_steady(up, running, agents.process.pid, nodes=nodes, rate=rate)
            time.sleep(WARM_UP_S)
            return _watch(up, running, agents.process.pid, rate=rate, seconds=seconds, replica=replica)
        finally:
            agents.stop()


def _watch(
    up: Service, running: Broker, agents_pid: int, *, rate: int, seconds: float, replica: bool
) -> Live:
    cpu = {"service": up.child.process.pid, "broker": running.pid, "agents": agents_pid}
    before = {name: cpu_s(pid) for name, pid in cpu.items()}
    head_before = head_of_beats(running.url)
    began = time.perf_counter()
    looks: list[tuple[float, int]] = []
    while (now := time.perf_counter()) < began + seconds:
        position = up.folded("BEATS")
        if not looks or position > looks[-1][1]:
            looks.append((time.time(), position))
        time.sleep(max(0.0, now + LOOK_EVERY_S - time.perf_counter()))
    elapsed = time.perf_counter() - began
    head_after = head_of_beats(running.url)
    committed = looks[-1][1] - looks[0][1]
    spent = {name: (cpu_s(pid) - before[name]) / max(1, committed) * 1e6 for name, pid in cpu.items()}
    rss_mb = up.child.rss_bytes() / 1e6
    lags = asyncio.run(_lags(running.url, looks))
    return Live(
        asked=rate,
        replica=replica,
        published=(head_after - head_before) / elapsed,
        committed=committed / (looks[-1][0] - looks[0][0]),
        lag_p50=percentile(lags, 0.50),
        lag_p99=percentile(lags, 0.99),
        lag_max=max(lags),
        service_us=spent["service"],
        broker_us=spent["broker"],
        agents_us=spent["agents"],
        rss_mb=rss_mb,
    )


async def _lags(url: str, looks: list[tuple[float, int]]) -> list[float]:
    """Return lags in ms, one for each hundredth of the beats between two looks."""
    steps = list(pairwise(looks))
    every = max(1, len(steps) // MOST_LOOKS_DATED)
    lags: list[float] = []
    async with connected(url) as nc:
        for (_, before), (at, position) in steps[::every]:
            oldest, newest = await _stored_at(nc, before + 1), await _stored_at(nc, position)
            weight = max(1, (position - before) // 100)
            lags += [1000 * (at - oldest - (newest - oldest) * n / weight) for n in range(weight)]
    return lags


async def _stored_at(nc: Client, seq: int) -> float:
    found = await js_api(nc, "STREAM.MSG.GET.BEATS", {"seq": seq})
    return datetime.fromisoformat(found["message"]["time"][:26].rstrip("Z") + "+00:00").timestamp()


def backlog(folder: Path, running: Broker) -> None:
    """Fold the whole log with empty tables, and read it in the two other ways."""
    count = head_of_beats(running.url)
    ceiling = timed(lambda: raw_socket(running.url, "BEATS", count))
    with service(running.url, folder / "backlog", replica=False, wait=False) as up:
        while up.folded("BEATS") == 0:
            time.sleep(0.01)
        first, began, cpu_began = up.folded("BEATS"), time.perf_counter(), cpu_s(up.child.process.pid)
        up.wait_for("BEATS", count, within_s=300)
        seconds, spent = time.perf_counter() - began, cpu_s(up.child.process.pid) - cpu_began
        folded = count - first
    plain = timed(lambda: fetch(running.url, "BEATS", max(1, count // 20)))
    again = timed(lambda: raw_socket(running.url, "BEATS", count))
    best = max(ceiling.per_s, again.per_s)
    print(f"\nBacklog of {count:,} beats")
    table = Table(("way", ""), ("beats/s", ",.0f"), ("of ceiling", ".2f"), ("CPU µs/beat", ".1f"))
    cheapest = min(ceiling.cpu_us, again.cpu_us)
    table.row("raw socket, only counted", best, 1.0, cheapest)
    table.row(
        "service, folded and committed", folded / seconds, folded / seconds / best, spent / folded * 1e6
    )
    table.row("nats-py fetch, only read", plain.per_s, plain.per_s / best, plain.cpu_us)


def main() -> None:
    """Run live at each rate, with the replica off and on, then the backlog."""
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--nodes", type=int, default=100_000)
    asked.add_argument("--rates", type=int, nargs="+", default=[20_000, 30_000])
    asked.add_argument("--seconds", type=float, default=30.0)
    asked.add_argument("--no-replica-run", action="store_true", help="leave the runs with the replica out")
    chosen = asked.parse_args()
    with workplace() as folder, broker(folder) as running:
        table = Table(
            ("asked beats/s, replica", ""),
            ("published/s", ",.0f"),
            ("committed/s", ",.0f"),
            ("lag p50 ms", ",.0f"),
            ("p99", ",.0f"),
            ("max", ",.0f"),
            ("service µs", ".1f"),
            ("broker µs", ".1f"),
            ("agents µs", ".1f"),
            ("RSS MB", ",.0f"),
        )
        for rate in chosen.rates:
            for replica in (False,) if chosen.no_replica_run else (False, True):
                got = live(
                    folder, running, nodes=chosen.nodes, rate=rate, seconds=chosen.seconds, replica=replica
                )
                table.row(
                    f"{got.asked:,}, {'on' if got.replica else 'off'}",
                    got.published,
                    got.committed,
                    got.lag_p50,
                    got.lag_p99,
                    got.lag_max,
                    got.service_us,
                    got.broker_us,
                    got.agents_us,
                    got.rss_mb,
                )
        backlog(folder, running)


if __name__ == "__main__":
    main()
