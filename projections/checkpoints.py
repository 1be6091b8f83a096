"""How far each stream is folded, kept beside the rows that came of it (floor 2)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from events.errors import EpochChangedError, LogGapError
from events.log import Batch, Cursor
from projections.arrow_rows import arrow_rows
from projections.tables import CHECKPOINT, HOLE

if TYPE_CHECKING:
    import duckdb

    from projections.transaction import Transaction

LOAD = """
    SELECT stream, epoch, seq, stored_at_ns, holes
    FROM main.checkpoint
"""
FORGET = """
    DELETE FROM main.checkpoint
    WHERE stream IN (SELECT stream FROM reached)
"""

Hole = tuple[int, int]
NOWHERE = Cursor()


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A position, and how many holes the broker has proven before it in this epoch."""

    cursor: Cursor = NOWHERE
    holes: int = 0


@dataclass(frozen=True, slots=True)
class Fresh:
    """What of a batch lies after the checkpoint; `skipped` records were folded before. May be empty."""

    batch: Batch
    holes: tuple[Hole, ...]
    skipped: int

    @property
    def is_nothing(self) -> bool:
        return not len(self.batch) and not self.holes


def fresh(batch: Batch, cursor: Cursor) -> Fresh:
    """Return what of a batch is new.

    Raises EpochChangedError for another stream's batch, and LogGapError where records are missing between the
    cursor and the batch's end that no proven hole covers.
    """
    if cursor.epoch and batch.cursor.epoch != cursor.epoch:
        raise EpochChangedError(batch.stream, known=cursor.epoch, found=batch.cursor.epoch)
    first = int(np.searchsorted(batch.seqs, cursor.seq, side="right"))
    seqs = batch.seqs[first:]
    steps = np.diff(seqs, prepend=cursor.seq)
    assert (steps > 0).all(), "a batch is in stream order"
    missing = [(int(seqs[at] - steps[at]) + 1, int(seqs[at]) - 1) for at in np.flatnonzero(steps > 1)]
    last = int(seqs[-1]) if len(seqs) else cursor.seq
    if batch.cursor.seq > last:
        missing.append((last + 1, batch.cursor.seq))
    for low, high in missing:
        _prove(batch, low, high)
    rest = replace(
        batch,
        seqs=seqs,
        stored_at_ns=batch.stored_at_ns[first:],
        subjects=batch.subjects[first:],
        payloads=batch.payloads[first:],
    )
    return Fresh(rest, tuple(missing), first)


def _prove(batch: Batch, low: int, high: int) -> None:
    """Raise LogGapError unless the batch's holes cover every sequence from `low` to `high`."""
    for begin, end in sorted(batch.holes):
        if begin <= low <= end:
            low = end + 1
    if low <= high:
        raise LogGapError(batch.stream, low=low, high=high, found=high + 1)


def load_checkpoints(connection: duckdb.DuckDBPyConnection) -> dict[str, Checkpoint]:
    """Return the checkpoint of each stream that was ever read."""
    return {
        stream: Checkpoint(Cursor(epoch, seq, stored_at_ns), holes)
        for stream, epoch, seq, stored_at_ns, holes in connection.execute(LOAD).fetchall()
    }


def save_checkpoint(
    transaction: Transaction, stream: str, at: Checkpoint, *, holes: tuple[Hole, ...] = ()
) -> None:
    """Write a stream's checkpoint and the holes that were crossed on the way to it."""
    cursor = at.cursor
    row = (stream, cursor.epoch, cursor.seq, cursor.stored_at_ns, at.holes)
    rows = arrow_rows(CHECKPOINT, [row])
    transaction.run(FORGET, name="reached", rows=rows)
    transaction.insert(CHECKPOINT, rows)
    if holes:
        transaction.insert(HOLE, arrow_rows(HOLE, [(stream, cursor.epoch, low, high) for low, high in holes]))
