"""What the API is given: the projection, the state of the reading, a connection and a few values (floor 3).

`fleetfold` opens all of it and hands in one `Service`; the API opens nothing and closes nothing of it.
Everything here may be asked from any thread, and so often (once per answer) that it must cost microseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from api.dialects.fuse_secrets import SecretStore
from api.dialects.rules import DialectRules

if TYPE_CHECKING:
    from nats.aio.client import Client

    from events.ids import NodeId
    from projections.judging import Outlook
    from projections.projection import Projection

ReadingState = Literal["starting", "reading", "waiting", "stopped"]
"""`starting`: the stream was not seen yet; `reading`: records arrive; `waiting`: the broker does not answer;
`stopped`: the reader stopped for a reason that a person has to look at (`last_error`)."""


@dataclass(frozen=True, slots=True)
class StreamReading:
    """How the reading of one stream goes; how far it is folded, the projection's own cursors say.

    `epoch` is when the stream was created, as the broker spells it. `head` is the last record the broker
    said it holds, `head_at_start` what `head` was when this process first saw the stream (None: not seen
    yet, so it may not exist). `lag_ms` is for how long the oldest record that is not folded yet has been
    waiting: 0 with everything folded, growing while the broker does not answer, None before it was ever
    asked. `generations` counts the consumers made so far, `holes` the records proven deleted.
    """

    stream: str
    epoch: str = ""
    head: int | None = None
    head_at_start: int | None = None
    pending: int = 0
    lag_ms: float | None = None
    generations: int = 0
    holes: int = 0
    state: ReadingState = "starting"
    last_error: str = ""


@dataclass(frozen=True, slots=True)
class Replica:
    """The SQL replica as this process knows it; `url` is None while it cannot answer, `reason` says why."""

    state: Literal["off", "starting", "ready", "away"] = "off"
    url: str | None = None
    reason: str = ""
    lag_ms: float | None = None
    restarts: int = 0


def _no_replica() -> Replica:
    return Replica()


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """All that routes may use.

    `readings` gives one `StreamReading` per stream by its name. `nc` is a connection on the API's own event
    loop (None: no NATS routes; questions over HTTP are answered without it). `liveness_mode` is `watching`,
    `degraded`, … as the evaluator says it, `liveness_reason` why ("" while it is `watching`), `outlook` what
    it expects of a node (None: it does not know it), `liveness_counts` how often it said what;
    `announcer_counts` is how often announcing came to what.
    `admin_token` of "" means that nobody is asked for one. `dialects` is what is set about them,
    `secrets` where the dialect Fuse keeps what may not be in the log.
    """

    projection: Projection
    readings: Callable[[], Mapping[str, StreamReading]]
    version: str
    nats_url: str
    nc: Client | None = None
    admin_token: str = field(default="", repr=False)
    liveness_mode: Callable[[], str] = lambda: "off"
    liveness_reason: Callable[[], str] = lambda: "this service has no evaluator"
    liveness_counts: Callable[[], Mapping[str, int]] = dict
    announcer_counts: Callable[[], Mapping[str, int]] = dict
    outlook: Callable[[NodeId], Outlook | None] = lambda _node: None
    replica: Callable[[], Replica] = _no_replica
    dialects: DialectRules = field(default_factory=DialectRules)
    secrets: SecretStore = field(default_factory=SecretStore)
