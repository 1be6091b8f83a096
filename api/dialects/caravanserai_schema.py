"""How Caravanserai's bodies and answers are documented, and the words in them (floor 3, pure)."""

from __future__ import annotations

import re
from typing import Any, Literal

API_VERSION, KIND = "caravanserai/v1", "Node"
READY, NOT_READY, DRAINS = "Ready", "NotReady", "Draining"
STATES = (READY, NOT_READY, DRAINS)

NAME_RULES: dict[Literal["label", "subdomain"], re.Pattern[str]] = {
    "label": re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"),
    "subdomain": re.compile(r"(?=.{1,220}\Z)[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*"),
}
"""Names of nodes. A subdomain may have 253 characters; ours end at 220, since a node id is longer than its
name by the name of the dialect."""

NETWORK_TEXTS = ("ip", "dnsName", "mode")

_TEXT, _TEXTS = {"type": "string"}, {"type": "object", "additionalProperties": {"type": "string"}}
_LABEL = {"type": "string", "pattern": f"^{NAME_RULES['label'].pattern}$"}
_MAYBE_TEXT = {"type": ["string", "null"]}
_MAYBE_TEXTS = {"type": ["object", "null"], "additionalProperties": {"type": ["string", "null"]}}
_TIME = {"type": "string", "format": "date-time"}
NODE: dict[str, Any] = {
    "type": "object",
    "required": ["apiVersion", "kind", "metadata", "spec", "status"],
    "properties": {
        "apiVersion": {"const": API_VERSION},
        "kind": {"const": KIND},
        "metadata": {
            "type": "object",
            "required": ["name", "createdAt", "updatedAt"],
            "properties": {
                "name": _TEXT, "labels": _TEXTS, "annotations": _TEXTS,
                "createdAt": _TIME, "updatedAt": _TIME,
            },
        },
        "spec": {
            "type": "object",
            "required": ["unschedulable"],
            "properties": {"hostname": _TEXT, "unschedulable": {"type": "boolean"}},
        },
        "status": {
            "type": "object",
            "required": ["state"],
            "properties": {
                "state": {"enum": list(STATES)},
                "network": {"type": "object"},
                "capacity": _TEXTS,
                "allocatable": _TEXTS,
                "lastHeartbeat": _TIME,
                "conditions": {"type": "array", "items": {"type": "object"}},
            },
        },
    },
}  # fmt: skip
_SPEC = {
    "type": ["object", "null"],
    "properties": {"hostname": _MAYBE_TEXT, "unschedulable": {"type": ["boolean", "null"]}},
}
CREATE: dict[str, Any] = {
    "type": "object",
    "required": ["apiVersion", "kind", "metadata"],
    "properties": {
        "apiVersion": {"const": API_VERSION},
        "kind": {"const": KIND},
        "metadata": {
            "type": "object",
            "required": ["name"],
            "properties": {"name": _LABEL, "labels": _MAYBE_TEXTS, "annotations": _MAYBE_TEXTS},
        },
        "spec": _SPEC,
    },
}
REPLACE: dict[str, Any] = {
    **CREATE,
    "required": ["apiVersion", "kind"],
    "properties": {
        **CREATE["properties"],
        "metadata": {
            "type": ["object", "null"],
            "properties": {"name": _MAYBE_TEXT, "labels": _MAYBE_TEXTS, "annotations": _MAYBE_TEXTS},
        },
    },
}
BEAT: dict[str, Any] = {
    "type": "object",
    "properties": {
        "state": {"enum": [*STATES, "", None]},
        "network": {
            "type": ["object", "null"],
            "properties": {
                **dict.fromkeys(NETWORK_TEXTS, _MAYBE_TEXT),
                "agentPort": {"type": ["integer", "null"]},
                "throughput": {"type": ["object", "null"]},
            },
        },
        "capacity": _MAYBE_TEXTS,
        "allocatable": _MAYBE_TEXTS,
    },
}
