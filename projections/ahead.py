"""Folding facts one batch ahead of the commits (floor 2, pure but for a lock).

While the writer commits a batch, which holds no Python lock, another thread folds the next onto what the
first will have made of the nodes. Nothing of it is shown, so a batch that is never committed leaves no trace.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

from events.ids import NodeId
from events.log import Batch
from projections.checkpoints import Checkpoint, Fresh, fresh
from projections.fold import FactsFolded, fold_facts
from projections.state import NodeState


@dataclass(frozen=True, slots=True, eq=False)
class FoldedAhead:
    """A batch of FLEET that is folded and not committed, and the checkpoints before and after it."""

    new: Fresh
    before: Checkpoint
    reached: Checkpoint
    folded: FactsFolded


class Ahead:
    """Remembers the batch that was folded last, until it is committed or dropped."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last: FoldedAhead | None = None

    def fold(
        self,
        batch: Batch,
        *,
        committed: Callable[[], Checkpoint],
        read: Callable[[NodeId], NodeState | None],
    ) -> FoldedAhead:
        """Fold a batch onto the one before it, committed or not.

        `committed` and `read` say what is committed. At most one batch may be folded and not committed when
        this is called. Raises as `fresh` does.
        """
        last = self._last
        # Asked after the look at the last batch: without one, all that was folded is committed.
        before = committed() if last is None else last.reached
        states = {} if last is None else last.folded.states

        def reached(node_id: NodeId) -> NodeState | None:
            return states[node_id] if node_id in states else read(node_id)

        new = fresh(batch, before.cursor)
        after = before if new.is_nothing else Checkpoint(batch.cursor, before.holes + len(new.holes))
        made = FoldedAhead(new, before, after, fold_facts(new.batch, reached))
        with self._lock:
            self._last = made
        return made

    def done(self, folded: FoldedAhead) -> None:
        """Let go of a batch that is committed and shown: from now on the tables say what it made."""
        with self._lock:
            if self._last is folded:
                self._last = None

    def drop(self) -> None:
        """Forget what is not committed: the stream is read again from where the tables are."""
        with self._lock:
            self._last = None
