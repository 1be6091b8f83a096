"""What Prometheus asks for: the reading, the fleet, and our own answers (floor 3).

Numbers that the tables hold (nodes by state, quarantined records by reason) are read when they are asked
for, so a restart or a rebuild never makes them wrong. The rest is counted since this process began.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from fastapi import APIRouter, Response
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from api.routing import native_router
from projections.queries import quarantine_counts

if TYPE_CHECKING:
    from collections.abc import Iterable

    from prometheus_client import Metric
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from api.answers import Answers

BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)
# Around the figures that are promised: 5 ms for a node, 20 ms for a page, 50 ms for the fleet, 500 ms for
# the past.

_NO_ROUTE = "none"
EVENT_STREAM = b"text/event-stream; charset=utf-8"


class Requests:
    """How long answers took, by route, method and status; the registry is the application's own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._seconds = Histogram(
            "fleetfold_http_request_seconds",
            "Time until the last byte of an answer was handed over",
            ("route", "method", "status"),
            buckets=BUCKETS_S,
            registry=self.registry,
        )

    def answered(self, scope: Scope, *, status: int, began: float) -> None:
        """Count one answer. The route is its template, never the path: ids do not become series."""
        route = getattr(scope.get("route"), "path", _NO_ROUTE)
        method = scope["method"] if scope["method"] in _METHODS else "other"
        self._seconds.labels(route, method, str(status)).observe(time.perf_counter() - began)


_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class Timed:
    """A layer that times every answer of the layers below."""

    def __init__(self, app: ASGIApp, *, requests: Requests) -> None:
        self._app, self._requests = app, requests

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, status = time.perf_counter(), 500

        is_endless = False

        async def watched(message: Message) -> None:
            nonlocal status, is_endless
            if message["type"] == "http.response.start":
                status = message["status"]
                is_endless = (b"content-type", EVENT_STREAM) in message["headers"]
            await send(message)

        try:
            await self._app(scope, receive, watched)
        finally:
            if not is_endless:  # how long somebody followed says nothing about us
                self._requests.answered(scope, status=status, began=began)


def router(answers: Answers, requests: Requests) -> APIRouter:
    """Return the route `metrics`."""
    routes = native_router(tag="service")

    @routes.get(
        "/metrics",
        response_class=Response,
        responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
        summary="Metrics as Prometheus reads them",
    )
    async def metrics() -> Response:
        return Response(await text(answers, requests), media_type=CONTENT_TYPE_LATEST)

    return routes


async def text(answers: Answers, requests: Requests) -> bytes:
    """Return the metrics as Prometheus reads them."""
    now = CollectorRegistry()
    now.register(await _read(answers))
    return generate_latest(now) + generate_latest(requests.registry)


class _Read(Collector):
    def __init__(self, families: list[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


async def _read(answers: Answers) -> _Read:
    by_state = answers.projection.count_by_state()
    quarantined = await answers.questions.ask(quarantine_counts)
    nodes = GaugeMetricFamily("fleetfold_nodes", "Nodes by their one word of state", labels=["state"])
    for word, count in by_state.items():
        nodes.add_metric([word], count)
    rejected = CounterMetricFamily(
        "fleetfold_quarantined", "Records that could not be read, kept whole", labels=["stream", "reason"]
    )
    for (stream, reason), count in quarantined.items():
        rejected.add_metric([stream, reason], count)
    said = CounterMetricFamily(
        "fleetfold_liveness",
        "What the evaluator said: verdicts by verb, questions to agents",
        labels=["what"],
    )
    for what, count in answers.service.liveness_counts().items():
        said.add_metric([what], count)
    watches = GaugeMetricFamily(
        "fleetfold_liveness_watching",
        "1 while silence is judged and one grace was watched",
        value=answers.service.liveness_mode() == "watching",
    )
    announced = CounterMetricFamily(
        "fleetfold_announcer",
        "What announcing came to: announced, batches, lost_races with another one, other_logs, searches",
        labels=["what"],
    )
    for what, count in answers.service.announcer_counts().items():
        announced.add_metric([what], count)
    commits = CounterMetricFamily(
        "fleetfold_commits", "Transactions of the projection", value=answers.positions.commits
    )
    return _Read([nodes, rejected, said, watches, announced, commits, *_reading(answers)])


def _reading(answers: Answers) -> list[Metric]:
    lag = GaugeMetricFamily(
        "fleetfold_lag_seconds", "For how long the oldest record not folded yet has waited", labels=["stream"]
    )
    folded = GaugeMetricFamily("fleetfold_folded_seq", "The last record that is folded", labels=["stream"])
    head = GaugeMetricFamily("fleetfold_head_seq", "The last record that the broker holds", labels=["stream"])
    pending = GaugeMetricFamily(
        "fleetfold_pending", "Records that the broker holds and that are not folded yet", labels=["stream"]
    )
    generations = CounterMetricFamily(
        "fleetfold_reader_generations",
        "Consumers made; each after the first means that something broke",
        labels=["stream"],
    )
    holes = CounterMetricFamily(
        "fleetfold_holes", "Missing records that are proven deleted", labels=["stream"]
    )
    is_read = GaugeMetricFamily("fleetfold_reader_reading", "1 while records can arrive", labels=["stream"])
    for stream, cursor in answers.projection.cursors().items():
        folded.add_metric([stream], cursor.seq)
    for stream, reading in answers.service.readings().items():
        if reading.lag_ms is not None:
            lag.add_metric([stream], reading.lag_ms / 1000)
        if reading.head is not None:
            head.add_metric([stream], reading.head)
        pending.add_metric([stream], reading.pending)
        generations.add_metric([stream], reading.generations)
        holes.add_metric([stream], reading.holes)
        is_read.add_metric([stream], 1 if reading.state == "reading" else 0)
    return [lag, folded, head, pending, generations, holes, is_read]
