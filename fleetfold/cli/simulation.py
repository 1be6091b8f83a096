"""What a simulation looks like at the terminal (floor 4)."""

from __future__ import annotations

import asyncio
import dataclasses
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
from rich.progress import Progress as Bar

from fleetfold import logs
from fleetfold.cli.output import print_json
from fleetfold.connection import connect_once
from fleetfold.simulated_nodes import SimulatedNode, from_csv, invented
from fleetfold.simulator import Progress, Report, simulate

BROKER_WITHIN_S = 5.0
# The agents themselves would wait for ever; a person at a terminal has mistyped the address.


def run(
    url: str,
    *,
    file: Path | None,
    count: int,
    prefix: str,
    interval_s: float,
    duration_s: float | None,
    connections: int,
    seed: int,
    is_json: bool,
) -> None:
    """Run a simulation until its end or Ctrl-C, with its progress on stderr and its report on stdout."""
    logs.configure()
    if file is None:
        nodes = list(invented(count, prefix=prefix, seed=seed, interval_s=interval_s))
    else:
        with file.open(encoding="utf-8", newline="") as lines:
            nodes = list(from_csv(lines, interval_s=interval_s))
    console = Console(stderr=True)
    with Bar(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[told]}"),
        console=console,
        disable=not console.is_terminal,
    ) as bar:
        report = asyncio.run(
            _until_stopped(
                url,
                nodes,
                interval_s=interval_s,
                duration_s=duration_s,
                connections=connections,
                seed=seed,
                on_progress=_shown_on(bar, len(nodes)),
            )
        )
    if is_json:
        print_json(dataclasses.asdict(report))
    else:
        _print_report(report)


async def _until_stopped(
    url: str,
    nodes: list[SimulatedNode],
    *,
    interval_s: float,
    duration_s: float | None,
    connections: int,
    seed: int,
    on_progress: Callable[[Progress], None],
) -> Report:
    await (await connect_once(url, name="simulator", within_s=BROKER_WITHIN_S)).close()
    stop = asyncio.Event()
    for which in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(which, stop.set)
    return await simulate(
        url,
        nodes,
        interval_s=interval_s,
        duration_s=duration_s,
        connections=connections,
        seed=seed,
        on_progress=on_progress,
        stop=stop,
    )


def _shown_on(bar: Bar, count: int) -> Callable[[Progress], None]:
    task = bar.add_task("registering", total=count, told="")
    last = Progress(registered=0, beats=0, missed=0, gone=0, behind_s=0, elapsed_s=0)

    def show(progress: Progress) -> None:
        nonlocal last
        told = f"{progress.beats:,} beats"
        if progress.elapsed_s > last.elapsed_s and progress.beats > last.beats:
            told += f", {(progress.beats - last.beats) / (progress.elapsed_s - last.elapsed_s):,.0f}/s"
        if progress.missed or progress.gone:
            told += f", {progress.missed:,} missed, {progress.gone:,} gone"
        if progress.behind_s > 1:
            told += f", {progress.behind_s:.1f} s late"
        description = "registering" if progress.registered < count else "registered"
        bar.update(task, completed=min(progress.registered, count), description=description, told=told)
        last = progress

    return show


def _print_report(report: Report) -> None:
    print(
        f"{report.registered:,} of {report.nodes:,} nodes registered in {report.register_s:.1f} s; "
        f"{report.beats:,} beats in {report.beat_s:.1f} s ({report.beats / max(report.beat_s, 1e-9):,.0f}/s, "
        f"{report.cpu_us_per_beat:.1f} µs of CPU each, {report.max_behind_s:.2f} s late at most"
        + (f", {report.missed:,} missed" if report.missed else "")
        + ")"
    )
    sys.stdout.flush()
