"""The clocks of a simulated world: one steady, two that somebody may set. None of them runs by itself."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

NOON_S = 1_777_636_800.0
"""2026-05-01 12:00 UTC: where every wall clock begins."""


@dataclass
class Clocks:
    """`steady` counts seconds from the beginning; the others say by how much a wall clock was set."""

    steady: float = 0.0
    broker_by_s: float = 0.0
    service_by_s: float = 0.0

    def broker_s(self, at: float) -> float:
        """What the broker's wall clock says at a steady time, in seconds since 1970."""
        return NOON_S + at + self.broker_by_s

    def service_s(self, at: float) -> float:
        """What our own wall clock says."""
        return NOON_S + at + self.service_by_s

    def steady_of(self, when: datetime) -> float:
        """The steady time at which the broker's wall clock says so."""
        return when.timestamp() - NOON_S - self.broker_by_s

    @property
    def broker_now(self) -> datetime:
        return datetime.fromtimestamp(self.broker_s(self.steady), UTC)
