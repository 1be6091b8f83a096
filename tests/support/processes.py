"""Our own program as a process: started, listened to, signalled, and gone with all that it started."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.support.waiting import wait_until

ROOT = Path(__file__).parents[2]
END_WITHIN_S = 20.0


def environment(**settings: str) -> dict[str, str]:
    """This process's environment without our settings but with these, and the repository to import from."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("FLEETFOLD_")}
    return {**kept, "PYTHONPATH": str(ROOT), **settings}


def fleetfold(
    *arguments: str,
    cwd: Path,
    settings: Mapping[str, str] | None = None,
    stdin: str = "",
    within_s: float = 60,
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    return subprocess.run(
        [sys.executable, "-m", "fleetfold", *arguments],
        cwd=cwd,
        env=environment(**(settings or {})),
        input=stdin,
        text=True,
        capture_output=True,
        timeout=within_s,
        check=False,
    )


class Program:
    """A command that runs on; what it prints is kept."""

    def __init__(self, *arguments: str, cwd: Path, settings: Mapping[str, str] | None = None) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "fleetfold", *arguments],
            cwd=cwd,
            env=environment(**(settings or {})),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self._told: dict[str, list[str]] = {"out": [], "err": []}
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self._listening = [
            threading.Thread(target=self._listen, args=(stream, name), daemon=True)
            for stream, name in ((self._process.stdout, "out"), (self._process.stderr, "err"))
        ]
        for thread in self._listening:
            thread.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def out(self) -> str:
        return "".join(self._told["out"])

    @property
    def err(self) -> str:
        return "".join(self._told["err"])

    def says(self, pattern: str, *, within_s: float = 30.0) -> re.Match[str]:
        """Wait until its output matches, and return the match; fail at once where it ends before."""
        found: re.Match[str] | None = None

        def looked() -> bool:
            nonlocal found
            found = re.search(pattern, self.out) or re.search(pattern, self.err)
            ended = self._process.poll() is not None and not any(t.is_alive() for t in self._listening)
            assert found or not ended, f"it ended: {self.out}\n{self.err}"
            return found is not None

        wait_until(looked, within_s=within_s, what=pattern)
        assert found is not None
        return found

    def send(self, which: signal.Signals) -> None:
        self._process.send_signal(which)

    def ends(self, *, within_s: float = END_WITHIN_S) -> int:
        """Wait for the end and return the exit code."""
        code = self._process.wait(within_s)
        for thread in self._listening:
            thread.join(within_s)
        return code

    def kill_all(self) -> None:
        """End it and its children, whatever they do."""
        for pid in [*descendants(self.pid), self.pid]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        self._process.wait(END_WITHIN_S)
        for thread in self._listening:
            thread.join(END_WITHIN_S)
        for stream in (self._process.stdout, self._process.stderr):
            assert stream is not None
            stream.close()

    def _listen(self, stream: Iterator[str], name: str) -> None:
        for line in stream:
            self._told[name].append(line)


@contextmanager
def running(*arguments: str, cwd: Path, settings: Mapping[str, str] | None = None) -> Iterator[Program]:
    """A command that runs until the end of the block at the latest."""
    program = Program(*arguments, cwd=cwd, settings=settings)
    try:
        yield program
    finally:
        program.kill_all()


def descendants(pid: int) -> list[int]:
    """Return the processes below one, the deepest first."""
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children = task.read_text().split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        for child in children:
            found += [*descendants(int(child)), int(child)]
    return found


def is_running(pid: int) -> bool:
    """Tell whether a process exists and is not only waiting to be reaped."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
