"""What every answer says of itself: `as_of`, and waiting for `min_seq` (floor 3)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from fastapi import Response

from api.json_text import dumps
from api.problems import POSITION_NOT_REACHED, ProblemError
from api.questions import Questions
from api.read_streams import MIN_SEQ_WITHIN, READ_STREAMS
from events.streams import FLEET_NAME
from projections.positions import Positions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from api.service import Service


@dataclass(frozen=True, slots=True)
class AsOf:
    """The state that an answer speaks of: everything stored before `time` is in it.

    `epoch` and `seq` are the position in FLEET that is folded at least. `lag_ms` is for how long the oldest
    record of FLEET or BEATS that is not folded yet has been waiting. Before the broker was first asked, it is
    None and `time` that of the last folded fact (None with none).
    """

    epoch: str
    seq: int
    time: datetime | None
    lag_ms: int | None

    def members(self) -> dict[str, object]:
        """Return the members of `as_of`."""
        return {"epoch": self.epoch, "seq": self.seq, "time": self.time, "lag_ms": self.lag_ms}


class Answers:
    """What routes make their answers of: the service, its positions and its questions."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.projection = service.projection
        self.positions = Positions(service.projection)
        self.questions = Questions(service.projection)

    def close(self) -> None:
        """End the threads and the subscription; the service stays as it is. Closing twice is fine."""
        self.questions.close()
        self.positions.close()

    def as_of(self, *, at: datetime | None = None) -> AsOf:
        """Return what holds for an answer that is read from now on; `at` where it is about the past."""
        cursor = self.projection.cursors().get(FLEET_NAME)
        lag_ms = self.lag_ms()
        if lag_ms is not None:
            time = datetime.now(UTC) - timedelta(milliseconds=lag_ms)
        elif cursor and cursor.stored_at_ns:
            time = datetime.fromtimestamp(cursor.stored_at_ns / 1e9, UTC)
        else:
            time = None
        if at is not None:
            time = at if time is None else min(at, time)
        if cursor:
            return AsOf(epoch=cursor.epoch, seq=cursor.seq, time=time, lag_ms=lag_ms)
        reading = self.service.readings().get(FLEET_NAME)
        return AsOf(epoch=reading.epoch if reading else "", seq=0, time=time, lag_ms=lag_ms)

    def lag_ms(self) -> int | None:
        """Return the larger lag of the two streams that answers come from, None while one is not known."""
        readings = self.service.readings()
        lags = [readings[stream].lag_ms for stream in READ_STREAMS if stream in readings]
        known = [lag for lag in lags if lag is not None]
        return round(max(known)) if len(known) == len(READ_STREAMS) else None

    async def reached(self, min_seq: int | None) -> None:
        """Wait until FLEET is folded up to `min_seq`; raise position_not_reached after the bound."""
        if min_seq is None or self.positions.seq(FLEET_NAME) >= min_seq:
            return
        found = await self.positions.wait_for(FLEET_NAME, min_seq, within=MIN_SEQ_WITHIN)
        if found < min_seq:
            raise ProblemError(
                POSITION_NOT_REACHED,
                f"FLEET is folded up to {found} after {MIN_SEQ_WITHIN.total_seconds():g} s, "
                f"asked was {min_seq}: retry, or ask without min_seq",
                members={"min_seq": min_seq, "reached": found, "as_of": self.as_of().members()},
                headers={"Retry-After": "1"},
            )


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer, written: JSON and what belongs beside it. Over HTTP and over NATS it is the same."""

    body: bytes
    headers: dict[str, str]
    status: int = 200

    def http(self) -> Response:
        """Return it as an HTTP answer."""
        return Response(
            self.body, status_code=self.status, media_type="application/json", headers=self.headers
        )


def answer(
    members: Mapping[str, object],
    as_of: AsOf,
    *,
    headers: Mapping[str, str] | None = None,
    status: int = 200,
) -> Answer:
    """Return an answer of the members and their `as_of`; `x-lag-ms` repeats the lag where it is known."""
    beside = dict(headers or {})
    if as_of.lag_ms is not None:
        beside["x-lag-ms"] = str(as_of.lag_ms)
    return Answer(dumps({**members, "as_of": as_of.members()}), beside, status)
