"""A real broker for tests: `NATS_URL`, else the `nats-server` binary, else a container.

Each broker of our own listens on a free port and keeps its store in a folder of its own, so it can be killed,
stopped, frozen and started again on the same port with the same store.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.support.waiting import wait_until

READY_WITHIN_S = 20.0


def binary() -> str | None:
    """Return the path of a `nats-server`, or None: beside this Python, else on PATH."""
    beside = Path(sys.executable).parent / "nats-server"
    return str(beside) if beside.exists() else shutil.which("nats-server")


class Broker:
    """One `nats-server` process, with JetStream unless told otherwise. `url` stays the same over restarts."""

    def __init__(self, folder: Path, *, has_jetstream: bool = True, config: Path | None = None) -> None:
        self.folder = folder
        self._options = ["-js", "-sd", str(folder / "store")] if has_jetstream else []
        self._options += [] if config is None else ["-c", str(config)]
        self._port: int | None = None
        self._process: subprocess.Popen[bytes] | None = None
        folder.mkdir(parents=True, exist_ok=True)

    @property
    def url(self) -> str:
        assert self._port is not None, "the broker was never started"
        return f"nats://127.0.0.1:{self._port}"

    @property
    def pid(self) -> int:
        assert self._process is not None, "the broker does not run"
        return self._process.pid

    def start(self) -> Broker:
        """Start the process and wait until it says where it listens."""
        found = binary()
        assert found is not None, "no nats-server binary"
        ports = self.folder / "ports"
        shutil.rmtree(ports, ignore_errors=True)
        ports.mkdir()
        log = (self.folder / "broker.log").open("ab")
        self._process = subprocess.Popen(
            [
                found,
                *self._options,
                "-a",
                "127.0.0.1",
                "-p",
                str(self._port or -1),
                "--ports_file_dir",
                str(ports),
            ],
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        log.close()
        deadline = time.monotonic() + READY_WITHIN_S
        while time.monotonic() < deadline:
            for file in ports.glob("*.ports"):
                try:
                    self._port = int(json.loads(file.read_text())["nats"][0].rsplit(":", 1)[1])
                except (ValueError, KeyError):
                    continue
                return self
            if self._process.poll() is not None:
                break
            time.sleep(0.01)
        raise RuntimeError((self.folder / "broker.log").read_text()[-2000:])

    def kill(self) -> None:
        """End the process at once (SIGKILL)."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """End the process in order (SIGTERM)."""
        self._end(signal.SIGTERM)

    def freeze(self) -> None:
        """Stop every thread of the process; what reaches it from now on waits for `thaw`."""
        os.kill(self.pid, signal.SIGSTOP)
        # The signal is on its way to threads that run on another core, and one of them may still answer.
        wait_until(self._stands_still, within_s=READY_WITHIN_S, what="the broker stands still")

    def thaw(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def _stands_still(self) -> bool:
        threads = Path(f"/proc/{self.pid}/task").glob("*/stat")
        try:
            return all(one.read_text().rpartition(")")[2].split()[0] == "T" for one in threads)
        except FileNotFoundError:  # a thread has just ended
            return False

    def _end(self, how: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)
            self._process.send_signal(how)
            self._process.wait(20)
            self._process = None
