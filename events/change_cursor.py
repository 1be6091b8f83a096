"""A position among the changes of the fleet: one text for NATS, HTTP and the command line (floor 1, pure).

    <epoch>/<seq>/<n>     after the n-th announcement of the fact at `seq` of FLEET: that announcement's id
    <epoch>/<seq>         after all that the facts up to `seq` come to: what an answer's `as_of` speaks of

It is made of the log alone, so it means the same in every process, and after a rebuild.
"""

from __future__ import annotations

import re
from typing import NamedTuple

ALL_OF_IT = 2**31 - 1
"""As `n`: after every announcement of the fact."""

_TEXT = re.compile(r"([^/\s]{1,64})/([0-9]{1,18})(?:/([0-9]{1,9}))?")


class ChangeCursor(NamedTuple):
    """A position in the log of one epoch; those of one epoch are ordered as their tuples are."""

    epoch: str
    seq: int
    n: int = ALL_OF_IT

    def __str__(self) -> str:
        return f"{self.epoch}/{self.seq}" if self.n == ALL_OF_IT else f"{self.epoch}/{self.seq}/{self.n}"


def parse_cursor(text: str) -> ChangeCursor:
    """Return the position that a text names; raise ValueError for any other text."""
    found = _TEXT.fullmatch(text)
    if found is None:
        raise ValueError(f"{text[:80]!r} is no position: <epoch>/<seq>/<n> or <epoch>/<seq>")
    epoch, seq, n = found.groups()
    return ChangeCursor(epoch, int(seq), ALL_OF_IT if n is None else int(n))
