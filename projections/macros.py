"""The macros of schema `fleet`: what is asked like a table, with arguments (floor 2, pure)."""

from __future__ import annotations

from dataclasses import dataclass

from projections.view_columns import AXES, BAND, CAPACITY_BAND, CAUSE, INCARNATION, NODE_BAND, NODE_ID
from projections.view_sql import CAPACITY_AT, FLEET_DIFF, NODES_AT, UPTIME


@dataclass(frozen=True, slots=True)
class Macro:
    """A macro that is called like a table: its parameters, and the columns of what it gives."""

    name: str
    parameters: tuple[str, ...]
    about: str
    columns: dict[str, str]
    sql: str


MACROS = (
    Macro(
        "nodes_at",
        ("t",),
        "Each node known at a moment, as it was then",
        {
            **NODE_BAND,
            "incarnation": INCARNATION,
            "valid_from": BAND["valid_from"],
            **CAUSE,
        },
        NODES_AT,
    ),
    Macro(
        "capacity_at",
        ("t",),
        "The numbers of each resource that was there at a moment",
        {**CAPACITY_BAND, "valid_from": BAND["valid_from"], "cause_seq": CAUSE["cause_seq"]},
        CAPACITY_AT,
    ),
    Macro(
        "fleet_diff",
        ("t1", "t2"),
        "What was another at the second moment than at the first: one row for each node and member",
        {
            "node_id": NODE_ID,
            "member": "what differs: node (it came), state, liveness, intent, zone, …",
            "before": "its value at the first moment, as text; NULL where there was none",
            "after": "its value at the second moment",
        },
        FLEET_DIFF,
    ),
    Macro(
        "uptime",
        ("node", "t1", "t2"),
        "Seconds one node spent in each state between two moments; none before it was known or after now",
        {"node_id": NODE_ID, "state": AXES["state"], "seconds": "seconds in that state"},
        UPTIME,
    ),
)
