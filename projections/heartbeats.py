"""The fold of heartbeats (floor 2, pure): a batch of beats onto one row of numbers per node.

A node's beats are folded in stream order, all nodes of a round at once: a batch in which no node beats twice
is one round. For a beat of the current boot, a higher sequence is taken and the gap before it counts as
missed; an equal one is a duplicate, a lower one came late, and neither changes anything but its counter. A
boot never heard of is taken, whatever its sequence; a boot that was current before is only counted, so that
two that beat in turn never flip the row.

A clock counts as skewed from `SKEWED_MS` on, until it is within `IN_STEP_MS` again: what lies between the two
changes nothing, so a clock at either bound is said once, and not again with each beat.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple
from zlib import crc32

import numpy as np
import numpy.typing as npt

from events.heartbeats import NOT_SAID, BeatColumns
from events.ids import NodeId
from events.log import Int64s
from events.moments import from_us

Table = npt.NDArray[np.int64]
"""One row of `COLUMNS` for each node."""
Texts = npt.NDArray[np.object_]
Flags = npt.NDArray[np.bool_]

COLUMNS = (
    "last_seq",
    "last_heartbeat_us",
    "beat_seq",
    "missed",
    "duplicates",
    "reordered",
    "other_boot",
    "skew_ms",
    "skewed_since_us",
)
(
    LAST_SEQ, LAST_HEARTBEAT_US, BEAT_SEQ, MISSED, DUPLICATES, REORDERED, OTHER_BOOT, SKEW_MS, SKEWED_SINCE_US
) = range(len(COLUMNS))  # fmt: skip
NO_SKEW = NOT_SAID
"""In `skew_ms`: the last beat did not say when it was sent."""

SKEWED_MS = 5_000
# Either way. Transport is part of what is measured, and agents that come back after an outage of the broker
# wait a second or two for their turn; a clock that is disciplined at all is within a tenth of a second.
IN_STEP_MS = 2_000

LATEST_BOOTS = 8
PREVIOUS_BOOTS = 2 * LATEST_BOOTS
# As a node's state remembers them (`projections.state`): boots that beat in turn are told from a reboot by
# it, whichever of the older ones are kept.
MOST_MISSED = 2**61
# A counter that stops there cannot overflow when one more gap of any length is added.


class Heartbeat(NamedTuple):
    """What a node's heartbeats say. `beat_seq` is the sequence in BEATS of the last accepted one, `last_seq`
    its own. `used` is what that one measured; None is reported as unknown. `skewed_since` is when its clock
    was first seen far off, None while it is not.
    """

    node_id: NodeId
    boot_id: str
    last_heartbeat_at: datetime
    last_seq: int
    beat_seq: int
    missed: int
    duplicates: int
    reordered: int
    other_boot: int
    skew_ms: int | None
    skewed_since: datetime | None
    inventory: str | None
    previous_boots: tuple[str, ...]
    used: dict[str, float | None]


@dataclass(frozen=True, slots=True)
class Beats:
    """Beats to fold, in stream order, each with its node's number and where and when the broker stored it."""

    columns: BeatColumns
    numbers: Int64s
    stored_at_us: Int64s
    stream_seqs: Int64s


@dataclass(frozen=True, slots=True)
class FoldedBeats:
    """The new rows of the nodes that beat, by rising number; `is_taken` says which beats were accepted.

    `has_new_text` marks the nodes whose boot or inventory is another than before, `previous` holds the
    earlier boots of those of them that have any. `last_taken` is the position of each node's last accepted
    beat, -1 for a node that has none in the batch.
    """

    numbers: Int64s
    table: Table
    boots: Texts
    inventories: Texts
    has_new_text: Flags
    previous: dict[int, tuple[str, ...]]
    is_taken: Flags
    last_taken: Int64s


