"""Processes of our own that never outlive us (floor 4).

Linux tells a child when the thread that started it ends, so `Child.start` is called from the main thread
only. The child gets SIGTERM then: a broker that is told so closes its store in order, also after `kill -9` of
its parent. Each child has a process group of its own, so that a Ctrl-C at the terminal reaches us alone and
we end it in our order.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from events.loops import call_soon

# Run by a bare Python before the program itself, since setting this between fork and exec is not safe once
# threads run. It costs about 20 ms. The parent may have ended before the call: then nobody would ever tell
# us, so we end at once.
_TIED_TO_PARENT = """
import os, sys
parent = int(sys.argv[1])
if sys.platform == "linux":
    import ctypes
    ctypes.CDLL(None).prctl(1, 15, 0, 0, 0)
    if os.getppid() != parent:
        sys.exit(0)
os.execvp(sys.argv[2], sys.argv[2:])
"""


class Child:
    """One process and its end. Start, stop and start again as often as needed; stopping twice is fine."""

    def __init__(self, command: Sequence[str], *, output: Path | None = None) -> None:
        """Take the command; what it prints is appended to `output`, or goes where our own errors go."""
        self._command = tuple(command)
        self._output = output
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """Return the process id while it runs."""
        return self._process.pid if self._process is not None and self._process.poll() is None else None

    @property
    def exit_code(self) -> int | None:
        """Return how it ended (negative: the signal), or None while it runs or before it was started."""
        return None if self._process is None else self._process.poll()

    def start(self, *, environ: Mapping[str, str] | None = None) -> None:
        """Start the process; called by the main thread only."""
        assert threading.current_thread() is threading.main_thread(), (
            "a child is tied to the thread that starts it"
        )
        shim = [sys.executable, "-I", "-S", "-c", _TIED_TO_PARENT, str(os.getpid()), *self._command]
        output = self._output.open("ab") if self._output is not None else None
        try:
            self._process = subprocess.Popen(
                shim,
                stdin=subprocess.DEVNULL,
                stdout=output if output is not None else sys.stderr.fileno(),
                stderr=subprocess.STDOUT if output is not None else None,
                env=None if environ is None else {**os.environ, **environ},
                start_new_session=True,
            )
        finally:
            if output is not None:
                output.close()

    async def ended(self) -> int:
        """Wait until the process has ended, and return its exit code."""
        process = self._process
        assert process is not None, "the child was never started"
        loop = asyncio.get_running_loop()
        done = asyncio.Event()

        def wait() -> None:
            process.wait()
            call_soon(loop, done.set)

        threading.Thread(target=wait, name=f"wait-{process.pid}", daemon=True).start()
        await done.wait()
        assert process.returncode is not None, "a process that was waited for has ended"
        return process.returncode

    async def stop(self, *, patience_s: float) -> None:
        """End the process: SIGTERM, and SIGKILL where that was not enough within the patience."""
        if self.pid is None:
            return
        self._signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(patience_s):
                await self.ended()
        except TimeoutError:
            self.kill()
            await self.ended()

    def kill(self) -> None:
        """End the process at once."""
        self._signal(signal.SIGKILL)

    def _signal(self, which: signal.Signals) -> None:
        if self.pid is not None and self._process is not None:
            self._process.send_signal(which)
