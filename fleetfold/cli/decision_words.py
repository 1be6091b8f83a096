"""How selections, ends and labels are written at the command line (floor 4)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import typer

SELECTS = ("match", "state", "liveness", "intent", "zone", "pool", "region", "label", "dialect", "name")
ALL = "all"
_LENGTH = re.compile(r"([0-9]{1,6})(s|m|h|d|w)")
_UNIT = {
    "s": timedelta(seconds=1),
    "m": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
    "w": timedelta(weeks=1),
}


def selector_of(texts: Iterable[str]) -> dict[str, Any]:
    """Return a selector as the API takes it; raise BadParameter for a text that selects nothing."""
    selected: dict[str, Any] = {}
    for text in texts:
        name, mark, value = text.partition("=")
        if text == ALL:
            selected[ALL] = True
        elif name not in SELECTS or not mark or not value:
            raise typer.BadParameter(
                f"{text!r} is not NAME=VALUE with one of {', '.join(SELECTS)}", param_hint="--selector"
            )
        elif name == "label":
            selected.setdefault("label", []).append(value)
        elif selected.setdefault(name, value) != value:
            raise typer.BadParameter(f"{name} is given twice: no node has both", param_hint="--selector")
    return selected


def end_of(text: str, *, now: datetime | None = None) -> str:
    """Return when something ends, in RFC 3339: a length from now (30m, 2h, 7d) or a time with its offset."""
    found = _LENGTH.fullmatch(text.strip())
    if found is not None:
        try:
            moment = (now or datetime.now(UTC)) + int(found[1]) * _UNIT[found[2]]
        except OverflowError as err:
            raise typer.BadParameter(f"{text} is beyond the year 9999", param_hint="--until") from err
        return moment.isoformat()
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as err:
        raise typer.BadParameter(
            f"{text!r} is no length such as 2h and no time such as 2026-05-01T12:00:00Z", param_hint="--until"
        ) from err
    if moment.tzinfo is None:
        raise typer.BadParameter("a time needs an offset: end it with Z", param_hint="--until")
    return moment.isoformat()


def changes_of(texts: Iterable[str]) -> dict[str, str | None]:
    """Return declared labels: KEY=VALUE, or KEY- for one to take away; raise BadParameter for another."""
    changes: dict[str, str | None] = {}
    for text in texts:
        key, mark, value = text.partition("=")
        said: str | None = value
        if not mark and len(text) > 1 and text.endswith("-"):
            key, said = text[:-1], None
        elif not (mark and key):
            raise typer.BadParameter(f"{text!r} is neither KEY=VALUE nor KEY-", param_hint="CHANGE...")
        if changes.setdefault(key, said) != said:
            raise typer.BadParameter(f"{key} is given twice: it cannot be both", param_hint="CHANGE...")
    return changes
