"""What a following shows of itself to status, metrics and tests (floor 3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

State = Literal["starting", "reading", "waiting", "stopped"]


@dataclass(frozen=True, slots=True)
class StreamStatus:
    """How far a stream is folded, and how its reading goes.

    `seq` is committed, `head` the last record the broker said it holds, `head_at_start` what that was when it
    was first seen (both None before). `lag_ms` is for how long the oldest record that is not folded yet has
    been waiting, as far as we know: 0 with everything folded, growing while the broker does not answer.
    `reading`: records arrive; `waiting`: the broker does not answer; `stopped`: a person has to look
    (`last_error`). Counts are of this process.
    """

    stream: str
    state: State
    epoch: str
    seq: int
    head: int | None
    head_at_start: int | None
    pending: int
    lag_ms: float | None
    generations: int
    stalls: int
    holes: int
    records: int
    last_error: str
