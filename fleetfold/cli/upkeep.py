"""Commands for whoever runs it: check, schema, rebuild, verify (floor 4)."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fleetfold.cli.output import console, escaped, print_json, print_table, size

if TYPE_CHECKING:
    from nats.aio.client import Client

    from events.streams import StreamSpec
    from fleetfold.settings import Settings
    from fleetfold.settings_sources import Loaded

REFUSED, UNREACHABLE = 1, 3
BROKER_WITHIN_S = 5.0


class Document(StrEnum):
    """What `schema` prints."""

    SETTINGS = "settings"
    SQL = "sql"
    OPENAPI = "openapi"
    ASYNCAPI = "asyncapi"


def add_to(app: typer.Typer) -> None:
    """Give the program these commands."""
    for command in (rebuild, verify, check, schema):
        app.command()(command)


Nats = Annotated[
    str | None,
    typer.Option("--nats", help="The broker with the log; default: the embedded one's store.", metavar="URL"),
]
Data = Annotated[Path | None, typer.Option("--data", help="The data folder.", file_okay=False)]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]


def rebuild(nats: Nats = None, data: Data = None, is_json: Json = False) -> None:
    """Build the tables anew from the log, compare, and put them in the place of the old ones.

    The service has to be stopped. The old tables are kept beside the new ones.

    **Examples:**

    - `fleetfold rebuild`
    - `fleetfold rebuild --nats nats://broker.example:4222 --data /var/lib/fleetfold`
    """
    from fleetfold.cli import rebuilding  # noqa: PLC0415 - a second
    from fleetfold.settings_sources import load  # noqa: PLC0415

    settings = load({"nats.url": nats, "data": data}).settings
    raise typer.Exit(rebuilding.rebuild(settings, is_json=is_json))


def verify(nats: Nats = None, data: Data = None, is_json: Json = False) -> None:
    """Compare the tables with what the log says, and change nothing. Ends with 1 where they differ.

    The service has to be stopped.

    **Examples:**

    - `fleetfold verify`
    - `fleetfold verify --json`
    """
    from fleetfold.cli import rebuilding  # noqa: PLC0415 - a second
    from fleetfold.settings_sources import load  # noqa: PLC0415

    settings = load({"nats.url": nats, "data": data}).settings
    raise typer.Exit(rebuilding.verify(settings, is_json=is_json))


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at. `is_reachable` is False where the broker did not answer."""

    what: str
    is_good: bool
    told: str
    is_reachable: bool = True


def check(
    nats: Annotated[str | None, typer.Option("--nats", help="The broker to look at.", metavar="URL")] = None,
    data: Annotated[Path | None, typer.Option("--data", help="The data folder to look at.")] = None,
    is_json: Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")] = False,
) -> None:
    """Print each setting with its origin, and look at broker, streams and data folder.

    **Examples:**

    - `fleetfold check`
    - `fleetfold check --nats nats://broker.example:4222 --json`
    """
    import asyncio  # noqa: PLC0415 - 30 ms, and `--help` needs none of it

    from fleetfold.settings_sources import load  # noqa: PLC0415

    loaded = load({"nats.url": nats, "data": data})
    findings = [_look_at_data(loaded.settings), *asyncio.run(_look_at_broker(loaded.settings))]
    if is_json:
        print_json({"settings": _settings(loaded), "findings": [asdict(finding) for finding in findings]})
    else:
        print_table(
            ("setting", "value", "origin"),
            (
                (escaped(row["name"]), escaped(row["value"]), escaped(row["origin"]))
                for row in _settings(loaded)
            ),
        )
        for finding in findings:
            mark = "[green]good[/]" if finding.is_good else "[bold red]bad [/]"
            console().print(f"{mark}  {escaped(finding.what)}: {escaped(finding.told)}")
    if not all(finding.is_reachable for finding in findings):
        raise typer.Exit(UNREACHABLE)
    if not all(finding.is_good for finding in findings):
        raise typer.Exit(REFUSED)


