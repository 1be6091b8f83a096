"""The bodies of Stratum as JSON Schemas (floor 3, pure)."""

from __future__ import annotations

from typing import Any

from events.facts import MAX_COUNT

ROLES = ("hybrid", "hypervisor", "control-plane", "storage")
"""The first two run virtual machines; the others are listed and never take any."""
FLAGS = ("hasGPU", "hasNestedVirt", "hasSecureBoot", "hasTPM")

_TEXT = {"type": "string"}
_NAME = {"type": "string", "minLength": 1}
_COUNT = {"type": "integer", "minimum": 0, "maximum": MAX_COUNT}
_AMOUNT = {"type": "integer", "minimum": 0}
_RATIO = {"type": "number", "exclusiveMinimum": 0, "maximum": 10**27}
_TIME = {"type": "string", "format": "date-time"}
_FLAG = {"type": "boolean"}
_TEXTS = {"type": "object", "additionalProperties": _TEXT}

CAPACITY: dict[str, Any] = {
    "type": "object",
    "required": ["totalVCPUs", "totalMemoryBytes"],
    "properties": {
        "totalVCPUs": _COUNT,
        "reservedVCPUs": _COUNT,
        "vcpuOvercommitRatio": _RATIO,
        "committedVCPUs": _COUNT,
        "totalMemoryBytes": _COUNT,
        "reservedMemoryBytes": _COUNT,
        "memoryOvercommitRatio": _RATIO,
        "committedMemoryBytes": _COUNT,
        "totalDiskBytes": _COUNT,
        **dict.fromkeys(FLAGS, _FLAG),
        "architecture": _TEXT,
        "kvmVersion": _TEXT,
        "sampledAt": _TIME,
    },
}
HEARTBEAT: dict[str, Any] = {
    "type": "object",
    "required": ["hostname", "role", "architecture", "capacity"],
    "properties": {
        "hostname": _NAME,
        "role": {"enum": list(ROLES)},
        "region": _TEXT,
        "availabilityZone": _TEXT,
        "architecture": _TEXT,
        "capacity": CAPACITY,
        "capabilities": _TEXTS,
    },
}
PATCH: dict[str, Any] = {
    "type": "object",
    "properties": {
        "displayName": {"type": ["string", "null"], "minLength": 1},
        "reservedVCPUs": {"type": ["integer", "null"], "minimum": 0, "maximum": MAX_COUNT},
        "reservedMemoryBytes": {"type": ["integer", "null"], "minimum": 0, "maximum": MAX_COUNT},
        "state": {"enum": ["ready", "maintenance"]},
    },
}
POWER: dict[str, Any] = {
    "type": "object",
    "required": ["action"],
    "properties": {"action": {"enum": ["shutdown", "reboot"]}},
}
NODE: dict[str, Any] = {
    "type": "object",
    "required": ["id", "role", "architecture", "state", "reservationSource", "capacity", "capabilities"],
    "properties": {
        "id": _TEXT,
        "hostname": _TEXT,
        "displayName": _TEXT,
        "role": {"enum": list(ROLES)},
        "region": _TEXT,
        "availabilityZone": _TEXT,
        "architecture": _TEXT,
        "state": {"enum": ["ready", "maintenance", "unreachable"]},
        "reservedVCPUs": _AMOUNT,
        "reservedMemoryBytes": _AMOUNT,
        "reservationSource": {"enum": ["reported", "computed", "operator"]},
        "committableVCPUs": _AMOUNT,
        "committableMemoryBytes": _AMOUNT,
        "capacity": CAPACITY,
        "capabilities": _TEXTS,
        "committedCapabilities": {"type": "object", "additionalProperties": _AMOUNT},
        "powerAction": {
            "type": "object",
            "required": ["action", "state", "generation", "notBefore", "message", "lastControlPlane"],
            "properties": {
                "action": {"enum": ["shutdown", "reboot"]},
                "state": {"enum": ["shutting-down", "rebooting", "off", "done", "failed"]},
                "generation": {"type": "integer", "minimum": 1},
                "notBefore": _TIME,
                "offAt": _TIME,
                "message": _TEXT,
                "lastControlPlane": _FLAG,
                "powerOn": {"type": "object"},
            },
        },
        "lastSeenAt": _TIME,
        "createdAt": _TIME,
    },
}
ERROR: dict[str, Any] = {
    "type": "object",
    "required": ["code", "message"],
    "properties": {
        "code": _TEXT,
        "message": _TEXT,
        "fields": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["field", "message"],
                "properties": {"field": _TEXT, "message": _TEXT},
            },
        },
    },
}
