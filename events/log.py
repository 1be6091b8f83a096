"""What a reader hands on: positions in a stream and batches of records (floor 1, pure).

A batch stays columns from the socket to the table; one row of it is one record of the stream.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Cursor:
    """The last record folded. `epoch` is the stream's creation time, spelled as the broker spells it.

    `stored_at_ns` (nanoseconds since 1970, the broker's clock) catches a restored backup or a lost tail whose
    sequences were written again: the record at `seq` must still have that time. An empty epoch means that
    nothing was ever read.
    """

    epoch: str = ""
    seq: int = 0
    stored_at_ns: int = 0


@dataclass(frozen=True, slots=True)
class Batch:
    """Records of one stream in stream order, contiguous but for `holes`, which the broker proved deleted.

    The four columns have one length, which may be 0 only where `holes` is not empty. `pending` is how many
    records the broker still held after the last one: the lag. A batch may repeat after a crash; `cursor`
    decides what is new.
    """

    stream: str
    seqs: Int64s
    stored_at_ns: Int64s
    subjects: list[bytes]
    payloads: list[bytes]
    cursor: Cursor
    holes: tuple[tuple[int, int], ...] = ()
    pending: int = 0

    def __len__(self) -> int:
        return len(self.payloads)
