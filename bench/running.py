"""What the measurements run: a broker, the service and a simulator, each a process of its own.

The service is the installed program, asked from outside over HTTP, so what is measured is what people get.
"""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from tests.support.broker import Broker

READY_WITHIN_S = 180.0


class Child:
    """A process of ours and all that it started."""

    def __init__(self, *arguments: str, log: Path, env: dict[str, str] | None = None) -> None:
        self._log = log.open("ab")
        self.log_path = log
        self.process = subprocess.Popen(
            [sys.executable, "-m", "fleetfold", *arguments],
            stdout=self._log,
            stderr=self._log,
            stdin=subprocess.DEVNULL,
            env={**os.environ, **(env or {})},
            start_new_session=True,
        )

    def cpu_s(self) -> float:
        """Return the processor time of the process and its children so far."""
        return cpu_s(self.process.pid)

    def rss_bytes(self) -> int:
        """Return the resident memory of the process itself, without its children."""
        return int(psutil.Process(self.process.pid).memory_info().rss)

    def stop(self) -> None:
        """End it in order, and by force where it takes too long."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                os.killpg(self.process.pid, signal.SIGKILL)
                self.process.wait(10)
        self._log.close()


def cpu_s(pid: int) -> float:
    """Return the processor time of a process and its living children so far."""
    try:
        own = psutil.Process(pid)
        times = [process.cpu_times() for process in (own, *own.children(recursive=True))]
    except psutil.NoSuchProcess:
        return 0.0
    return float(sum(one.user + one.system for one in times))


class Api:
    """One kept connection to the service."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._link = http.client.HTTPConnection("127.0.0.1", port, timeout=60)

    def get(self, path: str) -> dict[str, Any]:
        """Return the answer's JSON; raise RuntimeError where it is no success."""
        status, body = self.raw("GET", path)
        if status != 200:
            raise RuntimeError(f"GET {path}: {status} {body[:300]!r}")
        found: dict[str, Any] = json.loads(body)
        return found

    def raw(self, method: str, path: str, body: bytes | None = None) -> tuple[int, bytes]:
        """Return status and body."""
        headers = {"Content-Type": "application/json"} if body is not None else {}
        for last in (False, True):
            try:
                self._link.request(method, "/fleet/v1" + path, body=body, headers=headers)
                answer = self._link.getresponse()
                return answer.status, answer.read()
            except (OSError, http.client.HTTPException):
                self._link.close()
                if last:
                    raise
        raise AssertionError("unreachable")

    def close(self) -> None:
        self._link.close()


@dataclass(frozen=True, slots=True)
class Service:
    """The running service and one connection to it. `started_s` is how long it took to be ready."""

    child: Child
    api: Api
    port: int
    started_s: float

    def folded(self, stream: str) -> int:
        """Return the last committed sequence of `FLEET` or `BEATS`."""
        return int(self.api.get("/status")[f"{stream.lower()}_seq"] or 0)

    def wait_for(self, stream: str, seq: int, *, within_s: float) -> float:
        """Return how long it took until a sequence was committed."""
        began = time.perf_counter()
        while self.folded(stream) < seq:
            if time.perf_counter() - began > within_s:
                raise RuntimeError(
                    f"{stream} is at {self.folded(stream)}, {seq} was to be reached in {within_s} s"
                )
            time.sleep(0.1)  # each question costs the service a millisecond of what is measured
        return time.perf_counter() - began


def free_port() -> int:
    """Return a port of the loopback that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def workplace() -> Iterator[Path]:
    """Give a folder that is gone in the end."""
    with tempfile.TemporaryDirectory(prefix="fleetfold-bench-") as folder:
        yield Path(folder)


@contextmanager
def broker(folder: Path) -> Iterator[Broker]:
    """Give a broker with a store of its own."""
    running = Broker(folder / "broker").start()
    try:
        yield running
    finally:
        running.stop()


@contextmanager
def service(url: str, data: Path, *, replica: bool, wait: bool = True) -> Iterator[Service]:
    """Give the service on a broker; with `wait` it has folded what the log held."""
    port, began = free_port(), time.perf_counter()
    data.mkdir(parents=True, exist_ok=True)
    arguments = ["serve", "--nats", url, "--http", f"127.0.0.1:{port}", "--data", str(data)]
    child = Child(*arguments, *([] if replica else ["--no-sql"]), log=data.parent / "service.log")
    api = Api(port)
    try:
        while True:
            if child.process.poll() is not None or time.perf_counter() - began > READY_WITHIN_S:
                raise RuntimeError("the service did not start:\n" + child.log_path.read_text()[-3000:])
            try:
                status, _ = api.raw("GET", "/readyz" if wait else "/livez")
            except OSError:
                status = 0
            if status == 200:
                break
            time.sleep(0.02)
        yield Service(child, api, port, time.perf_counter() - began)
    finally:
        api.close()
        child.stop()


def simulator(
    url: str, log: Path, *, nodes: int, interval_s: float, duration_s: float | None = None
) -> Child:
    """Start agents of `nodes` machines, each beating every `interval_s`."""
    arguments = ["simulate", "--nats", url, "--nodes", str(nodes), "--interval", str(interval_s), "--json"]
    if duration_s is not None:
        arguments += ["--duration", str(duration_s)]
    return Child(*arguments, log=log)


def percentile(values: list[float], share: float) -> float:
    """Return the smallest value that at least `share` of the values do not exceed."""
    ranked = sorted(values)
    return ranked[min(len(ranked) - 1, max(0, int(share * len(ranked) + 0.999999) - 1))]
