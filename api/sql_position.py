"""Which position of the log an answer speaks of (floor 3)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from api.read_streams import READ_STREAMS
from events.streams import BEATS_NAME, FLEET_NAME
from projections.tables import CHECKPOINT

if TYPE_CHECKING:
    from collections.abc import Mapping

    import duckdb

    from api.service import StreamReading

POSITIONS = f"""
    SELECT stream, epoch, seq, stored_at_ns
    FROM main.{CHECKPOINT.name}
"""


def as_of(
    snapshot: duckdb.DuckDBPyConnection, readings: Mapping[str, StreamReading], *, now: datetime
) -> dict[str, Any]:
    """Return the members of `as_of` for what the open transaction of `snapshot` sees.

    `epoch` and `seq` are the last record of FLEET that its tables hold, `beats_seq` that of BEATS. `lag_ms`
    is for how long the oldest record that is not folded yet has been waiting, None before the broker was
    asked. Everything stored before `time` is in the answer.
    """
    positions = {
        stream: (epoch, seq, at_ns) for stream, epoch, seq, at_ns in snapshot.execute(POSITIONS).fetchall()
    }
    epoch, seq, stored_at_ns = positions.get(FLEET_NAME, ("", 0, 0))
    lags = [reading.lag_ms for stream in READ_STREAMS if (reading := readings.get(stream)) is not None]
    known = [lag for lag in lags if lag is not None]
    lag_ms = round(max(known)) if len(known) == len(READ_STREAMS) else None
    time: datetime | None
    if lag_ms is not None:
        time = now - timedelta(milliseconds=lag_ms)
    else:
        time = datetime.fromtimestamp(stored_at_ns / 1e9, UTC) if stored_at_ns else None
    return {
        "epoch": epoch,
        "seq": seq,
        "time": time,
        "lag_ms": lag_ms,
        "beats_seq": positions.get(BEATS_NAME, ("", 0, 0))[1],
    }
