"""The command that writes a view, or what a statement finds, into a file (floor 4)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any

import typer

from events.errors import RefusedError
from fleetfold.cli.client import Api
from fleetfold.cli.output import count, print_json, size

MEDIA_TYPES = {
    ".csv": "text/csv",
    ".json": "application/json",
    ".arrow": "application/vnd.apache.arrow.stream",
    ".parquet": "application/vnd.apache.parquet",
}
"""The form that each suffix of a file asks for."""

AT = {"nodes": "nodes_at", "capacity": "capacity_at"}
"""The macros that give a view as it was."""

WITHIN_S = 300.0
# The replica stops a statement long before; what is left is for a large answer on a slow line.
_STATEMENT = re.compile(r"\s*(select|with|from)\b", re.IGNORECASE)


def add_to(app: typer.Typer) -> None:
    """Give the program this command."""
    app.command()(export)


def export(
    what: Annotated[str, typer.Argument(help="A view of schema `fleet`, such as nodes; or one SELECT.")],
    file: Annotated[Path, typer.Argument(help="Where to: .parquet, .csv, .json or .arrow.", dir_okay=False)],
    *,
    at: Annotated[
        str | None, typer.Option(help="nodes and capacity as they were at this time.", metavar="TIME")
    ] = None,
    is_json: Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")] = False,
    server: Annotated[
        str | None,
        typer.Option("--server", help="Address of the API; default: where the settings say.", metavar="URL"),
    ] = None,
) -> None:
    """Write a view, or what a statement finds, into a file: whole, or not at all.

    **Examples:**

    - `fleetfold export nodes nodes.parquet`
    - `fleetfold export capacity then.csv --at 2026-05-01T12:00:00Z`
    - `fleetfold export "SELECT node_id, state FROM fleet.nodes WHERE zone = 'eu-1a'" zone.json`
    """
    from rich.console import Console  # noqa: PLC0415 - 50 ms

    media_type = MEDIA_TYPES.get(file.suffix.lower())
    if media_type is None:
        raise typer.BadParameter(f"{file.name} ends with none of {', '.join(MEDIA_TYPES)}", param_hint="FILE")
    statement, values = statement_of(what, at=at)
    with Api(server) as api, Console(stderr=True).status(f"exporting {what if len(what) < 60 else 'rows'}"):
        rows = api.get("/sql/schema")["limits"]["rows"]
        found = api.export(statement, accept=media_type, values=values, rows=rows, within_s=WITHIN_S)
    if found.truncated_by:
        raise RefusedError(
            "truncated",
            f"there is more than one answer holds ({found.truncated_by})",
            instead="export a part of it with a SELECT, or raise FLEETFOLD_SQL__MAX_ROWS",
        )
    _write(file, found.content)
    told = {"file": str(file), "rows": found.rows, "bytes": len(found.content), "as_of": found.as_of}
    if is_json:
        print_json(told)
    else:
        print(f"{file}: {count(found.rows, 'row')}, {size(len(found.content))}")


def statement_of(what: str, *, at: str | None) -> tuple[str, dict[str, Any]]:
    """Return the statement behind a view's name or a statement, and the values of its `$name`s."""
    from projections.views import VIEWS  # noqa: PLC0415 - the texts of all views

    if _STATEMENT.match(what):
        if at is not None:
            raise typer.BadParameter("a statement says itself of when it is", param_hint="--at")
        return what, {}
    name = what.removeprefix("fleet.")
    view = next((view for view in VIEWS if view.name == name), None)
    if view is None:
        names = ", ".join(view.name for view in VIEWS)
        raise typer.BadParameter(f"{what!r} is no view and no SELECT; views are {names}", param_hint="WHAT")
    if at is None:
        columns = ", ".join(f'"{column}"' for column in view.columns)
        return f"SELECT {columns} FROM fleet.{view.name}", {}
    if name not in AT:
        raise typer.BadParameter(
            f"{name} is kept as it is now; {', '.join(AT)} have a past", param_hint="--at"
        )
    return f"FROM fleet.{AT[name]}(CAST($at AS TIMESTAMPTZ))", {"at": at}


def _write(file: Path, content: bytes) -> None:
    """Put a whole file in its place, or leave what is there."""
    part = file.with_name(f"{file.name}.part")
    try:
        part.write_bytes(content)
        part.replace(file)
    except OSError as err:
        part.unlink(missing_ok=True)
        raise RefusedError("not_written", f"{file} cannot be written ({err.strerror})") from err
