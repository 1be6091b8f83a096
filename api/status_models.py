"""The shapes of answers about the service itself (floor 3); `api.models` says how members are written."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from api.models import Answer, Shape, StateWord


class StreamStatus(Shape):
    """How one stream is read and folded."""

    epoch: str | None
    seq: int | None = Field(description="the last record folded; null: CHANGES is written, not folded")
    head: int | None = Field(description="the last record that the broker said it holds")
    pending: int | None = Field(description="records up to `head` that are not folded yet")
    lag_ms: int | None
    generations: int = Field(description="consumers made so far: 1 unless something broke")
    holes: int = Field(description="records that are missing and proven deleted")
    state: Literal["starting", "reading", "waiting", "stopped"]
    last_error: str


class ReplicaStatus(Shape):
    """The process that answers SQL."""

    state: Literal["off", "starting", "ready", "away"]
    reason: str
    lag_ms: int | None
    restarts: int


class StatusAnswer(Answer):
    """How the service is."""

    epoch: str
    fleet_seq: int = Field(description="position in FLEET that is folded")
    beats_seq: int = Field(description="position in BEATS that is folded")
    changes_seq: int | None = Field(description="last announcement in CHANGES; null: not known yet")
    lag_ms: int | None
    nodes: int = Field(description="without retired ones")
    nodes_by_state: dict[StateWord, int] = Field(description="also `retired`")
    version: str
    liveness_mode: Literal["watching", "waiting", "degraded", "off"] = Field(
        description="how silence is judged: `degraded` while a clock was set or the broker does not answer"
    )
    liveness_reason: str = Field(description="why the mode is not `watching`; empty where it is")
    nats_url: str
    streams: dict[str, StreamStatus]
    replica: ReplicaStatus


class Progress(Shape):
    """How far one stream is folded, and what was its head when the process began."""

    seq: int
    target: int | None


class ReadyAnswer(Answer):
    """The service may be asked."""

    ready: Literal[True]
    streams: dict[str, Progress]


class AliveAnswer(Shape):
    """The process answers."""

    live: Literal[True]
