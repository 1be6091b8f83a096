"""How the service is: `status` for people, `livez` and `readyz` for whoever restarts it (floor 3)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, Query, Response

from api.answers import Answer, Answers, answer
from api.parameters import Parameters
from api.problems import NOT_READY, ProblemError
from api.read_streams import READ_STREAMS
from api.routing import native_router
from api.status_models import AliveAnswer, ReadyAnswer, StatusAnswer
from events.addresses import public_url
from events.streams import BEATS_NAME, CHANGES_NAME
from projections.derive import RETIRED

if TYPE_CHECKING:
    from api.service import Replica, StreamReading
    from events.log import Cursor


def router(answers: Answers) -> APIRouter:
    """Return the routes `status`, `livez` and `readyz`."""
    routes = native_router(tag="service")

    @routes.get("/status", response_model=StatusAnswer, summary="How the service is")
    async def get_status(asked: Annotated[Parameters, Query()]) -> Response:
        return (await of_service(answers, asked)).http()

    @routes.get(
        "/livez", response_model=AliveAnswer, summary="Whether the process answers; asks for no token"
    )
    async def livez() -> Response:
        return Response(b'{"live":true}', media_type="application/json")

    @routes.get(
        "/readyz",
        response_model=ReadyAnswer,
        summary="Whether the streams exist and all that they held at the start is folded; asks for no token",
    )
    async def readyz() -> Response:
        return readiness(answers).http()

    return routes


async def of_service(answers: Answers, asked: Parameters) -> Answer:
    """Answer what the service reads, how far it is, and what it holds."""
    await answers.reached(asked.min_seq)
    as_of = answers.as_of()
    cursors, readings = answers.projection.cursors(), answers.service.readings()
    by_state = answers.projection.count_by_state()
    changes = readings.get(CHANGES_NAME)
    service = answers.service
    return answer(
        {
            "epoch": as_of.epoch,
            "fleet_seq": as_of.seq,
            "beats_seq": _seq(cursors.get(BEATS_NAME)),
            "changes_seq": changes.head if changes else None,
            "lag_ms": as_of.lag_ms,
            "nodes": sum(count for word, count in by_state.items() if word != RETIRED),
            "nodes_by_state": by_state,
            "version": service.version,
            "liveness_mode": service.liveness_mode(),
            "liveness_reason": service.liveness_reason(),
            "nats_url": public_url(service.nats_url),
            "streams": {
                name: _stream(readings.get(name), cursors.get(name))
                for name in sorted({*READ_STREAMS, *readings})
            },
            "replica": _replica(service.replica()),
        },
        as_of,
    )


def readiness(answers: Answers) -> Answer:
    """Answer that everything is there; raise not_ready, which says what is missing and how far."""
    cursors, readings = answers.projection.cursors(), answers.service.readings()
    streams: dict[str, object] = {}
    missing = []
    for name in READ_STREAMS:
        reading, seq = readings.get(name), _seq(cursors.get(name))
        target = reading.head_at_start if reading else None
        streams[name] = {"seq": seq, "target": target}
        if reading is None or target is None:
            missing.append(f"stream {name} was not found yet")
        elif seq < target:
            missing.append(f"{name} is folded up to {seq} of {target}")
        elif reading.state == "stopped":
            missing.append(f"{name} is no longer read")
    as_of = answers.as_of()
    if missing:
        raise ProblemError(
            NOT_READY,
            ", ".join(missing),
            members={"ready": False, "streams": streams, "as_of": as_of.members()},
            headers={"Retry-After": "1"},
        )
    return answer({"ready": True, "streams": streams}, as_of)


def _seq(cursor: Cursor | None) -> int:
    return cursor.seq if cursor else 0


def _stream(reading: StreamReading | None, cursor: Cursor | None) -> dict[str, object]:
    return {
        "epoch": cursor.epoch if cursor else reading.epoch or None if reading else None,
        "seq": cursor.seq if cursor else None,
        "head": reading.head if reading else None,
        "pending": reading.pending if reading else None,
        "lag_ms": None if reading is None or reading.lag_ms is None else round(reading.lag_ms),
        "generations": reading.generations if reading else 0,
        "holes": reading.holes if reading else 0,
        "state": reading.state if reading else "starting",
        "last_error": reading.last_error if reading else "",
    }


def _replica(replica: Replica) -> dict[str, object]:
    return {
        "state": replica.state,
        "reason": replica.reason,
        "lag_ms": None if replica.lag_ms is None else round(replica.lag_ms),
        "restarts": replica.restarts,
    }