def schema(
    document: Annotated[Document, typer.Argument(help="Which one.")],
) -> None:
    """Print a document that is made from the code.

    **Examples:**

    - `fleetfold schema settings`
    - `fleetfold schema sql`
    - `fleetfold schema openapi > openapi.json`
    """
    from fleetfold.cli.documents import http_document, sql_contract  # noqa: PLC0415
    from fleetfold.settings_table import settings_table  # noqa: PLC0415

    match document:
        case Document.SETTINGS:
            text = settings_table()
        case Document.SQL:
            text = sql_contract()
        case Document.OPENAPI | Document.ASYNCAPI:
            text = http_document(f"{document}.json")
    print(text, end="")


def _settings(loaded: Loaded) -> list[dict[str, str]]:
    from fleetfold.settings import leaves  # noqa: PLC0415
    from fleetfold.settings_table import shown  # noqa: PLC0415

    return [
        {
            "name": leaf.variable,
            "value": shown(leaf, loaded.settings),
            "origin": loaded.origins[leaf.name],
        }
        for leaf in leaves()
    ]


def _look_at_data(settings: Settings) -> Finding:
    from events.errors import RefusedError  # noqa: PLC0415
    from fleetfold.data_folder import DataFolder  # noqa: PLC0415

    what = f"data folder {settings.data}"
    if not settings.data.exists():
        return Finding(what, is_good=True, told="not there yet, the first start makes it")
    folder = DataFolder(settings.data)
    try:
        folder.hold()
    except RefusedError as err:
        is_in_use = err.reason == "data_folder_in_use"  # as it should be where the service runs
        return Finding(what, is_good=is_in_use, told=str(err).removesuffix(f": {err.instead}"))
    folder.release()
    return Finding(what, is_good=True, told="can be used, and nobody uses it now")


async def _look_at_broker(settings: Settings) -> list[Finding]:
    from events.addresses import public_url  # noqa: PLC0415
    from events.errors import BrokerUnavailableError  # noqa: PLC0415
    from events.streams import ALL  # noqa: PLC0415
    from fleetfold.connection import connect_once  # noqa: PLC0415
    from fleetfold.settings import DEFAULT_BROKER_PORT  # noqa: PLC0415

    url = settings.nats.url or f"nats://127.0.0.1:{DEFAULT_BROKER_PORT}"
    what = f"broker {public_url(url)}"
    try:
        nc = await connect_once(url, name="fleetfold check", within_s=BROKER_WITHIN_S)
    except BrokerUnavailableError as err:
        hint = "" if settings.nats.url else ": `fleetfold up` starts one there"
        return [Finding(what, is_good=False, is_reachable=False, told=f"{err}{hint}")]
    try:
        return [
            Finding(what, is_good=True, told="answers"),
            *[await _look_at_stream(nc, spec) for spec in ALL],
        ]
    finally:
        await nc.close()


async def _look_at_stream(nc: Client, spec: StreamSpec) -> Finding:
    from events.errors import BrokerUnavailableError, StreamDriftError  # noqa: PLC0415
    from events.jetstream import NO_SUCH_STREAM, ask, error_code  # noqa: PLC0415
    from events.stream_admin import drift, stream_info  # noqa: PLC0415
    from events.streams import config  # noqa: PLC0415

    what = f"stream {spec.name}"
    try:
        answer = await ask(nc, f"STREAM.INFO.{spec.name}", doing=f"looking at {what}")
        if error_code(answer) == NO_SUCH_STREAM:
            return Finding(what, is_good=True, told="not there yet, the first start makes it")
        found = await stream_info(nc, spec.name)
    except BrokerUnavailableError as err:
        return Finding(what, is_good=False, is_reachable=False, told=str(err))
    differences = drift(found.config, config(spec))
    if differences:
        return Finding(what, is_good=False, told=str(StreamDriftError(spec.name, differences=differences)))
    told = f"as declared, {found.last_seq:,} records so far, {size(found.size_bytes)}, created {found.epoch}"
    return Finding(what, is_good=True, told=told)
