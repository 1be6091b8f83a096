"""The command `watch`: what changes, as it does (floor 4)."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from fleetfold.cli.change_stream import Frame, frames
from fleetfold.cli.client import Api
from fleetfold.cli.output import STYLES, console, escaped
from fleetfold.cli.questions import Server

SHOWN_CHARS = 100
WORDS = ("state", "intent", "lifecycle", "zone", "pool", "boot_id")
"""What a change is told by in one word, where it has one of them."""


def add_to(app: typer.Typer) -> None:
    """Give the program this command."""
    app.command()(watch)


def watch(
    *,
    node: Annotated[list[str] | None, typer.Option(help="Only this node; may be repeated.")] = None,
    kind: Annotated[
        list[str] | None,
        typer.Option(help="Only this kind: state, state.lost, capacity, …; may be repeated."),
    ] = None,
    after: Annotated[
        str, typer.Option(help="Begin after this cursor; start: at the beginning; now: with what comes.")
    ] = "now",
    cursor_file: Annotated[
        Path | None,
        typer.Option(help="Keep the position in this file, and go on there the next time.", dir_okay=False),
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="End with what there is so far.")] = False,
    is_json: Annotated[bool, typer.Option("--json", help="Print one JSON document a line.")] = False,
    server: Server = None,
) -> None:
    """Follow what changes; a lost connection is made again, and nothing is missed or told twice.

    **Examples:**

    - `fleetfold watch`
    - `fleetfold watch --kind state.lost --kind capacity`
    - `fleetfold watch --after start --once --json`
    - `fleetfold watch --json --cursor-file position.txt | my-program`
    """
    if cursor_file is not None and cursor_file.exists():
        after = cursor_file.read_text("utf-8").strip() or after
    printed = _print_json if is_json else _print_line
    with Api(server) as api, _ended_by_interrupt():
        for frame in frames(api, after=after, nodes=node or [], kinds=kind or [], is_once=once):
            printed(frame)
            if cursor_file is not None:
                _keep(frame.cursor, cursor_file)


@contextlib.contextmanager
def _ended_by_interrupt() -> Iterator[None]:
    """Let an interrupt end the process at once, successfully.

    Nothing has to be closed: each line and each position is written when it is told. As an exception, an
    interrupt may fall into a finalizer, which swallows it, or into a lock of the HTTP client, which stays
    taken then while the connection is to be closed.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, lambda *_: os._exit(0))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _keep(cursor: str, file: Path) -> None:
    """Write a position; what was printed before it has left this process."""
    beside = file.with_name(file.name + ".new")
    beside.write_text(cursor + "\n", "utf-8")
    beside.replace(file)


def _print_json(frame: Frame) -> None:
    print(json.dumps(frame.data, ensure_ascii=False, separators=(",", ":")), flush=True)


def _print_line(frame: Frame) -> None:
    data = frame.data
    match frame.name:
        case "change":
            text = _change(data)
        case "gap":
            text = f"[bold red]gap[/] from {data['from']} to {data['to']}: {escaped(data['reason'])}"
        case "epoch":
            word = "went back" if data["detail"] == "rewound" else "is another one"
            text = f"[bold red]the log {word}[/]: the changes that follow are of {escaped(data['cursor'])}"
        case "caught_up":
            text = "[dim]caught up: what follows comes as it happens[/]"
        case other:
            text = escaped(other)
    console().print(text)


def _change(data: dict[str, Any]) -> str:
    what = f"{data['kind']}.{data['detail']}"
    style = STYLES.get(data["detail"], "bold")
    who = " ".join(escaped(data[name]) for name in ("actor", "reason") if data[name])
    told = f"[dim]{data['at'][:23]}Z[/] {escaped(data['node_id'])} [{style}]{what}[/] {_difference(data)}"
    return f"{told} [dim]({who})[/]" if who else told


def _difference(data: dict[str, Any]) -> str:
    before, after = data["before"] or {}, data["after"] or {}
    for word in WORDS:
        if word in before or word in after:
            return f"{escaped(before.get(word))} → {escaped(after.get(word))}"
    text = json.dumps(after, ensure_ascii=False, separators=(",", ":"))
    return escaped(text if len(text) <= SHOWN_CHARS else text[: SHOWN_CHARS - 1] + "…")
