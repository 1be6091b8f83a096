"""The program `fleetfold`: its commands, and how it ends (floor 4).

Exit codes: 0 done, 1 refused, 2 wrong usage or settings, 3 the API or the broker cannot be reached.
"""

from __future__ import annotations

import errno
import os
import sys
from typing import Annotated, TextIO

import typer

from events.errors import (
    BrokerUnavailableError,
    FleetfoldError,
    InvalidNodeIdError,
    SettingsError,
    UnreachableError,
)
from fleetfold.cli import decisions, exporting, processes, questions, upkeep, watching
from fleetfold.cli.output import visible

REFUSED, USAGE, UNREACHABLE = 1, 2, 3

app = typer.Typer(
    name="fleetfold",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
    help="The inventory of a fleet of machines: why a node is lost, a replayable log, SQL over the history.",
    epilog="Begin with `fleetfold up`, then `fleetfold nodes` in another terminal.",
)
processes.add_to(app)
questions.add_to(app)
decisions.add_to(app)
watching.add_to(app)
exporting.add_to(app)
upkeep.add_to(app)


def _print_version(is_asked: bool) -> None:
    if is_asked:
        from fleetfold.version import version  # noqa: PLC0415 - importlib.metadata costs 20 ms

        typer.echo(version())
        raise typer.Exit


@app.callback()
def _options(
    *,
    _: Annotated[
        bool,
        typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True),
    ] = False,
) -> None:
    """Take what is said before the command."""


def main() -> None:
    """Run the command that the arguments name, and end the process."""
    for said in sys.argv[1:]:
        if not said.isascii() and any("\ud800" <= char <= "\udfff" for char in said):
            print(f"fleetfold: {said!a} is not text in UTF-8", file=sys.stderr)
            sys.exit(USAGE)
    if sys.stdout is None or sys.stderr is None:  # started with one of them closed: nobody reads it
        sys.stdout, sys.stderr = sys.stdout or _nowhere(), sys.stderr or _nowhere()
    try:
        try:
            app()
        finally:
            sys.stdout.flush()  # what is still to be written fails here, not after everything
    except FleetfoldError as err:
        print(f"fleetfold: {visible(str(err))}", file=sys.stderr)
        sys.exit(exit_code(err))
    except BrokenPipeError:  # the reader of our output has gone, such as `head`
        sys.stderr.close()
        sys.exit(0)
    except OSError as err:
        if err.errno not in (errno.ENOSPC, errno.EIO) or err.filename is not None:
            raise
        print(f"fleetfold: the output cannot be written: {err.strerror or err}", file=sys.stderr)
        sys.stdout = None  # its end would try once more
        sys.exit(REFUSED)


def _nowhere() -> TextIO:
    return open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123 - until the process ends


def exit_code(err: FleetfoldError) -> int:
    """Return how the process ends after an error."""
    match err:
        case SettingsError() | InvalidNodeIdError():
            return USAGE
        case BrokerUnavailableError() | UnreachableError():
            return UNREACHABLE
        case _:
            return REFUSED
