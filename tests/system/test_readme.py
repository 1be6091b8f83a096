"""The README can be followed from top to bottom: each command of its shell blocks runs, in its order."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import nats

from tests.support.processes import environment, fleetfold
from tests.support.waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]
SHELL_BLOCK = re.compile(r"^```sh\n(.*?)^```", re.DOTALL | re.MULTILINE)
READY_WITHIN_S = 60.0


def commands() -> list[list[str]]:
    """Every command of the README's shell blocks, without its comment."""
    text = (ROOT / "README.md").read_text("utf-8")
    lines = [line for block in SHELL_BLOCK.findall(text) for line in block.splitlines() if line.strip()]
    return [shlex.split(line, comments=True) for line in lines]


class Reader:
    """Somebody who types what the README says, in the folder of the repository."""

    def __init__(self, api: str, broker: str) -> None:
        self._settings = {"FLEETFOLD_HTTP": api, "FLEETFOLD_NATS__URL": broker}
        self._broker = broker

    def types(self, command: list[str]) -> None:
        """Run one command; AssertionError where it fails or where nobody said how it is run here."""
        match command:
            case ["make", "up"] | [".", ".venv/bin/activate"]:
                pass  # it runs already, from this environment
            case ["make", "test"]:
                assert "-m pytest" in run_make("-n", "test")
            case ["fleetfold", *arguments]:
                self._fleetfold(arguments)
            case ["nats", "pub", subject, body]:
                asyncio.run(publish(self._broker, subject, body.encode()))
            case other:
                raise AssertionError(f"the README says {shlex.join(other)}: say here how it is run")

    def _fleetfold(self, arguments: list[str]) -> None:
        def works() -> bool:
            return fleetfold(*arguments, cwd=ROOT, settings=self._settings).returncode == 0

        # A person types slowly: what was just published is folded by then.
        wait_until(works, what=f"fleetfold {shlex.join(arguments)}")


def test_the_readme_can_be_followed_from_top_to_bottom(tmp_path: Path) -> None:
    said = commands()

    with up(tmp_path) as (api, broker):
        reader = Reader(api, broker)
        for command in said:
            reader.types(command)

    assert ["make", "up"] in said
    assert ["make", "test"] in said


@contextmanager
def up(folder: Path) -> Iterator[tuple[str, str]]:
    """Run `make up` with an empty temporary store on free ports; give the addresses of API and broker."""
    log = folder / "up.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            make("up", "ARGS=--ephemeral --http 127.0.0.1:0"),
            cwd=ROOT,
            env=environment(),
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
    try:
        api = found_in(log, r"page +http://(\S+)/\n", process)
        broker = found_in(log, r"broker +(nats://[^\s,]+)", process)
        wait_until(lambda: replica_state(api) == "ready", within_s=READY_WITHIN_S, what="the SQL replica")
        yield api, broker
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGINT)
        process.wait(20)


def found_in(log: Path, pattern: str, process: subprocess.Popen[bytes]) -> str:
    """Wait until the log says something; return the pattern's group."""

    def is_there() -> bool:
        assert process.poll() is None, log.read_text()
        return re.search(pattern, log.read_text()) is not None

    wait_until(is_there, within_s=READY_WITHIN_S, what=pattern)
    told = re.search(pattern, log.read_text())
    assert told is not None
    return told[1]


def replica_state(api: str) -> str:
    with urllib.request.urlopen(f"http://{api}/fleet/v1/status", timeout=10) as answer:
        return str(json.load(answer)["replica"]["state"])


async def publish(broker: str, subject: str, body: bytes) -> None:
    nc = await nats.connect(broker)
    await nc.publish(subject, body)
    await nc.flush()
    await nc.close()


def make(target: str, *variables: str) -> list[str]:
    """A make that takes this environment as it is, instead of installing into .venv."""
    stamps = [f"{sys.prefix}/.runs", f"{sys.prefix}/.develops"]
    kept = [f"--old-file={stamp}" for stamp in stamps]
    return ["make", "--no-print-directory", f"VENV={sys.prefix}", *kept, target, *variables]


def run_make(*arguments: str) -> str:
    *flags, target = arguments
    done = subprocess.run([*make(target), *flags], cwd=ROOT, check=True, capture_output=True, text=True)
    return done.stdout
