"""What no statement can stop: its end, and that of its process."""

from __future__ import annotations

import signal
import subprocess
import sys

from api.sql_watchdog import EXIT_OVERSTAYED
from tests.support.processes import ROOT, environment, is_running
from tests.support.waiting import wait_until


def _end_of(case: str) -> tuple[int, str, str]:
    ended = subprocess.run(
        [sys.executable, "-m", "tests.support.watched", case],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    return ended.returncode, ended.stdout.strip(), ended.stderr.strip()


def test_a_statement_that_ignores_the_interrupt_ends_the_process() -> None:
    code, _, said = _end_of("in_the_engine")

    assert code == EXIT_OVERSTAYED
    assert said == "fleetfold replica: a statement went on after it was interrupted"


def test_a_statement_that_holds_the_interpreter_is_ended_by_the_kernel() -> None:
    code, _, _ = _end_of("with_the_interpreter")

    assert code == -signal.SIGALRM


def test_a_database_that_the_engine_gave_up_ends_the_process() -> None:
    code, _, said = _end_of("with_a_broken_database")

    assert code == EXIT_OVERSTAYED
    assert said.endswith("fleetfold replica: the engine gave its database up")


def test_statements_that_end_in_time_end_nothing() -> None:
    assert _end_of("in_time") == (0, "went on", "")


def test_a_process_ends_with_its_parent() -> None:
    code, child, _ = _end_of("orphaned")

    assert code == 0
    wait_until(lambda: not is_running(int(child)), what="the child's end")