class Rows:
    """The row of each node by its number. A node without a beat has a row in which `beat_seq` is 0.

    Only the writer changes it. Whoever reads beside it holds the lock under which the writer calls `put`;
    `hold` may be called without it, since it takes away nothing and gives only rows that nobody asks for yet.
    """

    def __init__(self) -> None:
        self.table: Table = np.zeros((0, len(COLUMNS)), dtype=np.int64)
        self.boots: Texts = np.empty(0, dtype=object)
        self.inventories: Texts = np.empty(0, dtype=object)
        self.previous: dict[int, tuple[str, ...]] = {}

    def hold(self, count: int) -> None:
        """Make room for the numbers below `count`."""
        have = len(self.table)
        if count > have:
            more = max(count, have + have // 4, 1024) - have
            self.table = np.concatenate([self.table, np.zeros((more, len(COLUMNS)), dtype=np.int64)])
            self.boots = np.concatenate([self.boots, np.full(more, None, dtype=object)])
            self.inventories = np.concatenate([self.inventories, np.full(more, None, dtype=object)])

    def heartbeat(self, number: int, node_id: NodeId, used: dict[str, float | None]) -> Heartbeat | None:
        """Return a node's row with what belongs to it, None where it never beat."""
        if number >= len(self.table) or not self.table[number, BEAT_SEQ]:
            return None
        last_seq, at_us, beat_seq, missed, duplicates, reordered, other_boot, skew_ms, skewed_us = self.table[
            number
        ].tolist()
        return Heartbeat(
            node_id,
            self.boots[number],
            from_us(at_us),
            last_seq,
            beat_seq,
            missed,
            duplicates,
            reordered,
            other_boot,
            None if skew_ms == NO_SKEW else skew_ms,
            from_us(skewed_us) if skewed_us else None,
            self.inventories[number],
            self.previous.get(number, ()),
            used,
        )

    def put(self, folded: FoldedBeats) -> None:
        """Take the folded rows over, once they are committed."""
        self.table[folded.numbers] = folded.table
        changed = folded.has_new_text
        self.boots[folded.numbers[changed]] = folded.boots[changed]
        self.inventories[folded.numbers[changed]] = folded.inventories[changed]
        self.previous.update(folded.previous)


def fold_beats(rows: Rows, beats: Beats) -> FoldedBeats:
    """Return what the beats make of the rows, which stay as they are. Beats may repeat; there may be none.

    `rows` must have room for every number.
    """
    order = np.argsort(beats.numbers, kind="stable")
    in_order = beats.numbers[order]
    firsts = np.flatnonzero(np.diff(in_order, prepend=-1))
    sizes = np.diff(firsts, append=len(in_order))
    numbers = in_order[firsts]
    fold = _Fold(rows, beats, numbers)
    for nth in range(int(sizes.max(initial=0))):
        nodes = np.flatnonzero(sizes > nth)
        fold.step(nodes, order[firsts[nodes] + nth])
    has_new_text = (fold.boots != rows.boots[numbers]) | (fold.inventories != rows.inventories[numbers])
    for number in numbers[has_new_text].tolist():
        if number in rows.previous:
            fold.previous.setdefault(number, rows.previous[number])
    return FoldedBeats(
        numbers=numbers,
        table=fold.table,
        boots=fold.boots,
        inventories=fold.inventories,
        has_new_text=has_new_text,
        previous=fold.previous,
        is_taken=fold.is_taken,
        last_taken=fold.last_taken,
    )


class _Fold:
    """The touched nodes' rows while they change: `nodes` are positions in them, `at` positions of beats."""

    def __init__(self, rows: Rows, beats: Beats, numbers: Int64s) -> None:
        columns = beats.columns
        self._rows, self._beats, self._numbers = rows, beats, numbers
        self._boot_ids = _texts(columns.boot_ids)
        self._said = _texts(columns.inventories)
        self._skew_ms = np.where(
            columns.sent_us == NOT_SAID, NO_SKEW, (columns.sent_us - beats.stored_at_us) // 1000
        )
        self.table: Table = rows.table[numbers]
        self.boots: Texts = rows.boots[numbers]
        self.inventories: Texts = rows.inventories[numbers]
        self.previous: dict[int, tuple[str, ...]] = {}
        self.is_taken: Flags = np.zeros(len(beats.numbers), dtype=bool)
        self.last_taken: Int64s = np.full(len(numbers), -1, dtype=np.int64)

    def step(self, nodes: Int64s, at: Int64s) -> None:
        """Fold one beat of each of some nodes."""
        table = self.table
        boot, current = self._boot_ids[at], self.boots[nodes]
        seq, last = self._beats.columns.seqs[at], table[nodes, LAST_SEQ]
        is_first = table[nodes, BEAT_SEQ] == 0
        is_same = boot == current
        is_newer = is_same & (seq > last)
        is_late = is_same & (seq < last)
        is_other = ~is_same & ~is_first

        table[nodes[is_same & (seq == last)], DUPLICATES] += 1
        late = nodes[is_late]
        table[late, REORDERED] += 1
        table[late, MISSED] -= table[late, MISSED] > 0
        newer = nodes[is_newer]
        gap = np.minimum(seq[is_newer] - last[is_newer] - 1, MOST_MISSED)
        table[newer, MISSED] = np.minimum(table[newer, MISSED] + gap, MOST_MISSED)
        is_booted = np.zeros(len(nodes), dtype=bool)
        for where in np.flatnonzero(is_other).tolist():
            stream_seq = int(self._beats.stream_seqs[at[where]])
            is_booted[where] = self._boot(int(nodes[where]), boot[where], stream_seq)

        is_taken = is_newer | is_first | is_booted
        self.is_taken[at] = is_taken
        self._take(nodes[is_taken], at[is_taken], is_new_boot=(is_first | is_booted)[is_taken])

    def _boot(self, node: int, boot_id: str, stream_seq: int) -> bool:
        """Say whether the boot is a new one, and remember the current one if so; count the beat if not."""
        number = int(self._numbers[node])
        earlier = self.previous.get(number, self._rows.previous.get(number, ()))
        if boot_id in earlier:
            self.table[node, OTHER_BOOT] += 1
            return False
        boots = (self.boots[node], *earlier)
        if len(boots) > PREVIOUS_BOOTS:
            at = LATEST_BOOTS + crc32(b"%d" % stream_seq) % (len(boots) - LATEST_BOOTS)
            boots = (*boots[:at], *boots[at + 1 :])
        self.previous[number] = boots
        return True

    def _take(self, nodes: Int64s, at: Int64s, *, is_new_boot: Flags) -> None:
        table = self.table
        self.last_taken[nodes] = at
        table[nodes, LAST_SEQ] = self._beats.columns.seqs[at]
        table[nodes, LAST_HEARTBEAT_US] = self._beats.stored_at_us[at]
        table[nodes, BEAT_SEQ] = self._beats.stream_seqs[at]
        self._take_skew(nodes, at, is_new_boot=is_new_boot)
        booted = nodes[is_new_boot]
        self.boots[booted] = self._boot_ids[at[is_new_boot]]
        self.inventories[booted] = None
        said = self._said[at]
        is_news = (said != self.inventories[nodes]) & (said != None)  # noqa: E711 (element by element)
        self.inventories[nodes[is_news]] = said[is_news]

    def _take_skew(self, nodes: Int64s, at: Int64s, *, is_new_boot: Flags) -> None:
        skew_ms = self._skew_ms[at]
        self.table[nodes, SKEW_MS] = skew_ms
        since = self.table[nodes, SKEWED_SINCE_US]
        since[is_new_boot] = 0
        is_said = skew_ms != NO_SKEW
        is_off = is_said & ((skew_ms >= SKEWED_MS) | (skew_ms <= -SKEWED_MS))
        is_in_step = is_said & (skew_ms > -IN_STEP_MS) & (skew_ms < IN_STEP_MS)
        begins = is_off & (since == 0)
        since[begins] = self._beats.stored_at_us[at[begins]]
        since[is_in_step] = 0
        self.table[nodes, SKEWED_SINCE_US] = since


def _texts(column: list[str] | list[str | None]) -> Texts:
    made = np.empty(len(column), dtype=object)
    made[:] = column
    return made
