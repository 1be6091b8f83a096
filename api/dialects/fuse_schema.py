"""What Fuse's bodies look like, as JSON Schema (floor 3, pure): for its OpenAPI document."""

from __future__ import annotations

from typing import Any

from api.dialects.fuse_capacity import BACKENDS, DEVICE_TEXTS, INSTANCE_TEXTS

_TEXT, _COUNT = {"type": "string"}, {"type": "integer", "minimum": 0}
_TEXTS = {"type": "object", "additionalProperties": {"type": "string"}}
_TIME = {"type": "string", "format": "date-time"}
CODES = (
    "not_found", "route_not_found", "conflict", "invalid_argument", "unauthorized", "forbidden",
    "unavailable", "internal", "unimplemented", "payload_too_large",
)  # fmt: skip

ERROR: dict[str, Any] = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["code", "message"],
            "properties": {
                "code": {"enum": list(CODES)},
                "message": {"type": "string", "minLength": 1},
                "details": {"type": "object"},
            },
        }
    },
}
_CAPACITY = {
    "cpus": _COUNT,
    "ram_mb": _COUNT,
    "storage_gb": _COUNT,
    "vm_count": _COUNT,
    "gpus": _COUNT,
    "gpu_kind": _TEXT,
    "arch": {"enum": ["amd64", "arm64"]},
    "mig_profiles": {"type": "object", "additionalProperties": {"type": "integer", "minimum": 1}},
}
_DEVICE = {
    "type": "object",
    "properties": {
        **dict.fromkeys(DEVICE_TEXTS, _TEXT),
        "memory_mb": _COUNT,
        "mig_capable": {"type": "boolean"},
    },
}
_INSTANCE = {"type": "object", "properties": dict.fromkeys(INSTANCE_TEXTS, _TEXT)}
_NUMBERS = ["cpus", "ram_mb", "storage_gb", "vm_count"]
HOST: dict[str, Any] = {
    "type": "object",
    "required": ["id", "url", "state", "capacity", "allocated", "last_seen", "created_at", "updated_at"],
    "properties": {
        "id": _TEXT,
        "url": _TEXT,
        "region": _TEXT,
        "state": {"enum": ["active", "cordoned", "draining"]},
        "backend": {"enum": list(BACKENDS)},
        "labels": _TEXTS,
        "capacity": {
            "type": "object",
            "required": _NUMBERS,
            "properties": {
                **_CAPACITY,
                "gpu_devices": {"type": "array", "items": _DEVICE},
                "mig_instances": {"type": "array", "items": _INSTANCE},
            },
        },
        "allocated": {"type": "object", "required": _NUMBERS, "properties": _CAPACITY},
        "last_seen": _TIME,
        "created_at": _TIME,
        "updated_at": _TIME,
        "warnings": {"type": "array", "items": _TEXT},
    },
}
HOSTS: dict[str, Any] = {
    "type": "object",
    "required": ["hosts"],
    "properties": {"hosts": {"type": "array", "items": HOST}, "next_cursor": _TEXT},
}
_MAYBE = ["null"]
REGISTER: dict[str, Any] = {
    "type": "object",
    "required": ["id", "url", "capacity"],
    "properties": {
        "id": {"type": "string", "minLength": 1},
        "url": {"type": "string", "minLength": 1},
        "token": {"type": ["string", *_MAYBE]},
        "region": {"type": ["string", *_MAYBE]},
        "backend": {"enum": [*BACKENDS, "", None]},
        "labels": {"type": ["object", *_MAYBE], "additionalProperties": _TEXT},
        "capacity": {
            "type": "object",
            "required": ["vm_count"],
            "properties": {
                **{name: {"type": ["integer", *_MAYBE]} for name in ("cpus", "ram_mb", "storage_gb")},
                "vm_count": {"type": "integer", "minimum": 1},
                "gpus": {"type": ["integer", *_MAYBE], "minimum": 0},
                "gpu_kind": {"type": ["string", *_MAYBE]},
                "arch": {"type": ["string", *_MAYBE]},
                "mig_profiles": {
                    "type": ["object", *_MAYBE],
                    "propertyNames": {"pattern": r"^[1-7][gG]\.[0-9]+[gG][bB](\+[mM][eE])?$"},
                    "additionalProperties": {"type": "integer", "minimum": 1},
                },
            },
        },
    },
}
_KEY = {
    "id": _TEXT,
    "label": _TEXT,
    "created_at": _TIME,
    "revoked_at": _TIME,
}
KEY: dict[str, Any] = {"type": "object", "required": ["id", "label", "created_at"], "properties": _KEY}
KEYS: dict[str, Any] = {
    "type": "object",
    "required": ["api_keys"],
    "properties": {"api_keys": {"type": "array", "items": KEY}},
}
NEW_KEY: dict[str, Any] = {
    "type": "object",
    "required": ["id", "label", "created_at", "key"],
    "properties": {**_KEY, "key": {"type": "string", "description": "It is told here, and never again"}},
}
ADD_KEY: dict[str, Any] = {"type": "object", "properties": {"label": {"type": ["string", *_MAYBE]}}}
LOGIN: dict[str, Any] = {"type": "object", "required": ["token"], "properties": {"token": _TEXT}}
VERSION: dict[str, Any] = {
    "type": "object",
    "required": ["service", "version"],
    "properties": {"service": {"const": "fuse-orchestrator"}, "version": _TEXT},
}
READY: dict[str, Any] = {
    "type": "object",
    "required": ["status", "checks"],
    "properties": {"status": {"enum": ["ready", "not_ready"]}, "checks": _TEXTS},
}
