"""Sequences that were not delivered: proven deleted, or not (floor 3).

Age, a purge and a delete all leave holes, and a broker that loses records leaves the same. So the broker is
asked about each: what is the first record from here on? One question covers every kind of hole, of any
length.
"""

from __future__ import annotations

import numpy as np
from nats.aio.client import Client

from consumers.stream_api import first_record_from
from events.errors import LogGapError
from events.log import Int64s

Hole = tuple[int, int]
"""First and last missing sequence."""


def holes_in(seqs: Int64s, *, after: int) -> list[Hole]:
    """Return what is missing from `after` to the last of `seqs`; raise ValueError where they do not rise."""
    steps = np.diff(seqs, prepend=after)
    if (steps < 1).any():
        raise ValueError("sequences do not rise")
    return [(int(seqs[at] - steps[at] + 1), int(seqs[at] - 1)) for at in np.flatnonzero(steps > 1)]


async def prove(nc: Client, stream: str, hole: Hole) -> None:
    """Return where the broker holds no record in the hole; raise LogGapError where it does."""
    low, high = hole
    found = await first_record_from(nc, stream, low)
    if found is not None and found.seq <= high:
        raise LogGapError(stream, low=low, high=high, found=found.seq)
