"""What commands print: tables for people, JSON for programs (floor 4)."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

BYTES = frozenset({"memory", "disk"})
UNKNOWN = "?"
ABSENT = "–"
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
# What moves the cursor, paints, renames the window or turns the writing round: a machine may be named by it.
OPTIONAL = frozenset({"reserved", "ratio", "used"})
STYLES = {
    "ready": "green",
    "pending": "cyan",
    "lost": "bold red",
    "cordoned": "yellow",
    "draining": "yellow",
    "maintenance": "magenta",
    "retired": "dim",
}


def console() -> Console:
    """Return where people read: colours and width of the terminal, plain and wide in a pipe."""
    from rich.console import Console  # noqa: PLC0415 - 50 ms

    return Console(width=None if sys.stdout.isatty() else 240, highlight=False, soft_wrap=False)


def print_json(value: object) -> None:
    """Print one JSON document, indented."""
    print(json.dumps(value, indent=2, ensure_ascii=False, default=str))


def print_table(
    headings: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    numbers: Iterable[str] = (),
    title: str = "",
    caption: str = "",
) -> None:
    """Print a table; the columns named in `numbers` stand right."""
    from rich import box  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415

    table = Table(
        box=box.SIMPLE_HEAD,
        title=title or None,
        caption=caption or None,
        title_justify="left",
        caption_justify="left",
        pad_edge=False,
    )
    right = set(numbers)
    for heading in headings:
        table.add_column(heading, justify="right" if heading in right else "left", overflow="fold")
    for row in rows:
        table.add_row(*row)
    console().print(table)


def coloured(state: str) -> str:
    """Return a state word in its colour."""
    return f"[{STYLES[state]}]{state}[/]" if state in STYLES else escaped(state)


def escaped(text: object) -> str:
    """Return any text as rich prints it literally, controls as people write them; nothing as a dash."""
    from rich.markup import escape  # noqa: PLC0415

    return ABSENT if text in (None, "") else escape(visible(str(text)))


def visible(text: str) -> str:
    """Return a text whose control characters are written out, such as `\\x1b`: it cannot steer a terminal."""
    return _CONTROLS.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def amount(resource: str, value: float | None) -> str:
    """Return an amount with its unit; unknown is not zero."""
    if value is None:
        return UNKNOWN
    if resource in BYTES:
        return size(value)
    return f"{value:,.3f}".rstrip("0").rstrip(".")


def cell(row: Mapping[str, Any], column: str) -> str:
    """Return one number of a resource: a dash where nobody has to say it, `?` where it is not known."""
    value = row.get(column)
    if value is None and column in OPTIONAL:
        return ABSENT
    return amount("" if column == "ratio" else row["resource"], value)


def size(size_bytes: float) -> str:
    """Return bytes in binary units with three digits: 1.5 TiB."""
    value, sign = abs(float(size_bytes)), "-" if size_bytes < 0 else ""
    for unit in ("B", "KiB", "MiB", "GiB", "TiB", "PiB"):
        if value < 1024 or unit == "PiB":
            digits = 0 if unit == "B" or value >= 100 else 1
            return f"{sign}{value:,.{digits}f} {unit}"
        value /= 1024
    raise AssertionError("the last unit takes every size")


def age(moment: str | None, *, now: datetime | None = None) -> str:
    """Return how long ago a time of the API was, in one unit: `12 s`, `3 h`."""
    if moment is None:
        return ABSENT
    seconds = ((now or datetime.now(UTC)) - datetime.fromisoformat(moment)).total_seconds()
    for unit, length_s in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * length_s:
            return f"{seconds / length_s:.0f} {unit}"
    return f"{max(seconds, 0):.0f} s"


def as_of_line(answer: dict[str, Any]) -> str:
    """Return what an answer says about itself, in one line."""
    as_of = answer.get("as_of") or {}
    lag = as_of.get("lag_ms")
    late = "lag not known yet" if lag is None else f"{lag} ms behind the log"
    return f"as of {as_of.get('time') or 'the beginning'}, {late}"


def count(number: int, noun: str) -> str:
    """Return a number of things: `1 node`, `1,523 nodes`."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")
