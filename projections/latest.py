"""What was announced last, still in memory: so that telling it at once asks no tables (floor 2, pure).

Only the writer adds, by putting another tuple in the place of the one before; so anybody may read at any time
without a lock. What is not in here, because it is older or came by the thousands, is in the tables.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from events.announcements import Announcement
from events.change_cursor import ChangeCursor

if TYPE_CHECKING:
    from events.log import Cursor
    from projections.fold import FactsFolded
    from projections.rows import AnnouncementRow, FactRow

MOST_AT_ONCE = 2_000
# Of one batch. Larger ones are a backlog, which is read from the tables by pages.
MOST_CHUNKS = 64
# Batches: a second or more of a busy hour. Who is slower than that asks the tables.


class Reached(NamedTuple):
    """How far FLEET is folded; an epoch of "" where it never was."""

    epoch: str
    seq: int
    stored_at_ns: int


class ChangesPage(NamedTuple):
    """Announcements in their order; `after` is the position after the page, from which the next one begins.

    `is_last` says that there were no more when it was asked. `number` counts the announcements up to it, for
    the next page of the same tables. `holes` are the sequences of FLEET on the way that are proven deleted:
    what they caused, nobody knows.
    """

    reached: Reached
    changes: list[Announcement]
    after: ChangeCursor
    number: int
    is_last: bool
    holes: list[tuple[int, int]]


class _Chunk(NamedTuple):
    """What one batch announced: those after the number `begin` up to `end`, damped ones counted."""

    begin: int
    end: int
    reached: Reached
    changes: list[Announcement]
    holes: tuple[tuple[int, int], ...]


class Latest:
    """The announcements of the last batches of one opening of the tables."""

    def __init__(self) -> None:
        self._chunks: tuple[_Chunk, ...] = ()

    def add(
        self, folded: FactsFolded, *, begin: int, reached: Cursor, holes: Sequence[tuple[int, int]]
    ) -> None:
        """Take what a committed batch announced; `begin` is how many announcements there were before it.

        Called by the writer thread only.
        """
        rows = folded.announcements
        if len(rows) > MOST_AT_ONCE:
            self._chunks = ()
            return
        causes = {fact.seq: fact for fact in folded.facts} if rows else {}
        changes = [_announcement(reached.epoch, row, causes[row.cause_seq]) for row in rows if not row.damped]
        at = Reached(reached.epoch, reached.seq, reached.stored_at_ns)
        chunk = _Chunk(begin, begin + len(rows), at, changes, tuple(holes))
        self._chunks = (*self._chunks[1 - MOST_CHUNKS :], chunk)

    def page(self, *, after: ChangeCursor, number: int | None) -> ChangesPage | None:
        """Return all that was announced after a position, which is also `number` announcements after the
        first; None where the tables have to be asked.
        """
        chunks = self._chunks
        first = next((at for at, chunk in enumerate(chunks) if chunk.begin == number), None)
        if first is None or chunks[-1].reached.epoch != after.epoch:
            return None
        last = chunks[-1]
        changes = [one for chunk in chunks[first:] for one in chunk.changes]
        holes = [hole for chunk in chunks[first:] for hole in chunk.holes if hole[1] > after.seq]
        end = max(after, ChangeCursor(after.epoch, last.reached.seq))
        return ChangesPage(last.reached, changes, end, last.end, True, holes)


def _announcement(epoch: str, row: AnnouncementRow, cause: FactRow) -> Announcement:
    return Announcement._make((epoch, *row[:-1], cause.type, cause.stored_at))
