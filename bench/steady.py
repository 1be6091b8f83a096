"""A simulated fleet that has come to rest: all is registered and judged, what follows is heartbeats."""

from __future__ import annotations

import asyncio
import time

import psutil

from bench.running import Service
from tests.support.broker import Broker
from tests.support.publishing import connected, head

LAG_MS = 1_000
WITHIN_S = 900
LOOKS_APART_S, SHARE = 2.0, 0.9
# Agents that have begun publish all that is asked of them; two seconds hold 20 beats of the slowest rate.


def wait_until_steady(up: Service, running: Broker, agents_pid: int, *, nodes: int, rate: int) -> None:
    """Return when every node was judged alive and beats, and nothing waits: what follows is heartbeats alone.

    A log of an earlier run says of every node that it is ready before its agent has begun.
    """
    began, reached = time.perf_counter(), head_of_beats(running.url)
    since = began
    while True:
        time.sleep(LOOKS_APART_S)
        status, before = up.api.get("/status"), reached
        reached = head_of_beats(running.url)
        is_ready = status["nodes_by_state"].get("ready", 0) >= nodes and status["lag_ms"] < LAG_MS
        now = time.perf_counter()
        if is_ready and reached - before >= SHARE * rate * (now - since):
            return
        since = now
        if not psutil.pid_exists(agents_pid) or time.perf_counter() - began > WITHIN_S:
            raise RuntimeError(f"the fleet did not become steady: {status}")


def head_of_beats(url: str) -> int:
    """Return the last sequence of BEATS."""

    async def asked() -> int:
        async with connected(url) as nc:
            return await head(nc, "BEATS")

    return asyncio.run(asked())
