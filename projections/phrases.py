"""How times, spans and lists are said in sentences for people (floor 2, pure)."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

SHOWN = 5
# Of a list in a sentence. Who needs them all asks for the members that hold them.
_UNITS = (("d", 86_400), ("h", 3_600), ("min", 60))


def clock(at: datetime, *, now: datetime) -> str:
    """Return a moment in UTC: the time alone where it is today, with the date where it is not."""
    form = "%H:%M:%SZ" if at.date() == now.date() else "%Y-%m-%d %H:%M:%SZ"
    return at.strftime(form)


def ago(at: datetime, *, now: datetime) -> str:
    """Return a moment with how long ago it was."""
    return f"{clock(at, now=now)}, {span(max((now - at).total_seconds(), 0.0))} ago"


def ahead(at: datetime, *, now: datetime) -> str:
    """Return a moment with how far ahead it is, or that it is over."""
    left_s = (at - now).total_seconds()
    return f"{clock(at, now=now)}, " + (f"in {span(left_s)}" if left_s > 0 else "which is over")


def span(seconds: float) -> str:
    """Return a length of time in one unit: `3.2 s`, `17 s`, `5 min`."""
    for unit, length_s in _UNITS:
        if seconds >= 2 * length_s:
            return f"{seconds / length_s:.0f} {unit}"
    return f"{seconds:.1f} s" if seconds < 10 and seconds % 1 else f"{seconds:.0f} s"


def listed(words: Iterable[str]) -> str:
    """Return words as `a, b and c`, the first few and how many more there are."""
    known = list(words)
    if len(known) > SHOWN:
        return f"{', '.join(known[:SHOWN])} and {len(known) - SHOWN} more"
    return known[0] if len(known) == 1 else f"{', '.join(known[:-1])} and {known[-1]}" if known else "none"
