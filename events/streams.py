"""The three streams, declared in this one place (floor 1, pure).

What the broker is asked for is exactly `config(spec)`; `events/stream_admin.py` creates a missing stream and
refuses one that differs.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from events.subjects import BEATS_SUBJECTS, CHANGES_SUBJECTS, FLEET_SUBJECTS

FLEET_NAME = "FLEET"
BEATS_NAME = "BEATS"
CHANGES_NAME = "CHANGES"

MAX_RECORD_BYTES = 64 * 1024
# Room for an inventory of several hundred devices; small enough that a batch of records stays a few
# megabytes.

DUPLICATE_WINDOW = timedelta(seconds=120)
# Above every retry of an append or of a gateway; below what costs the broker memory (it keeps each id this
# long).

UNLIMITED = -1


@dataclass(frozen=True, slots=True)
class StreamSpec:
    """One stream as it must be. `max_age` None keeps records for ever; sizes are in bytes, -1 is no limit."""

    name: str
    subjects: tuple[str, ...]
    max_age: timedelta | None = None
    max_record_bytes: int = UNLIMITED
    max_bytes: int = UNLIMITED
    discard: str = "old"
    deny_delete: bool = False
    deny_purge: bool = False
    allow_atomic: bool = False
    allow_batched: bool = False
    replicas: int = 1


FLEET = StreamSpec(
    name=FLEET_NAME,
    subjects=FLEET_SUBJECTS,
    max_record_bytes=MAX_RECORD_BYTES,
    discard="new",
    deny_delete=True,
    deny_purge=True,
    allow_atomic=True,
)
"""Source facts and verdicts, for ever. A full stream refuses the newest rather than forget the oldest."""

BEATS = StreamSpec(
    name=BEATS_NAME,
    subjects=BEATS_SUBJECTS,
    max_age=timedelta(hours=24),
    allow_batched=True,
)
"""Heartbeats. No limit on a record, so that an oversized one reaches quarantine instead of vanishing."""

CHANGES = StreamSpec(
    name=CHANGES_NAME,
    subjects=CHANGES_SUBJECTS,
    max_age=timedelta(days=30),
    allow_atomic=True,
)
"""Announcements for subscribers. Atomic batches, because the announcements of one fact belong together."""

ALL: tuple[StreamSpec, ...] = (FLEET, BEATS, CHANGES)


def config(spec: StreamSpec) -> dict[str, Any]:
    """Return the stream's configuration as the JetStream API spells it; durations are in nanoseconds.

    Every member that is declared here is compared with what exists, and no other.
    """
    return {
        "name": spec.name,
        "subjects": list(spec.subjects),
        "retention": "limits",
        "storage": "file",
        "compression": "s2",
        "discard": spec.discard,
        "max_age": _nanoseconds(spec.max_age) if spec.max_age else 0,
        "max_bytes": spec.max_bytes,
        "max_msg_size": spec.max_record_bytes,
        "duplicate_window": _nanoseconds(DUPLICATE_WINDOW),
        "num_replicas": spec.replicas,
        "allow_direct": True,
        "deny_delete": spec.deny_delete,
        "deny_purge": spec.deny_purge,
        "allow_atomic": spec.allow_atomic,
        "allow_batched": spec.allow_batched,
    }


def _nanoseconds(span: timedelta) -> int:
    return span // timedelta(microseconds=1) * 1000
