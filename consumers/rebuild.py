"""Build the tables from the log beside the ones in use, and compare both (floor 3).

The tables in use must not be open anywhere: `verify` and `rebuild` hold them for as long as they work.
The new ones are folded up to exactly where the old ones are, which is where both can be compared, and
from there to the head.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from consumers.lineage import NO_RECORD_SEEN, check_lineage
from consumers.reader import BatchReader
from consumers.stream_api import NotAnsweredError, StreamState, stream_state
from events.errors import BrokerUnavailableError, EpochChangedError, LogRewoundError, RefusedError, StoreError
from events.log import Batch, Cursor
from events.streams import BEATS_NAME, FLEET_NAME
from projections import set_aside
from projections.checkpoints import load_checkpoints
from projections.compare import Comparison, compare
from projections.projection import Projection, ProjectionSettings
from projections.store import StoreSettings

if TYPE_CHECKING:
    from nats.aio.client import Client

BATCH = 20_000
STREAMS = (FLEET_NAME, BEATS_NAME)
BUILDING = ProjectionSettings(store=StoreSettings(checkpoint_at="1GB", checkpoint_behind="1GB"))
# What is being built is thrown away by a crash, so its file is written as seldom as the disk allows: with
# 16 MB, as a service once had, nearly each commit wrote it, at 120 µs of CPU a fact.


@dataclass(frozen=True, slots=True)
class Progress:
    """How many records of how many are folded, holes counted as if they were records."""

    done: int
    total: int


OnProgress = Callable[[Progress], None]
"""Called on the event loop after each batch."""


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """What came of a rebuild. `comparison` is None where there was nothing to compare with, for the reason
    `not_compared`; `replaced` is where the old tables lie now, None where there were none.
    """

    cursors: dict[str, Cursor]
    comparison: Comparison | None
    not_compared: str
    replaced: Path | None


async def verify(tables: Path, nc: Client, *, on_progress: OnProgress) -> Comparison:
    """Return how the tables compare with what the log says now; they are not changed.

    `nc` comes from `consumers.deliveries.new_client`. Raises RefusedError where a service has the tables
    open, StoreError where they cannot be read, EpochChangedError and LogRewoundError where they are of
    another log, BrokerUnavailableError where nobody answers.
    """
    with set_aside.held(tables):
        async with _building(_beside(tables, "verifying"), nc, on_progress=on_progress) as building:
            return await building.compare_with(tables, is_all=True)


async def rebuild(tables: Path, nc: Client, *, on_progress: OnProgress) -> Rebuilt:
    """Build the tables from the log up to its head now, compare, and put them in the place of the old ones.

    The old ones are moved aside, whatever the comparison says. Raises as `verify` does, but for tables that
    cannot be read or are of another log: then nothing is compared, and `not_compared` says why.
    """
    beside = _beside(tables, "building")
    with set_aside.held(tables):
        async with _building(beside, nc, on_progress=on_progress) as building:
            comparison, not_compared = None, ""
            try:
                comparison = await building.compare_with(tables, is_all=False)
            except (StoreError, RefusedError, EpochChangedError, LogRewoundError) as err:
                not_compared = str(err)
            await building.fold(building.heads)
            cursors = dict(building.projection.cursors())
            building.projection.close()
            replaced = set_aside.replace(tables, by=beside)
    return Rebuilt(cursors, comparison, not_compared, replaced)


def up_to(batch: Batch, seq: int) -> Batch:
    """Return the part of a batch that ends at a sequence in it; a proven hole may be cut in two there."""
    if batch.cursor.seq <= seq:
        return batch
    count = int(np.searchsorted(batch.seqs, seq, side="right"))
    holes = tuple((low, min(high, seq)) for low, high in batch.holes if low <= seq)
    stored_at_ns = int(batch.stored_at_ns[count - 1]) if count else NO_RECORD_SEEN
    return replace(
        batch,
        seqs=batch.seqs[:count],
        stored_at_ns=batch.stored_at_ns[:count],
        subjects=batch.subjects[:count],
        payloads=batch.payloads[:count],
        cursor=Cursor(batch.cursor.epoch, seq, stored_at_ns),
        holes=holes,
        pending=batch.pending + len(batch) - count,
    )


class _Building:
    """Tables on their way from the beginning of the log to a position of it."""

    def __init__(
        self, projection: Projection, nc: Client, states: dict[str, StreamState], *, on_progress: OnProgress
    ) -> None:
        self.projection = projection
        self.heads = {name: Cursor(state.epoch, state.last_seq) for name, state in states.items()}
        self._nc, self._states, self._on_progress = nc, states, on_progress
        self._total = self._records(self.heads)

    async def compare_with(self, tables: Path, *, is_all: bool) -> Comparison:
        """Fold up to where other tables are, and compare; `is_all` says that nothing is folded after that."""
        with set_aside.read_only(tables) as old:
            at = await self._positions({name: found.cursor for name, found in load_checkpoints(old).items()})
            if is_all:
                self._total = self._records(at)
            await self.fold(at)
            with self.projection.cursor() as new:
                return await asyncio.to_thread(compare, old, new)

    async def fold(self, targets: dict[str, Cursor]) -> None:
        """Fold each stream up to a position of it."""
        for stream, target in targets.items():
            begin = self.projection.cursors().get(stream, Cursor())
            if begin.seq >= target.seq:
                continue
            reader = BatchReader(self._nc, stream, after=begin, batch=BATCH)
            async with contextlib.AsyncExitStack() as closing:
                closing.push_async_callback(reader.close)
                async for batch in reader:
                    await asyncio.to_thread(self.projection.apply, up_to(batch, target.seq))
                    self._on_progress(Progress(self._records(self.projection.cursors()), self._total))
                    if batch.cursor.seq >= target.seq:
                        break

    async def _positions(self, cursors: dict[str, Cursor]) -> dict[str, Cursor]:
        """Return where other tables are in the streams as they are now.

        Raises where they are of another FLEET, and BrokerUnavailableError. Heartbeats of another BEATS can't
        be compared, and the head will do.
        """
        at = {}
        for stream, cursor in cursors.items():
            try:
                at[stream] = await check_lineage(self._nc, stream, cursor, self._states[stream])
            except (EpochChangedError, LogRewoundError):
                if stream == FLEET_NAME:
                    raise
                at[stream] = self.heads[stream]
            except NotAnsweredError as err:
                raise BrokerUnavailableError("looking at the log", why=err.why) from err
        return at

    def _records(self, at: Mapping[str, Cursor]) -> int:
        return sum(
            max(0, cursor.seq - self._states[stream].first_seq + 1)
            for stream, cursor in at.items()
            if stream in self._states
        )


@contextlib.asynccontextmanager
async def _building(path: Path, nc: Client, *, on_progress: OnProgress) -> AsyncIterator[_Building]:
    """Open empty tables for the length of a block; what is left of them after it is deleted."""
    set_aside.remove(path)
    try:
        states = {name: await stream_state(nc, name) for name in STREAMS}
    except NotAnsweredError as err:
        raise BrokerUnavailableError("looking at the log", why=err.why) from err
    projection = await asyncio.to_thread(Projection.open, path, settings=BUILDING)
    try:
        yield _Building(projection, nc, states, on_progress=on_progress)
    finally:
        projection.close()
        set_aside.remove(path)


def _beside(tables: Path, what: str) -> Path:
    return tables.with_name(f"{tables.name}.{what}")
