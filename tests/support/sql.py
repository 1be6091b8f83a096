"""What stands in for the ends of a replica where the replica is not a process of its own."""

from __future__ import annotations

import pytest

from api.sql_guard import Guard
from api.sql_tree import Relations


class AnyStatement(Guard):
    """A guard that lets everything through, to test what stands behind it."""

    def __init__(self) -> None:
        super().__init__(Relations(views=frozenset()))

    def check(self, sql: str) -> None:
        """Refuse nothing."""


def never_ends(why: str) -> None:
    """Fail the test in which a process would have been ended."""
    pytest.fail(f"the process would have ended: {why}")


def no_alarm(_in_s: float) -> None:
    """Arm nothing: the alarm would end the test's process."""
