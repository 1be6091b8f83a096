"""A projector at work on a file, as the core process has it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from consumers.following import StreamPlan
from consumers.projector import PLANS, Projector
from projections.projection import Projection
from tests.support.reading import reading_client


@asynccontextmanager
async def projecting(
    url: str, path: Path, *, plans: tuple[StreamPlan, ...] = PLANS
) -> AsyncIterator[tuple[Projection, Projector]]:
    """Open a file and fold both streams into it for the length of a block."""
    projection = Projection.open(path)
    try:
        async with at_work(url, projection, plans=plans) as projector:
            yield projection, projector
    finally:
        projection.close()


@asynccontextmanager
async def at_work(
    url: str, projection: Projection, *, plans: tuple[StreamPlan, ...] = PLANS
) -> AsyncIterator[Projector]:
    """Fold both streams into an open projection for the length of a block."""
    projector = Projector(projection, lambda: reading_client(url), plans=plans)
    await projector.start()
    try:
        yield projector
    finally:
        await projector.stop()


async def shown(is_so: Callable[[], bool], *, timeout_s: float = 20) -> None:
    """Wait until a status says so."""
    async with asyncio.timeout(timeout_s):
        while not is_so():  # noqa: ASYNC110 (a status tells nobody that it changed)
            await asyncio.sleep(0.005)
