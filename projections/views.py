"""The views of schema `fleet` that analysts may rely on (floor 2, pure).

`VIEWS` says what each is and what each column means, once: the database's own comments and the documentation
are made from it. The tables behind may change, these may only grow.
"""

from __future__ import annotations

from dataclasses import dataclass

from projections.view_columns import (
    AXES,
    BAND,
    CAPACITY_BAND,
    CAUSE,
    INCARNATION,
    NODE_BAND,
    NODE_ID,
    NUMBERS,
    PLACES,
    WRITTEN_AT,
)
from projections.view_sql import (
    ALLOCATIONS,
    CAPACITY,
    CAPACITY_HISTORY,
    CHANGES,
    DEVICES,
    FACTS,
    HEARTBEATS,
    LABELS_HISTORY,
    NODE_HISTORY,
    NODES,
    QUARANTINE,
    USAGE,
    USAGE_1H,
    ZONES,
)


@dataclass(frozen=True, slots=True)
class View:
    """A view: what a row of it is, and each column in order with what it means."""

    name: str
    about: str
    columns: dict[str, str]
    sql: str


VIEWS = (
    View(
        "nodes",
        "Each node as it is now, retired ones included",
        {
            "node_id": NODE_ID,
            **AXES,
            "reasons": "why it is not schedulable, empty where it is",
            **PLACES,
            "role": "role as reported",
            "hostname": "hostname as reported",
            "display_name": "the declared display name, else the reported one",
            "architecture": "architecture as reported",
            "labels": "reported labels with the declared ones over them; read one as labels['key']",
            "annotations": "declared annotations",
            "addresses": "addresses as reported",
            "conditions": "what is remarkable: leaving, identity_conflict, clock_skew, name_shared, …",
            "boot_id": "the run of its agent that registered last",
            "machine_id": "the hardware it reports, which tells a reboot from a replacement",
            "incarnation": INCARNATION,
            "dialect": "the dialect it came through, NULL for native agents",
            "native_id": "its id in that dialect",
            "interval_s": "seconds between its heartbeats, as it says",
            "first_registered_at": "first registration of this id ever",
            "registered_at": "first registration of this incarnation; NULL before any",
            "last_heartbeat_at": "when the broker received its last heartbeat; NULL before any",
            "liveness_since": "since when liveness is what it is",
            "changed_at": "last time that a fact changed it",
            "retired_at": "when it was retired; NULL while it is not",
            "version": "sequence in FLEET of the last record about it",
        },
        NODES,
    ),
    View(
        "node_history",
        "Bands of time in which a node's state, liveness, intent and place did not change",
        {**NODE_BAND, "incarnation": INCARNATION, **BAND, **CAUSE},
        NODE_HISTORY,
    ),
    View(
        "capacity",
        "The numbers of each resource of each node now; nothing for retired nodes",
        {
            "node_id": NODE_ID,
            "resource": "cpu (cores), memory and disk (bytes), gpu (devices), vm (slots), and open names",
            **NUMBERS,
            "since": "since when the numbers are these",
            "cause_seq": "sequence in FLEET of the fact that made them so",
        },
        CAPACITY,
    ),
    View(
        "capacity_history",
        "Bands of time in which the numbers of one resource of a node did not change",
        {**CAPACITY_BAND, **BAND, "cause_seq": CAUSE["cause_seq"]},
        CAPACITY_HISTORY,
    ),
    View(
        "labels_history",
        "Bands of time in which one label of a node did not change, neither its value nor who says it",
        {
            "node_id": NODE_ID,
            "key": "key of the label",
            "value": "its effective value: a declared one wins over a reported one; NULL: it was gone",
            "owner": "who says it: agent (reported) or operator (declared); NULL: it was gone",
            **BAND,
            "cause_seq": CAUSE["cause_seq"],
        },
        LABELS_HISTORY,
    ),
    View(
        "devices",
        "Each device that a node reports now",
        {
            "node_id": NODE_ID,
            "device_id": "stable id of the device",
            "kind": "gpu, nic, …",
            "model": "model as reported",
            "memory": "its own memory in bytes",
            "healthy": "NULL where the node does not say",
            "reason": "what is wrong with it",
            "since": "since when it is reported like this",
        },
        DEVICES,
    ),
    View(
        "allocations",
        "What each workload holds of each resource now; one row with resource '' where it holds no amount",
        {
            "node_id": NODE_ID,
            "workload": "id of the workload",
            "resource": "name of the resource",
            "amount": "how much of it",
            "since": "since when",
        },
        ALLOCATIONS,
    ),
    View(
        "usage",
        "What heartbeats measured, kept for some time (24 hours by default)",
        {
            "node_id": NODE_ID,
            "resource": "name of the resource",
            "at": f"when the broker received the heartbeat; {WRITTEN_AT}",
            "used": "measured use; NULL where the node said that it does not know",
        },
        USAGE,
    ),
    View(
        "usage_1h",
        "The same by the hour",
        {
            "node_id": NODE_ID,
            "resource": "name of the resource",
            "hour": "beginning of the hour",
            "avg": "mean of the samples",
            "min": "smallest sample",
            "max": "largest sample",
            "last": "newest sample",
            "samples": "how many samples had a number",
        },
        USAGE_1H,
    ),
    View(
        "heartbeats",
        "What the heartbeats of each node say, registered or not",
        {
            "node_id": NODE_ID,
            "boot_id": "the run of the agent that beats",
            "last_heartbeat_at": "when the broker received the last accepted heartbeat",
            "last_seq": "its number within the run",
            "beat_seq": "its sequence in BEATS",
            "missed": "numbers that never came",
            "duplicates": "heartbeats that came again",
            "reordered": "heartbeats that came late",
            "other_boot": "heartbeats of an earlier run",
            "skew_ms": "the node's clock minus the broker's, transport included; NULL where it does not say",
            "skewed_since": "since when its clock is far off (5 s; again in step below 2 s); NULL: it is not",
            "inventory": "digest of the registration that the node believes is known",
        },
        HEARTBEATS,
    ),
    View(
        "facts",
        "The log itself: every fact that could be read, as it was sent",
        {
            "seq": "sequence in FLEET",
            "stored_at": "when the broker stored it: what orders and ages everything",
            "sent_at": "when it was sent, as the sender says",
            "subject": "subject it was published on",
            "node_id": "the node it is about; NULL where it is about a zone",
            "type": "what happened",
            "source": "who says so",
            "event_id": "the sender's id of it",
            "data": "the body as JSON",
        },
        FACTS,
    ),
    View(
        "changes",
        "What subscribers of CHANGES hear, in that order",
        {
            "seq": "counts what was announced and what was damped of this log, from 1",
            "at": f"when it became so; {WRITTEN_AT}",
            "node_id": NODE_ID,
            "kind": "identity, lifecycle, state, schedulable, intent, location, address, labels, "
            "capacity or condition",
            "detail": "what of it, such as lost in state.lost",
            "before": "what it was, as JSON",
            "after": "what it is, as JSON",
            "cause_seq": "sequence in FLEET of the fact that caused it",
            "n": "counts the announcements of that fact, from 0",
            "actor": CAUSE["actor"],
            "reason": CAUSE["reason"],
        },
        CHANGES,
    ),
    View(
        "zones",
        "Each zone that ever went silent as a whole, as the last fact about it says",
        {
            "zone": "the zone's name, as its nodes report it",
            "is_silent": "whether it still is; false once it speaks again",
            "since": "since when that is so",
            "count": "how many of its nodes went silent together, or speak again",
            "members": "of how many",
            "held_until": "until when verdicts on single nodes are held; NULL where they are not",
            "rule": "by which rule this was judged",
            "cause_seq": "sequence in FLEET of the fact that says so",
        },
        ZONES,
    ),
    View(
        "quarantine",
        "Records and values that could not be read, whole",
        {
            "stream": "FLEET or BEATS",
            "seq": "sequence in that stream",
            "stored_at": "when the broker stored it",
            "subject": "subject it was published on",
            "node_id": "the node that the subject names, NULL where it names none",
            "reason": "a stable word: not_json, bad_type, duplicate_key, …",
            "field": "the member at fault, empty where the whole record is",
            "detail": "more, for people",
            "body": "the bytes as stored",
        },
        QUARANTINE,
    ),
)
