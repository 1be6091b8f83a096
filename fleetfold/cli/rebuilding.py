"""`rebuild` and `verify` at the terminal (floor 4): the log read again beside the tables, with progress."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from consumers import rebuild as rebuilding
from consumers.deliveries import new_client
from events.addresses import public_url
from events.errors import BrokerUnavailableError, RefusedError
from fleetfold import logs
from fleetfold.broker import EmbeddedBroker
from fleetfold.cli.output import escaped, print_json, print_table
from fleetfold.connection import connect
from fleetfold.data_folder import DataFolder

if TYPE_CHECKING:
    from nats.aio.client import Client

    from consumers.rebuild import OnProgress, Progress, Rebuilt
    from fleetfold.settings import Settings
    from projections.compare import Comparison

DONE, DIFFER = 0, 1
BROKER_WITHIN_S = 10.0


def verify(settings: Settings, *, is_json: bool) -> int:
    """Compare the tables with the log; return 0 where they tell the same, 1 where not."""

    async def compared() -> Comparison:
        async with _work_on(settings) as (tables, nc):
            with _bar() as show:
                return await rebuilding.verify(tables, nc, on_progress=show)

    comparison = asyncio.run(compared())
    if is_json:
        print_json(asdict(comparison))
    else:
        _print_comparison(comparison)
        print(
            "the tables tell what the log says" if comparison.is_equal else "the tables differ from the log"
        )
    return DONE if comparison.is_equal else DIFFER


def rebuild(settings: Settings, *, is_json: bool) -> int:
    """Put tables that are made from the log anew in the place of the old ones; return 0."""

    async def built() -> Rebuilt:
        async with _work_on(settings) as (tables, nc):
            with _bar() as show:
                return await rebuilding.rebuild(tables, nc, on_progress=show)

    rebuilt = asyncio.run(built())
    if is_json:
        print_json(asdict(rebuilt))
        return DONE
    if rebuilt.comparison is not None:
        _print_comparison(rebuilt.comparison)
    else:
        print(f"nothing was compared: {rebuilt.not_compared}")
    for stream, cursor in rebuilt.cursors.items():
        print(f"{stream} is folded up to record {cursor.seq:,}")
    if rebuilt.replaced is not None:
        print(f"the old tables lie in {rebuilt.replaced}: delete them when nothing is missed")
    return DONE


@contextlib.asynccontextmanager
async def _work_on(settings: Settings) -> AsyncIterator[tuple[Path, Client]]:
    """Hold the data folder, and give its tables and a connection to its log."""
    logs.configure()
    folder = DataFolder(settings.data)
    if not folder.root.exists():
        raise RefusedError("no_data", f"there is no folder {folder.root}", instead="name it with --data")
    folder.hold()
    try:
        async with _log_of(settings, folder) as nc:
            yield folder.tables, nc
    finally:
        folder.release()


@contextlib.asynccontextmanager
async def _log_of(settings: Settings, folder: DataFolder) -> AsyncIterator[Client]:
    """Connect to the broker, or to one that is started over the folder's own store for this."""
    if settings.nats.url is not None:
        async with _connected(settings.nats.url) as nc:
            yield nc
        return
    if not folder.broker.exists():
        raise RefusedError(
            "no_log",
            f"there is no log in {folder.root}",
            instead="name its broker with --nats nats://HOST:4222",
        )
    broker = EmbeddedBroker(folder.broker, port=None)
    broker.launch()
    try:
        async with _connected(await broker.ready()) as nc:
            yield nc
    finally:
        await broker.stop()


@contextlib.asynccontextmanager
async def _connected(url: str) -> AsyncIterator[Client]:
    try:
        async with asyncio.timeout(BROKER_WITHIN_S):
            nc = await connect(url, name="fleetfold rebuild", nc=new_client())
    except TimeoutError as err:
        raise BrokerUnavailableError(f"connecting to {public_url(url)}", why="no answer") from err
    try:
        yield nc
    finally:
        await nc.close()


@contextlib.contextmanager
def _bar() -> Iterator[OnProgress]:
    console = Console(stderr=True)
    with Bar(
        TextColumn("reading the log"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=console,
        disable=not console.is_terminal,
    ) as bar:
        task = bar.add_task("", total=None)

        def show(progress: Progress) -> None:
            bar.update(task, completed=progress.done, total=progress.total)

        yield show


def _print_comparison(comparison: Comparison) -> None:
    print_table(
        ("view", "in the tables", "in the log", ""),
        (
            (
                escaped(view.view),
                f"{view.left_rows:,}",
                f"{view.right_rows:,}",
                "[green]same[/]" if view.is_equal else "[bold red]differs[/]",
            )
            for view in comparison.views
        ),
        numbers=("in the tables", "in the log"),
        caption="; ".join(f"{view} was left out: {why}" for view, why in comparison.left_out.items()),
    )
    for view in comparison.views:
        for difference in view.differences:
            where = "only in the tables" if difference.is_left else "only in the log"
            print(f"{view.view}, {where}: {difference.row}")
