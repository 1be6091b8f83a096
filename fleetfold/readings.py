"""How the streams are read, in the API's words (floor 4): projector and API do not know each other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from api.read_streams import READ_STREAMS
from api.service import ReadingState, StreamReading
from events.streams import CHANGES_NAME

if TYPE_CHECKING:
    from consumers.announcer import Announcer
    from consumers.projector import Projector
    from consumers.stream_status import StreamStatus

_STATES: dict[str, ReadingState] = {
    "starting": "starting",
    "announcing": "reading",
    "waiting": "waiting",
    "stopped": "stopped",
}


def readings(projector: Projector) -> Mapping[str, StreamReading]:
    """Return one reading for each stream; costs microseconds, from any thread."""
    return {name: _reading(status) for name, status in projector.status().streams.items()}


def announcing(announcer: Announcer) -> StreamReading:
    """Return how the stream that is written goes, in the words of those that are read.

    Its head is the last announcement, and its lag for how long the oldest that is due has waited.
    """
    status = announcer.status()
    return StreamReading(
        stream=CHANGES_NAME,
        epoch=status.epoch,
        head=status.seq,
        lag_ms=status.lag_ms,
        state=_STATES[status.state],
        last_error=status.last_error,
    )


def is_caught_up(projector: Projector) -> bool:
    """Tell whether all that the streams held when they were first seen is folded."""
    streams = projector.status().streams
    return all(
        name in streams
        and (target := streams[name].head_at_start) is not None
        and streams[name].seq >= target
        for name in READ_STREAMS
    )


def folded(projector: Projector) -> tuple[int, int]:
    """Return how many records are folded, and how many the streams held when they were first seen."""
    streams = projector.status().streams.values()
    targets = [(status.seq, status.head_at_start or 0) for status in streams]
    return sum(min(seq, target) for seq, target in targets), sum(target for _, target in targets)


def _reading(status: StreamStatus) -> StreamReading:
    return StreamReading(
        stream=status.stream,
        epoch=status.epoch,
        head=status.head,
        head_at_start=status.head_at_start,
        pending=status.pending,
        lag_ms=status.lag_ms,
        generations=status.generations,
        holes=status.holes,
        state=status.state,
        last_error=status.last_error,
    )
