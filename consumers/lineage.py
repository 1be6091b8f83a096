"""Is this still the log that the cursor belongs to? (floor 3)

A stream made again, restored from a backup or cut short has the same name and the same sequences, for other
records.
"""

from __future__ import annotations

from dataclasses import replace

from nats.aio.client import Client

from consumers.stream_api import StreamState, record_at
from events.errors import EpochChangedError, LogRewoundError
from events.log import Cursor

NO_RECORD_SEEN = -1
"""The `stored_at_ns` of a cursor before which nothing was left: no record may ever stand at its sequence."""


async def check_lineage(nc: Client, stream: str, cursor: Cursor, state: StreamState) -> Cursor:
    """Return the cursor, with the epoch filled in where it had none.

    Raises EpochChangedError and LogRewoundError. `state` must have been asked after the consumer was made:
    then the consumer belongs to that epoch, or is gone.
    """
    if cursor.epoch and cursor.epoch != state.epoch:
        raise EpochChangedError(stream, known=cursor.epoch, found=state.epoch)
    if state.last_seq < cursor.seq:
        raise LogRewoundError(
            stream, cursor_seq=cursor.seq, last_seq=state.last_seq, why="it ends before the stored position"
        )
    if cursor.seq and cursor.stored_at_ns:
        found = await record_at(nc, stream, cursor.seq)
        if found is not None and found.stored_at_ns != cursor.stored_at_ns:
            raise LogRewoundError(
                stream, cursor_seq=cursor.seq, last_seq=state.last_seq, why="another record is stored there"
            )
    return replace(cursor, epoch=state.epoch)
