"""Moments as microseconds since 1970, as tables, batches and the broker count them (floor 1, pure)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_US = timedelta(microseconds=1)


def from_us(us: int) -> datetime:
    """Return a moment, aware and in UTC; raise OverflowError where it is beyond what a datetime holds."""
    return EPOCH + timedelta(0, 0, us)


def to_us(moment: datetime) -> int:
    """Return the whole microseconds from 1970 to an aware moment; negative before."""
    return (moment - EPOCH) // _US
