"""Why one node is what it is, as somebody reads it at a terminal at night (floor 4): the answer first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from fleetfold.cli.output import ABSENT, as_of_line, coloured, console, escaped, print_table

DAY = 10
# How long the date of a time is; what is left is the time of day.


def print_why(why: dict[str, Any]) -> None:
    """Print the answer of `why`: the summary, what it rests on, what would change it, beats and changes."""
    out = console()
    out.print(f"[bold]{escaped(why['id'])}[/]  {_coloured_summary(why)}")
    _print_list("because", [escaped(sentence) for sentence in why["because"]])
    _print_list("what would change it", [_prospect(prospect) for prospect in why["would_change"]])
    _print_list("conditions", [_condition(condition) for condition in why["conditions"]])
    if why["judging"]["zone"]:
        _print_list("zone", [escaped(why["judging"]["zone"]["rule"])])
    _print_beats(why)
    _print_changes(why["changes"])
    out.print(f"[dim]{escaped(as_of_line(why))}[/]")


def _coloured_summary(why: dict[str, Any]) -> str:
    state, summary = why["state"], why["summary"]
    return coloured(state) + escaped(summary.removeprefix(state))


def _print_list(title: str, lines: Sequence[str]) -> None:
    """Print a titled list whose long lines go on below their beginning; nothing for an empty one."""
    from rich.table import Table  # noqa: PLC0415 - 50 ms, and `--help` needs none of it

    if not lines:
        return
    rows = Table.grid(padding=(0, 1))
    rows.add_column(width=2, justify="right")
    rows.add_column(overflow="fold")
    for line in lines:
        rows.add_row("•", line)
    out = console()
    out.print(f"\n[bold]{title}[/]")
    out.print(rows)


def _prospect(prospect: dict[str, Any]) -> str:
    return f"{escaped(prospect['event'])} [bold]→[/] {escaped(prospect['outcome'])}"


def _condition(condition: dict[str, Any]) -> str:
    about = f": {escaped(condition['about'])}" if condition["about"] else ""
    return f"[bold]{escaped(condition['name'])}[/]{about}"


def _print_beats(why: dict[str, Any]) -> None:
    out, beats = console(), why["last_beats"]
    if beats is None:
        out.print(f"\nthe last heartbeats could not be looked up: {escaped(why['last_beats_unknown'])}\n")
        return
    if not beats:
        out.print()
        return
    days = {beat["stored_at"][:DAY] for beat in beats}
    out.print(f"\n[bold]last heartbeats[/] {_day(days)}")
    print_table(
        ("received", "after", "sent before", "number", "boot"),
        (
            (
                _time(beat["stored_at"], days),
                _seconds(beat["since_previous_ms"]),
                _seconds(beat["delay_ms"]),
                escaped(beat["seq"]),
                escaped(beat["boot_id"])
                if not beat["unreadable"]
                else f"[red]{escaped(beat['unreadable'])}[/]",
            )
            for beat in beats
        ),
        numbers=("after", "sent before", "number"),
    )


def _print_changes(changes: Sequence[dict[str, Any]]) -> None:
    if not changes:
        return
    days = {change["at"][:DAY] for change in changes}
    console().print(f"[bold]last changes[/] {_day(days)}")
    print_table(
        ("at", "change", "by", "because", "fact"),
        (
            (
                _time(change["at"], days),
                escaped(f"{change['kind']}.{change['detail']}"),
                escaped(change["actor"]),
                escaped(change["reason"]) if change["reason"] else "",
                str(change["cause_seq"]),
            )
            for change in changes
        ),
        numbers=("fact",),
    )


def _day(days: Iterable[str]) -> str:
    """Return the day that all of some times are of, nothing where there are several."""
    known = set(days)
    return f"[dim]{known.pop()}, UTC[/]" if len(known) == 1 else "[dim]UTC[/]"


def _time(text: str, days: set[str]) -> str:
    form = "%H:%M:%S" if len(days) == 1 else "%Y-%m-%d %H:%M:%S"
    return datetime.fromisoformat(text).strftime(form)


def _seconds(ms: int | None) -> str:
    return ABSENT if ms is None else f"{ms / 1000:.1f} s"
