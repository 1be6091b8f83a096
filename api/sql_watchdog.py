"""Ends statements at their limit, and the process where ending a statement does not help (floor 3).

Three steps, each for what the one before cannot do: `interrupt()` at the limit, repeated, since a statement
that is just beginning clears it; `end` (the process) `OVERSTAY` later, for scalar calls that never look at
the flag; an alarm of the kernel a little after that, for code that holds the interpreter, so that no thread
of ours would run.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta

OVERSTAY = timedelta(seconds=3)
# Measured: cross joins, recursions and aggregates end within 0.1 s of interrupt(), the slowest of those that
# do end (a regular expression over a long text) within 3 s; a list of 10^9 elements never does.
ALARM_AFTER = timedelta(seconds=2)
# After the thread should have ended the process: with it the kernel gets its turn only where the thread got
# none.
AGAIN_AFTER_S = 0.2
LOOK_AT_PARENT_EVERY_S = 1.0
EXIT_OVERSTAYED = 70
"""The exit code of a process that ended itself: its supervisor starts it again at once."""


@dataclass(eq=False, slots=True)
class Watch:
    """One running statement; `has_expired` and `is_cancelled` say why it was interrupted."""

    interrupt: Callable[[], None]
    expires_at_s: float
    is_cancelled: bool = False
    has_expired: bool = False
    again_at_s: float = field(default=0.0)


def end_process(why: str) -> None:
    """End this process at once, without closing anything; the tables survive that as they survive a kill."""
    os.write(2, f"fleetfold replica: {why}\n".encode())
    os._exit(EXIT_OVERSTAYED)


def arm_alarm(in_s: float) -> None:
    """Have the kernel end this process after so many seconds; 0 calls it off. There is one alarm."""
    signal.setitimer(signal.ITIMER_REAL, in_s)


class Watchdog:
    """One thread that watches every running statement, and whether the parent process still lives.

    `end` and `arm` are `end_process` and `arm_alarm` in a replica. `parent` is the process that must outlive
    this one. May be used from any thread. Whoever starts it stops it.
    """

    def __init__(
        self,
        *,
        end: Callable[[str], None],
        arm: Callable[[float], None],
        parent: int | None = None,
        overstay: timedelta = OVERSTAY,
    ) -> None:
        self._end, self._arm, self._parent = end, arm, parent
        self._overstay_s = overstay.total_seconds()
        self._running: set[Watch] = set()
        self._changed = threading.Condition()
        self._is_stopped = False
        self._thread = threading.Thread(target=self._watch, name="sql-watchdog", daemon=True)

    def start(self) -> None:
        """Begin to watch."""
        self._thread.start()

    def stop(self) -> None:
        """Watch nothing any more."""
        with self._changed:
            self._is_stopped = True
            self._running.clear()
            self._rearm()
            self._changed.notify()
        if self._thread.is_alive():
            self._thread.join()

    @contextmanager
    def watching(self, interrupt: Callable[[], None], *, limit_s: float) -> Iterator[Watch]:
        """Watch a statement for as long as the block runs: at the limit `interrupt` is called."""
        watch = Watch(interrupt, time.monotonic() + limit_s)
        self._change(lambda: self._running.add(watch))
        try:
            yield watch
        finally:
            self._change(lambda: self._running.discard(watch))

    def cancel(self, watch: Watch) -> None:
        """Interrupt a statement before its limit, because nobody waits for it any more."""

        def expire() -> None:
            if watch in self._running and not watch.has_expired:
                watch.is_cancelled = True
                watch.expires_at_s = time.monotonic()

        self._change(expire)

    def _change(self, change: Callable[[], None]) -> None:
        with self._changed:
            change()
            self._rearm()
            self._changed.notify()

    def _rearm(self) -> None:
        """Set the kernel's alarm to the first statement that could overstay; called with the lock held."""
        if not self._running:
            self._arm(0)
            return
        first_s = min(watch.expires_at_s for watch in self._running) + self._overstay_s
        # 0 would call the alarm off
        self._arm(max(0.001, first_s - time.monotonic() + ALARM_AFTER.total_seconds()))

    def _watch(self) -> None:
        look_at_parent_s = 0.0
        while True:
            with self._changed:
                if self._is_stopped:
                    return
                now_s = time.monotonic()
                for watch in self._running:
                    self._judge(watch, now_s)
                if self._parent is not None and now_s >= look_at_parent_s:
                    look_at_parent_s = now_s + LOOK_AT_PARENT_EVERY_S
                    if os.getppid() != self._parent:
                        self._end("the process that started this one has ended")
                due_s = [max(watch.expires_at_s, watch.again_at_s) for watch in self._running]
                if self._parent is not None:
                    due_s.append(look_at_parent_s)
                self._changed.wait(max(0.0, min(due_s) - time.monotonic()) if due_s else None)

    def _judge(self, watch: Watch, now_s: float) -> None:
        if now_s < watch.expires_at_s:
            return
        if now_s >= watch.expires_at_s + self._overstay_s:
            self._end("a statement went on after it was interrupted")
        if now_s >= watch.again_at_s:
            watch.has_expired = not watch.is_cancelled
            watch.again_at_s = now_s + AGAIN_AFTER_S
            watch.interrupt()
