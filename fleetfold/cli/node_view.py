"""One node as people read it (floor 4)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fleetfold.cli.output import UNKNOWN, age, amount, cell, coloured, console, escaped, print_table


def print_node(node: dict[str, Any]) -> None:
    """Print a node as the API describes it: state, attributes, holds, resources, devices, allocations."""
    out = console()
    out.print(f"[bold]{escaped(node['id'])}[/]  {coloured(node['state'])}  {_schedulable(node)}")
    for name, value in _attributes(node).items():
        if value:
            out.print(f"  {name:<13}{escaped(value)}")
    for hold in node.get("holds", ()):
        out.print(f"  {'hold':<13}{_hold(hold)}")
    _print_resources(node.get("resources", ()))
    if node.get("devices"):
        _print_devices(node["devices"])
    if node.get("allocations"):
        _print_allocations(node["allocations"])


def _attributes(node: dict[str, Any]) -> dict[str, str | None]:
    """Return what is said of a node by name, empty or None where it is not known."""
    beat_at = node.get("last_heartbeat_at")
    return {
        "place": " / ".join(str(node[key]) for key in ("region", "zone", "pool", "role") if node.get(key)),
        "host name": node.get("hostname"),
        "addresses": ", ".join(node.get("addresses", ())),
        "architecture": node.get("architecture"),
        "liveness": f"{node['liveness']} since {node.get('liveness_since') or 'the beginning'}",
        "last beat": f"{age(beat_at)} ago" if beat_at else "never",
        "incarnation": f"{node['incarnation']} (boot {node.get('boot_id')})",
        "registered": node.get("registered_at"),
        "retired": node.get("retired_at"),
        "labels": ", ".join(f"{key}={value}" for key, value in sorted(node.get("labels", {}).items())),
        "conditions": ", ".join(node.get("conditions", ())),
    }


def _hold(hold: dict[str, Any]) -> str:
    until = f" until {escaped(hold['until'])}" if hold.get("until") else ""
    return f"{escaped(hold['kind'])} by {escaped(hold['owner'])}: {escaped(hold['reason'])}{until}"


def _print_resources(resources: Iterable[dict[str, Any]]) -> None:
    amounts = ("total", "reserved", "ratio", "allocatable", "allocated", "free", "used")
    print_table(
        ("resource", *amounts, ""),
        (
            (
                escaped(row["resource"]),
                *(cell(row, column) for column in amounts),
                escaped(" ".join(row.get("flags", ()))) if row.get("flags") else "",
            )
            for row in resources
        ),
        numbers=amounts,
    )


def _print_devices(devices: Iterable[dict[str, Any]]) -> None:
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
            for device in devices
        ),
        numbers=("memory",),
    )


def _print_allocations(allocations: Iterable[dict[str, Any]]) -> None:
    print_table(
        ("workload", "holds", "since"),
        (
            (
                escaped(allocation["workload"]),
                escaped(", ".join(f"{amount(r, a)} {r}" for r, a in allocation["amounts"].items())),
                escaped(allocation["since"]),
            )
            for allocation in allocations
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
