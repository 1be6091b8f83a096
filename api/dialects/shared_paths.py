"""Paths that several dialects have: one answer that suits each of them (floor 3)."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from prometheus_client import CONTENT_TYPE_LATEST

from api.dialects.calls import Asked, Call, Dialect, Reply, Shown
from api.dialects.refusal import Kind, Refusal
from events.streams import FLEET_NAME

if TYPE_CHECKING:
    from api.answers import Answers

STATUSES: dict[Kind, int] = {
    "unknown_route": 404,
    "method_not_allowed": 405,
    "unavailable": 503,
    "oversized": 413,
}

COUNT = {"type": "integer", "minimum": 0}
HEALTH = {
    "type": "object",
    "required": [
        "status", "clusterId", "version", "nodesTotal", "nodesReady", "appsTotal", "poolsTotal", "uptimeSecs",
    ],
    "properties": {
        "status": {"const": "ok"},
        "clusterId": {"type": "string"},
        "version": {"type": "string"},
        "nodesTotal": COUNT,
        "nodesReady": COUNT,
        "appsTotal": COUNT,
        "poolsTotal": COUNT,
        "uptimeSecs": COUNT,
    },
}  # fmt: skip


def dialect(answers: Answers, metrics: Callable[[], Awaitable[bytes]]) -> Dialect:
    """Return `/health` and `/metrics`; `metrics` gives the text that the native route gives."""
    began = time.monotonic()

    async def health(_asked: Asked) -> Reply:
        counts = answers.projection.count_by_state()
        total = sum(count for state, count in counts.items() if state != "retired")
        return Reply(
            200,
            {
                "status": "ok",
                "clusterId": _cluster_id(answers),
                "version": answers.service.version,
                "nodesTotal": total,
                "nodesReady": counts.get("ready", 0),
                "appsTotal": 0,
                "poolsTotal": 0,
                "uptimeSecs": int(time.monotonic() - began),
            },
        )

    async def text(_asked: Asked) -> Reply:
        return Reply(200, text=(await metrics()).decode(), media_type=CONTENT_TYPE_LATEST)

    return Dialect(
        name="shared",
        title="Fleetfold: paths that several dialects share",
        prefixes=("/health", "/metrics"),
        calls=(
            Call(
                method="GET",
                path="/health",
                does=health,
                summary="How the service and its fleet are: smolfleet's and Fuse's members in one object",
                answers={200: Shown("It answers", HEALTH)},
                is_open=True,
            ),
            Call(
                method="GET",
                path="/metrics",
                does=text,
                summary="What the native route /fleet/v1/metrics says",
                answers={200: Shown("Metrics as Prometheus reads them", {"type": "string"}, "text/plain")},
                is_open=True,
            ),
        ),
        refuse=_refused,
        refused_as=Shown(
            "Refused, with a word and a sentence", {"type": "object", "required": ["code", "error"]}
        ),
        may_always_come=(404, 405, 500, 503),
    )


def _cluster_id(answers: Answers) -> str:
    """Return what tells this fleet from another: when its log was made."""
    cursor = answers.projection.cursors().get(FLEET_NAME)
    return cursor.epoch if cursor else ""


def _refused(refusal: Refusal, _asked: Asked) -> Reply:
    body = {"code": refusal.kind, "error": refusal.detail}
    return Reply(STATUSES.get(refusal.kind, 500), body, headers=refusal.headers)
