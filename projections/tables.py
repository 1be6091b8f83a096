"""The tables, spelled in this one place (floor 2, pure). They are internal: analysts have the views.

No table has a key or an index, which would make writing several times slower; the one writer keeps rows
unique. What a node is now is deleted and inserted again by the node's number, histories are only appended to.
Whoever changes a column here, or what it means, raises TABLES_VERSION: another version is never migrated, the
tables are rebuilt from the log.
"""

from __future__ import annotations

from dataclasses import dataclass

TABLES_VERSION = 7

AMOUNT = "DECIMAL(38, 9)"
"""Exact for every amount that the log may hold: below 10^28, with nine places."""
TIME = "TIMESTAMP WITH TIME ZONE"
TEXT = "VARCHAR"
TEXTS = "VARCHAR[]"
TEXT_MAP = "MAP(VARCHAR, VARCHAR)"


@dataclass(frozen=True, slots=True)
class Table:
    """A table: its name, and the SQL type of each column in order."""

    name: str
    columns: dict[str, str]

    @property
    def create(self) -> str:
        """The statement that makes it."""
        columns = ",\n    ".join(f'"{name}" {kind}' for name, kind in self.columns.items())
        return f"CREATE TABLE main.{self.name} (\n    {columns}\n)"

    @property
    def names(self) -> str:
        """Its columns in order, quoted, for a statement."""
        return ", ".join(f'"{name}"' for name in self.columns)


META = Table("meta", {"tables_version": "INTEGER"})
CHECKPOINT = Table(
    "checkpoint",
    {"stream": TEXT, "epoch": TEXT, "seq": "BIGINT", "stored_at_ns": "BIGINT", "holes": "BIGINT"},
)
HOLE = Table("hole", {"stream": TEXT, "epoch": TEXT, "low": "BIGINT", "high": "BIGINT"})

NODE_NUMBER = Table("node_number", {"number": "INTEGER", "node_id": TEXT})
RESOURCE_NUMBER = Table("resource_number", {"number": "INTEGER", "resource": TEXT})

HEARTBEAT = Table(
    "heartbeat",
    {
        "number": "INTEGER",
        "last_seq": "BIGINT",
        "last_heartbeat_at": TIME,
        "beat_seq": "BIGINT",
        "missed": "BIGINT",
        "duplicates": "BIGINT",
        "reordered": "BIGINT",
        "other_boot": "BIGINT",
        "skew_ms": "BIGINT",
        "skewed_since": TIME,
    },
)
"""Written with every beat, so it holds numbers only; the texts that seldom change are in `heartbeat_boot`."""
HEARTBEAT_BOOT = Table(
    "heartbeat_boot", {"number": "INTEGER", "boot_id": TEXT, "inventory": TEXT, "previous_boots": TEXTS}
)
USAGE_SAMPLE = Table(
    "usage_sample", {"number": "INTEGER", "resource": "INTEGER", "at": TIME, "used": "DOUBLE"}
)

NODE = Table(
    "node",
    {
        "number": "INTEGER",
        "node_id": TEXT,
        "version": "BIGINT",
        "state": TEXT,
        "liveness": TEXT,
        "intent": TEXT,
        "schedulable": "BOOLEAN",
        "reasons": TEXTS,
        "region": TEXT,
        "zone": TEXT,
        "pool": TEXT,
        "role": TEXT,
        "hostname": TEXT,
        "display_name": TEXT,
        "architecture": TEXT,
        "labels": TEXT_MAP,
        "annotations": TEXT_MAP,
        "addresses": TEXTS,
        "conditions": TEXTS,
        "boot_id": TEXT,
        "machine_id": TEXT,
        "incarnation": "INTEGER",
        "dialect": TEXT,
        "native_id": TEXT,
        "first_registered_at": TIME,
        "registered_at": TIME,
        "retired_at": TIME,
        "liveness_since": TIME,
        "changed_at": TIME,
        "interval_s": "DOUBLE",
        "packed": "BLOB",
    },
)
"""`packed` is the whole state, from which memory is loaded; the other columns are for SQL."""
SHARED = Table("shared", {"number": "INTEGER", "conditions": TEXTS})
"""The nodes that are not alone with what they claim, and the conditions that they have of it."""
CAPACITY = Table(
    "capacity",
    {
        "number": "INTEGER",
        "node_id": TEXT,
        "resource": TEXT,
        "status": TEXT,
        "total": AMOUNT,
        "reserved": AMOUNT,
        "ratio": AMOUNT,
        "allocatable": AMOUNT,
        "allocated": AMOUNT,
        "free": AMOUNT,
        "since": TIME,
        "cause_seq": "BIGINT",
    },
)
DEVICE = Table(
    "device",
    {
        "number": "INTEGER",
        "node_id": TEXT,
        "device_id": TEXT,
        "kind": TEXT,
        "model": TEXT,
        "memory": AMOUNT,
        "healthy": "BOOLEAN",
        "reason": TEXT,
        "since": TIME,
    },
)
ALLOCATION = Table(
    "allocation",
    {
        "number": "INTEGER",
        "node_id": TEXT,
        "workload": TEXT,
        "resource": TEXT,
        "amount": AMOUNT,
        "since": TIME,
    },
)

