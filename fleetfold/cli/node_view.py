"""One node as people read it (floor 4)."""

from __future__ import annotations

from typing import Any

from fleetfold.cli.output import UNKNOWN, age, amount, cell, coloured, console, escaped, print_table


def print_node(node: dict[str, Any]) -> None:
    """Print a node as the API describes it: state, attributes, holds, resources, devices, allocations."""
    out = console()
    out.print(f"[bold]{escaped(node['id'])}[/]  {coloured(node['state'])}  {_schedulable(node)}")
    place = " / ".join(str(node[key]) for key in ("region", "zone", "pool", "role") if node.get(key))
    facts = {
        "place": place,
        "host name": node.get("hostname"),
        "addresses": ", ".join(node.get("addresses", ())),
        "architecture": node.get("architecture"),
        "liveness": f"{node['liveness']} since {node.get('liveness_since') or 'the beginning'}",
        "last beat": f"{age(node.get('last_heartbeat_at'))} ago"
        if node.get("last_heartbeat_at")
        else "never",
        "incarnation": f"{node['incarnation']} (boot {node.get('boot_id')})",
        "registered": node.get("registered_at"),
        "retired": node.get("retired_at"),
        "labels": ", ".join(f"{key}={value}" for key, value in sorted(node.get("labels", {}).items())),
        "conditions": ", ".join(node.get("conditions", ())),
    }
    for name, value in facts.items():
        if value:
            out.print(f"  {name:<13}{escaped(value)}")
    for hold in node.get("holds", ()):
        until = f" until {escaped(hold['until'])}" if hold.get("until") else ""
        told = f"{escaped(hold['kind'])} by {escaped(hold['owner'])}: {escaped(hold['reason'])}{until}"
        out.print(f"  {'hold':<13}{told}")
    amounts = ("total", "reserved", "ratio", "allocatable", "allocated", "free", "used")
    print_table(
        ("resource", *amounts, ""),
        (
            (
                escaped(row["resource"]),
                *(cell(row, column) for column in amounts),
                escaped(" ".join(row.get("flags", ()))) if row.get("flags") else "",
            )
            for row in node.get("resources", ())
        ),
        numbers=amounts,
    )
    if node.get("devices"):
        print_table(
            ("device", "kind", "model", "memory", "health"),
            (
                (
                    escaped(device["id"]),
                    escaped(device.get("kind")),
                    escaped(device.get("model")),
                    amount("memory", device.get("memory")),
                    _health(device),
                )
                for device in node["devices"]
            ),
            numbers=("memory",),
        )
    if node.get("allocations"):
        print_table(
            ("workload", "holds", "since"),
            (
                (
                    escaped(allocation["workload"]),
                    escaped(", ".join(f"{amount(r, a)} {r}" for r, a in allocation["amounts"].items())),
                    escaped(allocation["since"]),
                )
                for allocation in node["allocations"]
            ),
        )


def _schedulable(node: dict[str, Any]) -> str:
    if node["schedulable"]:
        return "takes new work"
    return "takes no new work: " + escaped(", ".join(node.get("reasons", ())))


def _health(device: dict[str, Any]) -> str:
    match device.get("healthy"):
        case None:
            return UNKNOWN
        case True:
            return "healthy"
        case _:
            return escaped(device.get("reason") or "unhealthy")
