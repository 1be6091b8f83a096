"""Commands that run: up, serve, replica, agent, simulate (floor 4)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from fleetfold.settings import Settings

Http = Annotated[
    str | None,
    typer.Option(
        "--http", help="Where the API and the page listen; port 0 takes a free one.", metavar="HOST:PORT"
    ),
]
Nats = Annotated[str | None, typer.Option("--nats", help="The broker to use.", metavar="URL")]
Data = Annotated[
    Path | None, typer.Option("--data", help="Folder of the store and the tables.", file_okay=False)
]
Node = Annotated[str | None, typer.Option("--node", help="Id of the node; default: the host name.")]
LeavesSqlOut = Annotated[bool, typer.Option("--no-sql", help="Leave the SQL replica out.")]


def add_to(app: typer.Typer) -> None:
    """Give the program these commands."""
    for command in (up, serve, replica, agent, simulate):
        app.command()(command)


def up(
    *,
    http: Http = None,
    nats: Nats = None,
    data: Data = None,
    is_ephemeral: Annotated[
        bool, typer.Option("--ephemeral", help="Empty temporary store, free ports, no agent, gone at exit.")
    ] = False,
    leaves_agent_out: Annotated[
        bool, typer.Option("--no-agent", help="Leave the agent of this machine out.")
    ] = False,
    leaves_sql_out: LeavesSqlOut = False,
    node: Node = None,
) -> None:
    """Run everything on this machine: broker, tables, API, page, SQL, and an agent.

    **Examples:**

    - `fleetfold up`
    - `fleetfold up --data /var/lib/fleetfold`
    - `fleetfold up --nats nats://127.0.0.1:4222`
    - `fleetfold up --ephemeral --http 127.0.0.1:0`
    """
    from fleetfold.up import Plan, run  # noqa: PLC0415

    settings = _settings(http=http, nats=nats, data=data, is_ephemeral=is_ephemeral)
    raise typer.Exit(
        run(
            Plan(
                settings,
                embeds_broker=settings.nats.url is None,
                runs_agent=not leaves_agent_out and not settings.ephemeral,
                runs_sql=not leaves_sql_out and settings.sql.url is None,
                node=node,
            )
        )
    )


def serve(
    http: Http = None, nats: Nats = None, data: Data = None, leaves_sql_out: LeavesSqlOut = False
) -> None:
    """Run tables, API, page and SQL over a broker that runs elsewhere.

    **Examples:**

    - `fleetfold serve --nats nats://broker.example:4222`
    - `FLEETFOLD_ADMIN_TOKEN=… fleetfold serve --nats nats://broker.example:4222 --http 0.0.0.0:8470`
    """
    from fleetfold.up import Plan, run  # noqa: PLC0415

    settings = _settings(http=http, nats=nats, data=data)
    if settings.nats.url is None:
        raise typer.BadParameter("name the broker, such as nats://127.0.0.1:4222", param_hint="--nats")
    raise typer.Exit(
        run(
            Plan(
                settings,
                embeds_broker=False,
                runs_agent=False,
                runs_sql=not leaves_sql_out and settings.sql.url is None,
                node=None,
            )
        )
    )


def replica(
    nats: Nats = None,
    data: Data = None,
    http: Annotated[
        str, typer.Option("--http", help="Where the replica listens.", metavar="HOST:PORT")
    ] = "127.0.0.1:8471",
    tell: Annotated[Path | None, typer.Option("--tell", hidden=True)] = None,
) -> None:
    """Run an SQL replica alone: it folds the log into tables of its own and answers SQL.

    **Examples:**

    - `fleetfold replica --nats nats://broker.example:4222 --data /var/lib/fleetfold-replica`
    """
    from fleetfold.address_space import begin_again_with_allocators  # noqa: PLC0415

    settings = _settings(nats=nats, data=data, http=http)
    if settings.nats.url is None:
        raise typer.BadParameter("name the broker, such as nats://127.0.0.1:4222", param_hint="--nats")
    begin_again_with_allocators()  # before anything is imported that would have to be imported again
    from fleetfold.replica import run  # noqa: PLC0415

    raise typer.Exit(run(settings, tell=tell))


def agent(
    *,
    nats: Nats = None,
    node: Node = None,
    region: Annotated[str | None, typer.Option(help="Region of this machine.")] = None,
    zone: Annotated[str | None, typer.Option(help="Zone of this machine.")] = None,
    pool: Annotated[str | None, typer.Option(help="Pool of this machine.")] = None,
    role: Annotated[str | None, typer.Option(help="Role of this machine.")] = None,
    label: Annotated[
        list[str] | None, typer.Option(help="A label of this machine; may be repeated.", metavar="KEY=VALUE")
    ] = None,
) -> None:
    """Speak for this machine: register it, beat, say goodbye at the end.

    **Examples:**

    - `fleetfold agent --nats nats://broker.example:4222`
    - `fleetfold agent --node gpu-7 --zone eu-1a --label tier=gold`
    """
    from fleetfold.agent.machine import Placement  # noqa: PLC0415
    from fleetfold.agent.process import run  # noqa: PLC0415

    settings = _settings(nats=nats)
    placement = Placement(region=region, zone=zone, pool=pool, role=role, labels=_labels(label or []))
    raise typer.Exit(run(settings, node=node, placement=placement))


def simulate(
    *,
    count: Annotated[
        int, typer.Option("--nodes", min=1, max=1_000_000, help="How many machines to invent.")
    ] = 100,
    interval_s: Annotated[
        float, typer.Option("--interval", min=0.05, help="Seconds between two beats of a node.")
    ] = 10.0,
    duration_s: Annotated[
        float | None,
        typer.Option("--duration", min=0, help="Stop after so many seconds; default: at Ctrl-C."),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option(
            "--from",
            exists=True,
            dir_okay=False,
            help="Bring up the nodes of a CSV file (sn,cpu_milli,memory_mib,gpu,model).",
        ),
    ] = None,
    prefix: Annotated[str, typer.Option(help="What invented names begin with.")] = "sim-",
    connections: Annotated[int, typer.Option(min=1, max=64, help="Connections to the broker.")] = 1,
    seed: Annotated[int, typer.Option(help="The same seed makes the same fleet.")] = 0,
    nats: Nats = None,
    is_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> None:
    """Bring up many machines from one process, over the real protocol.

    **Examples:**

    - `fleetfold simulate --nodes 1000`
    - `fleetfold simulate --nodes 100000 --interval 10`
    - `fleetfold simulate --from docs/data/openb_node_list_all_node.csv --duration 60`
    """
    from fleetfold.cli.simulation import run  # noqa: PLC0415

    run(
        _broker_url(nats),
        file=file,
        count=count,
        prefix=prefix,
        interval_s=interval_s,
        duration_s=duration_s,
        connections=connections,
        seed=seed,
        is_json=is_json,
    )


def _settings(
    *,
    http: str | None = None,
    nats: str | None = None,
    data: Path | None = None,
    is_ephemeral: bool = False,
) -> Settings:
    """Read the settings with these flags; an ephemeral server takes a free port where no address is given."""
    from fleetfold.settings_sources import load  # noqa: PLC0415 - 0.25 s, and `--help` needs none of it

    loaded = load({"http": http, "nats.url": nats, "data": data, "ephemeral": is_ephemeral or None})
    if loaded.settings.ephemeral and loaded.origins["http"] == "default":
        return load({"http": "127.0.0.1:0", "nats.url": nats, "data": data, "ephemeral": True}).settings
    return loaded.settings


def _broker_url(nats: str | None) -> str:
    from fleetfold.settings import DEFAULT_BROKER_PORT  # noqa: PLC0415

    return _settings(nats=nats).nats.url or f"nats://127.0.0.1:{DEFAULT_BROKER_PORT}"


def _labels(given: list[str]) -> dict[str, str]:
    labels: dict[str, str] = {}
    for text in given:
        key, equals, value = text.partition("=")
        if not (key and equals):
            raise typer.BadParameter(f"{text!r} is not KEY=VALUE", param_hint="--label")
        labels[key] = value
    return labels
