"""A process with a real watchdog and no guard, run as `python -m tests.support.watched CASE`."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from datetime import timedelta

import duckdb

from api.sql_executor import SqlExecutor
from api.sql_statement import Call, SqlLimits, Statement
from api.sql_watchdog import Watchdog, arm_alarm, end_process
from fleetfold.address_space import bound
from projections.tables import CHECKPOINT
from tests.support.sql import AnyStatement

LIMIT_S = 0.2
OVERSTAY = timedelta(seconds=0.3)

LOOP_THAT_LOOKS_AT_NOTHING = "SELECT levenshtein(repeat('x', 400000), repeat('y', 400000))"
# One scalar call of some minutes and little memory, within which the engine never sees an interrupt.


def in_the_engine() -> None:
    """A statement in a scalar call, which interrupt() cannot end."""
    _watched(lambda cursor: cursor.execute(LOOP_THAT_LOOKS_AT_NOTHING))


def with_the_interpreter() -> None:
    """A statement that holds the interpreter's lock, so that no other thread runs."""
    sleep_with_the_lock = ctypes.PyDLL(None).sleep
    _watched(lambda _cursor: sleep_with_the_lock(60))


def in_time() -> None:
    """Statements that end, of which one was interrupted: nobody ends the process."""
    dog = _started()
    for _ in range(3):
        with duckdb.connect() as cursor, dog.watching(cursor.interrupt, limit_s=LIMIT_S) as watch:
            try:
                cursor.execute("SELECT count(*) FROM range(10000000) a, range(10000000) b")
            except duckdb.InterruptException:
                assert watch.has_expired
    dog.stop()
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    print("went on")


def with_a_broken_database() -> None:
    """A statement for which the engine gives its whole database up; no guard, little address space."""
    bound(2 * 1024**3)
    dog = _started()
    database = duckdb.connect()
    database.execute(CHECKPOINT.create)
    executor = SqlExecutor(
        database.cursor,
        guard=AnyStatement(),
        watchdog=dog,
        limits=SqlLimits(),
        readings=dict,
        end=end_process,
    )
    executor.run(Statement("SELECT reservoir_quantile(1, 0.5, 1000000000)"), Call())


def orphaned() -> None:
    """A child whose parent ends: this process is the parent, and says who the child is."""
    child = subprocess.Popen(
        [sys.executable, "-m", "tests.support.watched", "of_a_parent"], stdout=subprocess.PIPE
    )
    assert child.stdout is not None
    child.stdout.readline()
    print(child.pid, flush=True)


def of_a_parent() -> None:
    """A process that has to end with its parent."""
    Watchdog(end=end_process, arm=arm_alarm, parent=os.getppid()).start()
    print("watching", flush=True)
    threading.Event().wait(60)


def _started() -> Watchdog:
    dog = Watchdog(end=end_process, arm=arm_alarm, overstay=OVERSTAY)
    dog.start()
    return dog


def _watched(statement: Callable[[duckdb.DuckDBPyConnection], object]) -> None:
    dog = _started()
    with duckdb.connect() as cursor, dog.watching(cursor.interrupt, limit_s=LIMIT_S):
        statement(cursor)
    print("went on")


if __name__ == "__main__":
    globals()[sys.argv[1]]()
