"""A fleet without a broker: records are made here and folded by the real projection."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
from fastapi import FastAPI

from api.app import create_app
from api.service import Service, StreamReading
from events.ids import NodeId, node_id
from events.log import Batch, Cursor
from events.registry import REGISTRY
from events.streams import BEATS_NAME, FLEET_NAME
from events.subjects import Owner, beat_subject, fact_subject
from projections.projection import Projection
from tests.support.asgi import Got, ask

EPOCH = "2026-01-01T00:00:00.000000001Z"


class Fleet:
    """A projection, what was said so far, and the application over it.

    Each record is a batch of its own. The broker's clock stands still unless `at` is moved.
    """

    def __init__(self, folder: Path, **service: Any) -> None:  # noqa: ANN401
        self.projection = Projection.open(folder / "tables.duckdb")
        self.at = datetime.now(UTC) - timedelta(hours=1)
        self.readings = {
            name: StreamReading(name, head=0, head_at_start=0, lag_ms=0.0, generations=1, state="reading")
            for name in (FLEET_NAME, BEATS_NAME)
        }
        given = {"version": "0.1.0", "nats_url": "nats://127.0.0.1:4222", **service}
        self.service = Service(projection=self.projection, readings=lambda: self.readings, **given)
        self.app: FastAPI = create_app(self.service)
        self._seqs = {FLEET_NAME: 0, BEATS_NAME: 0}

    def close(self) -> None:
        self.app.state.answers.close()
        self.projection.close()

    async def get(self, target: str, **more: Any) -> Got:  # noqa: ANN401
        """Ask below `/fleet/v1`."""
        return await ask(self.app, f"/fleet/v1{target}", **more)

    def registered(self, node: str, /, *, boot_id: str = "b1", seq: int = 1, **data: Any) -> int:  # noqa: ANN401
        """A node says what it is; return the position."""
        payload = json.dumps({"boot_id": boot_id, "seq": seq, **data})
        return self.record(fact_subject("agent", node_id(node), "registered"), payload.encode())

    def said(self, owner: Owner, node: str, verb: str, /, **data: Any) -> int:  # noqa: ANN401
        """Somebody else says something about a node; return the position."""
        kind = REGISTRY.by_verb[owner, verb]
        event = {
            "specversion": "1.0",
            "id": f"{node}-{verb}-{self._seqs[FLEET_NAME]}",
            "source": "/test",
            "type": kind.text,
            "time": self.at.isoformat(),
            "data": data,
        }
        return self.record(fact_subject(owner, node_id(node), verb), json.dumps(event).encode())

    def beat(self, node: str, *, boot_id: str = "b1", seq: int = 2, **more: Any) -> int:  # noqa: ANN401
        """A node beats; return the position in BEATS."""
        payload = json.dumps({"boot_id": boot_id, "seq": seq, **more})
        return self.record(beat_subject(node_id(node)), payload.encode(), stream=BEATS_NAME)

    def record(self, subject: str, payload: bytes, *, stream: str = FLEET_NAME) -> int:
        """Fold one record, whatever is in it; return its position."""
        return self.records([(subject, payload)], stream=stream)

    def records(self, records: list[tuple[str, bytes]], *, stream: str = FLEET_NAME) -> int:
        """Fold records as one batch; return the last position."""
        first = self._seqs[stream] + 1
        last = self._seqs[stream] = first + len(records) - 1
        stored_at_ns = int(self.at.timestamp() * 1_000_000) * 1000
        self.projection.apply(
            Batch(
                stream=stream,
                seqs=np.arange(first, last + 1, dtype=np.int64),
                stored_at_ns=np.full(len(records), stored_at_ns, dtype=np.int64),
                subjects=[subject.encode() for subject, _ in records],
                payloads=[payload for _, payload in records],
                cursor=Cursor(EPOCH, last, stored_at_ns),
            )
        )
        self.readings = {**self.readings, stream: replace(self.readings[stream], head=last)}
        return last


@contextmanager
def fleet(folder: Path, **service: Any) -> Iterator[Fleet]:  # noqa: ANN401
    """A fleet that is closed at the end."""
    made = Fleet(folder, **service)
    try:
        yield made
    finally:
        made.close()


def ids(got: Got) -> list[NodeId]:
    """The ids of the nodes on a page."""
    return [NodeId(item["id"]) for item in got.json["items"]]