NODE_HISTORY = Table(
    "node_history",
    {
        "node_id": TEXT,
        "state": TEXT,
        "liveness": TEXT,
        "intent": TEXT,
        "schedulable": "BOOLEAN",
        "region": TEXT,
        "zone": TEXT,
        "pool": TEXT,
        "incarnation": "INTEGER",
        "valid_from": TIME,
        "cause_seq": "BIGINT",
        "cause_type": TEXT,
        "actor": TEXT,
        "reason": TEXT,
    },
)
CAPACITY_HISTORY = Table(
    "capacity_history",
    {
        "node_id": TEXT,
        "resource": TEXT,
        "status": TEXT,
        "total": AMOUNT,
        "reserved": AMOUNT,
        "ratio": AMOUNT,
        "allocatable": AMOUNT,
        "allocated": AMOUNT,
        "free": AMOUNT,
        "valid_from": TIME,
        "cause_seq": "BIGINT",
    },
)
LABEL_HISTORY = Table(
    "label_history",
    {
        "node_id": TEXT,
        "key": TEXT,
        "value": TEXT,
        "owner": TEXT,
        "valid_from": TIME,
        "cause_seq": "BIGINT",
    },
)
FACT = Table(
    "fact",
    {
        "seq": "BIGINT",
        "stored_at": TIME,
        "sent_at": TIME,
        "subject": TEXT,
        "node_id": TEXT,
        "type": TEXT,
        "source": TEXT,
        "event_id": TEXT,
        "data": TEXT,
    },
)
QUARANTINE = Table(
    "quarantine",
    {
        "stream": TEXT,
        "seq": "BIGINT",
        "stored_at": TIME,
        "subject": TEXT,
        "node_id": TEXT,
        "reason": TEXT,
        "field": TEXT,
        "detail": TEXT,
        "body": "BLOB",
    },
)
ANNOUNCEMENT = Table(
    "announcement",
    {
        "seq": "BIGINT",
        "cause_seq": "BIGINT",
        "n": "INTEGER",
        "at": TIME,
        "node_id": TEXT,
        "kind": TEXT,
        "detail": TEXT,
        "before": TEXT,
        "after": TEXT,
        "actor": TEXT,
        "reason": TEXT,
        "damped": "BOOLEAN",
    },
)
"""`seq` counts the announcements of this log from 1: the order in which subscribers hear them.

Those that are `damped`, since their node was flapping, are history alone: nobody hears them.
"""

TABLES = (
    META,
    CHECKPOINT,
    HOLE,
    NODE_NUMBER,
    RESOURCE_NUMBER,
    HEARTBEAT,
    HEARTBEAT_BOOT,
    USAGE_SAMPLE,
    NODE,
    SHARED,
    CAPACITY,
    DEVICE,
    ALLOCATION,
    NODE_HISTORY,
    CAPACITY_HISTORY,
    LABEL_HISTORY,
    FACT,
    QUARANTINE,
    ANNOUNCEMENT,
)
