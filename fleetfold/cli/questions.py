"""Commands that ask the API: nodes, show, why, capacity, sql, quarantine (floor 4)."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from fleetfold.cli.client import Api, node_path
from fleetfold.cli.node_view import print_node
from fleetfold.cli.output import (
    age,
    amount,
    as_of_line,
    cell,
    coloured,
    count,
    escaped,
    print_json,
    print_table,
)
from fleetfold.cli.rows_view import print_rows
from fleetfold.cli.why_view import print_why

Server = Annotated[
    str | None,
    typer.Option("--server", help="Address of the API; default: where the settings say.", metavar="URL"),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
Limit = Annotated[int, typer.Option("--limit", "-n", min=1, help="Print so many at most.")]

MEDIA_TYPES = {"table": "application/json", "json": "application/json", "csv": "text/csv"}
QUARANTINE = """
    SELECT stream, seq, stored_at, subject, node_id, reason, field, detail
    FROM fleet.quarantine
    ORDER BY stored_at DESC, stream, seq DESC
    LIMIT $limit
"""


def add_to(app: typer.Typer) -> None:
    """Give the program these commands."""
    for command in (nodes, show, why, capacity, sql, quarantine):
        app.command()(command)


def nodes(
    *,
    state: Annotated[
        str | None, typer.Option(help="Only nodes in this state: ready, lost, cordoned, …")
    ] = None,
    liveness: Annotated[
        str | None, typer.Option(help="Only pending, alive, lost or unmonitored ones.")
    ] = None,
    zone: Annotated[str | None, typer.Option(help="Only nodes of this zone.")] = None,
    pool: Annotated[str | None, typer.Option(help="Only nodes of this pool.")] = None,
    label: Annotated[
        list[str] | None,
        typer.Option(help="Only nodes with this label; may be repeated.", metavar="KEY=VALUE"),
    ] = None,
    name: Annotated[str | None, typer.Option(help="Only nodes with this name.")] = None,
    at: Annotated[str | None, typer.Option(help="As it was at this time.", metavar="TIME")] = None,
    limit: Limit = 100,
    is_json: Json = False,
    server: Server = None,
) -> None:
    """List nodes with their state.

    **Examples:**

    - `fleetfold nodes`
    - `fleetfold nodes --state lost --zone eu-1a`
    - `fleetfold nodes --label tier=gold --json`
    - `fleetfold nodes --at 2026-05-01T12:00:00Z`
    """
    filters: dict[str, Any] = {
        "state": state,
        "liveness": liveness,
        "zone": zone,
        "pool": pool,
        "name": name,
        "at": at,
        "label": label or None,
    }
    asked = {key: value for key, value in filters.items() if value is not None}
    with Api(server) as api:
        found = list(api.items("/nodes", asked, limit=limit + 1))
    if is_json:
        print_json(found[:limit])
    else:
        _print_nodes(found, limit=limit)


def show(
    node: Annotated[str, typer.Argument(help="The id of the node.")],
    is_json: Json = False,
    server: Server = None,
) -> None:
    """Show one node: state, intent, capacity, devices, allocations.

    **Examples:**

    - `fleetfold show edge-17`
    - `fleetfold show edge-17 --json`
    """
    with Api(server) as api:
        found = api.get(node_path(node))
    if is_json:
        print_json(found)
        return
    print_node(found)


def why(
    node: Annotated[str, typer.Argument(help="The id of the node.")],
    is_json: Json = False,
    server: Server = None,
) -> None:
    """Explain one node: why it is what it is, and what would change it.

    **Examples:**

    - `fleetfold why edge-17`
    - `fleetfold why edge-17 --json`
    """
    with Api(server) as api:
        found = api.get(f"{node_path(node)}/why")
    if is_json:
        print_json(found)
        return
    print_why(found)


def capacity(
    group_by: Annotated[str, typer.Option(help="zone, pool, region or resource.")] = "resource",
    at: Annotated[str | None, typer.Option(help="As it was at this time.", metavar="TIME")] = None,
    is_json: Json = False,
    server: Server = None,
) -> None:
    """Sum the fleet's capacity: total, allocatable, allocated, free.

    **Examples:**

    - `fleetfold capacity`
    - `fleetfold capacity --group-by zone`
    - `fleetfold capacity --at 2026-05-01T12:00:00Z`
    """
    with Api(server) as api:
        answer = api.get("/capacity", {"group_by": group_by} | ({"at": at} if at else {}))
    if is_json:
        print_json(answer)
        return
    amounts = ("total", "reserved", "allocatable", "allocated", "free")
    is_grouped = group_by != "resource"
    print_table(
        (*((group_by,) if is_grouped else ()), "resource", "nodes", *amounts, "not told"),
        (
            (
                *((escaped(row["place"]),) if is_grouped else ()),
                escaped(row["resource"]),
                f"{row['nodes']:,}",
                *(cell(row, column) for column in amounts),
                f"{row['unknown']:,}" if row["unknown"] else "",
            )
            for row in answer["items"]
        ),
        numbers=("nodes", *amounts, "not told"),
        caption=as_of_line(answer),
    )


def sql(
    statement: Annotated[
        str | None,
        typer.Argument(help="One SELECT over the views of schema `fleet`; - or nothing: from stdin."),
    ] = None,
    form: Annotated[str, typer.Option("--format", help="table, json or csv.")] = "table",
    file: Annotated[
        Path | None,
        typer.Option("--file", "-f", help="Read the statement from a file.", exists=True, dir_okay=False),
    ] = None,
    server: Server = None,
) -> None:
    """Ask SQL, read-only.

    **Examples:**

    - `fleetfold sql "select state, count(*) from fleet.nodes group by state"`
    - `fleetfold sql --format csv -f report.sql > report.csv`
    """
    if form not in MEDIA_TYPES:
        raise typer.BadParameter(f"{form} is none of {', '.join(MEDIA_TYPES)}", param_hint="--format")
    text = (
        file.read_text(encoding="utf-8")
        if file
        else statement
        if statement not in (None, "-")
        else sys.stdin.read()
    )
    with Api(server) as api:
        answer = api.sql(text, accept=MEDIA_TYPES[form])
    if form == "table":
        print_rows(json.loads(answer))
    else:
        sys.stdout.buffer.write(answer)
        if not answer.endswith(b"\n"):
            sys.stdout.buffer.write(b"\n")


def quarantine(
    limit: Limit = 50,
    is_json: Json = False,
    server: Server = None,
) -> None:
    """List records that could not be read, newest first, with the reason.

    **Examples:**

    - `fleetfold quarantine`
    - `fleetfold quarantine --json -n 1000`
    """
    with Api(server) as api:
        answer = json.loads(api.sql(QUARANTINE, accept="application/json", values={"limit": limit}))
    if is_json:
        print_json(answer)
        return
    print_rows(answer)


def _print_nodes(found: list[dict[str, Any]], *, limit: int) -> None:
    """Print the first nodes of those found; one more than `limit` says that there are others."""
    print_table(
        ("node", "state", "zone", "pool", "role", "cpu", "memory", "gpu", "last beat", "conditions"),
        (
            (
                escaped(node["id"]),
                coloured(node["state"]),
                escaped(node.get("zone")),
                escaped(node.get("pool")),
                escaped(node.get("role")),
                *(_total(node, resource) for resource in ("cpu", "memory", "gpu")),
                age(node.get("last_heartbeat_at")),
                escaped(", ".join(node.get("conditions", ()))),
            )
            for node in found[:limit]
        ),
        numbers=("cpu", "memory", "gpu", "last beat"),
        caption=f"the first {limit}: more with --limit, fewer with a filter"
        if len(found) > limit
        else count(len(found), "node"),
    )


def _total(node: dict[str, Any], resource: str) -> str:
    found = next((row for row in node.get("resources", ()) if row["resource"] == resource), None)
    return "" if found is None else amount(resource, found.get("total"))
