"""What a batch came to once it is committed: what subscribers of a projection are told (floor 2)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from events.ids import NodeId
from events.log import Cursor
from projections.checkpoints import Checkpoint, Fresh


@dataclass(frozen=True, slots=True)
class Applied:
    """What one batch came to, after its commit. `skipped` records had been folded before.

    `nodes` are those whose state (FLEET) or last contact (BEATS) is another now. `counters` counts records by
    what became of them, and warnings as `warning.<code>`. `pending` is what the broker still held.
    """

    stream: str
    cursor: Cursor
    records: int
    skipped: int
    holes: int
    nodes: tuple[NodeId, ...]
    announcements: int
    counters: Mapping[str, int]
    pending: int


Listener = Callable[[Applied], None]


def applied(
    new: Fresh,
    reached: Checkpoint,
    *,
    nodes: tuple[NodeId, ...] = (),
    announcements: int = 0,
    counters: Mapping[str, int] | None = None,
) -> Applied:
    """Return what the new part of a batch came to; without anything else, it came to nothing."""
    batch = new.batch
    return Applied(
        batch.stream,
        reached.cursor,
        len(batch),
        new.skipped,
        len(new.holes),
        nodes,
        announcements,
        counters or {},
        batch.pending,
    )
