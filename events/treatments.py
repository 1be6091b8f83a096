"""What is done to the data of a fact before it is believed (floor 1, pure).

Each treatment is a pure function of the bytes, so a replay treats alike, and each leaves a warning. What no
treatment can save is left for the model to refuse.
"""

from __future__ import annotations

import hashlib
import math
import re
import unicodedata
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from functools import cache, lru_cache
from typing import Any, TypeGuard, get_args

from events.amounts import LIMIT, ExactFloat, amount
from events.body import NAN
from events.facts import FactData, Registered, Time
from events.ids import MAX_NODE_ID_BYTES
from events.reasons import (
    AMOUNT_OUT_OF_RANGE,
    NEGATIVE_AMOUNT,
    NOT_REPORTED,
    PROTECTED_LABEL,
    TIME_OUT_OF_RANGE,
    TRUNCATED,
    FactWarning,
)

PROTECTED_PREFIX = "fleetfold/"
"""Labels of this prefix are ours to give; a machine cannot give them to itself."""

MAX_LABEL_BYTES = 1024
# Longer than any label that a scheduler knows; short enough that 60 of them fit into a record.
_SHORT = MAX_LABEL_BYTES // 4
# A text of so many characters is short enough without counting its bytes.

MAX_INTERVAL_S = 30 * 86_400
# A node that speaks less than once in 30 days is not monitored by silence.

_AMOUNTS = frozenset({"total", "reserved", "ratio"})
_CONTAINERS = ("addresses", "labels", "resources", "devices", "gates")
_PLACES = ("region", "zone", "pool")
_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(?:\.\d{1,18})?(?:[Zz]|[+-]\d\d:\d\d)?", re.ASCII)

_whole = lru_cache(4096)(Decimal)
_broken = lru_cache(4096)(amount)
# Machines come in types: a shared Decimal is quicker to get than a new one, and is hashed once for the fold's
# own memos. Only plain ints go into the one and plain floats into the other.

Data = dict[str, Any]
Warnings = list[FactWarning]


def treat(model: type[FactData], data: Data, *, is_plain: bool) -> tuple[FactWarning, ...]:
    """Change the data in place into what the model may read; return what was changed, in a fixed order.

    `data` must belong to the caller alone. `is_plain` is what `events.body` said of it.
    """
    warnings: Warnings = []
    if not is_plain:
        for name, value in data.items():
            data[name] = _finite(value, name, warnings)
    plan = _plan(model)
    for name in plan.times:
        if (value := data.get(name)) is not None:
            data[name] = time_or_none(value, name, warnings)
    if plan.is_registration:
        _treat_registration(data, warnings)
    elif plan.has_labels:
        _treat_labels(data, "labels", warnings)
        _treat_labels(data, "annotations", warnings)
    if plan.has_resources:
        _treat_resources(data, warnings)
    if plan.has_amounts:
        _treat_amounts(data, warnings)
    return tuple(warnings)


@dataclass(frozen=True, slots=True)
class _Plan:
    times: tuple[str, ...]
    is_registration: bool
    has_labels: bool
    has_resources: bool
    has_amounts: bool


@cache
def _plan(model: type[FactData]) -> _Plan:
    fields = model.model_fields
    return _Plan(
        times=tuple(name for name, member in fields.items() if Time in get_args(member.annotation)),
        is_registration=issubclass(model, Registered),
        has_labels="labels" in fields or "annotations" in fields,
        has_resources="resources" in fields,
        has_amounts="amounts" in fields,
    )


def time_or_none(value: object, field: str, warnings: Warnings) -> datetime | None:
    """Return an RFC 3339 text as a UTC time; None and a warning for what is none or out of range.

    A text without an offset is taken as UTC.
    """
    if type(value) is str and _TIME.fullmatch(value):
        try:
            read = datetime.fromisoformat(value.upper())
            return read if read.tzinfo is UTC else _in_utc(read)
        except (ValueError, OverflowError):
            pass
    warnings.append(FactWarning(TIME_OUT_OF_RANGE, field, f"{str(value)[:60]!r} is no time we can hold"))
    return None


def _in_utc(read: datetime) -> datetime:
    return read.replace(tzinfo=UTC) if read.tzinfo is None else read.astimezone(UTC)


def _treat_registration(data: Data, warnings: Warnings) -> None:
    for name in _CONTAINERS:
        if name in data and data[name] is None:
            del data[name]
    interval = data.get("interval_s")
    if _is_number(interval) and not 0 < interval <= MAX_INTERVAL_S:
        warnings.append(FactWarning(AMOUNT_OUT_OF_RANGE, "interval_s", f"{interval} seconds"[:60]))
        data["interval_s"] = None
    for name in _PLACES:
        place = data.get(name)
        if type(place) is str and (not place.isascii() or len(place) > MAX_NODE_ID_BYTES):
            place = unicodedata.normalize("NFC", place)
            data[name] = _shortened(place, MAX_NODE_ID_BYTES, name, warnings)
    if type(labels := data.get("labels")) is dict and not _are_usual(labels):
        _drop_labels(labels, warnings)
        _treat_labels(data, "labels", warnings)
    if type(resources := data.get("resources")) is dict and None in resources.values():
        data["resources"] = {
            name: {} if resource is None else resource for name, resource in resources.items()
        }
    if type(devices := data.get("devices")) is list:
        _treat_devices(devices, warnings)


def _are_usual(labels: Data) -> bool:
    for key, value in labels.items():
        if type(value) is not str or len(value) > _SHORT or len(key) > _SHORT or key[:1] == "f":
            return False
    return True


def _drop_labels(labels: Data, warnings: Warnings) -> None:
    for key in [key for key, value in labels.items() if value is None or key.startswith(PROTECTED_PREFIX)]:
        field = f"labels.{key[:200]}"
        if labels.pop(key) is None:
            warnings.append(FactWarning(NOT_REPORTED, field, "a label is a text"))
        else:
            warnings.append(FactWarning(PROTECTED_LABEL, field, "a machine cannot give itself this label"))


def _treat_labels(data: Data, member: str, warnings: Warnings) -> None:
    labels = data.get(member)
    if type(labels) is not dict:
        return
    for key, value in labels.items():
        if len(key) > _SHORT or (type(value) is str and len(value) > _SHORT):
            break
    else:
        return
    data[member] = {
        _shortened(key, MAX_LABEL_BYTES, f"{member}.{key[:200]}", warnings): (
            _shortened(value, MAX_LABEL_BYTES, f"{member}.{key[:200]}", warnings)
            if type(value) is str
            else value
        )
        for key, value in labels.items()
    }


def _shortened(text: str, limit_bytes: int, field: str, warnings: Warnings) -> str:
    whole = text.encode()
    if len(whole) <= limit_bytes:
        return text
    mark = f"…#{hashlib.sha256(whole).hexdigest()[:12]}"
    warnings.append(FactWarning(TRUNCATED, field, f"{len(whole)} bytes, the limit is {limit_bytes}"))
    return whole[: limit_bytes - len(mark.encode())].decode(errors="ignore") + mark


def _treat_devices(devices: list[Any], warnings: Warnings) -> None:
    for at, device in enumerate(devices):
        if type(device) is dict and (memory := device.get("memory")) is not None:
            if type(memory) is int and 0 <= memory < LIMIT:
                device["memory"] = Decimal(memory)
            else:
                device["memory"] = _amount(memory, f"devices.{at}.memory", warnings)


def _treat_resources(data: Data, warnings: Warnings) -> None:
    resources = data.get("resources")
    if type(resources) is not dict:
        return
    for name, resource in resources.items():
        if type(resource) is dict:
            for member, value in resource.items():
                if member in _AMOUNTS:
                    # Nearly every amount is a whole number; a call for each costs a tenth of a decode.
                    if type(value) is int and 0 <= value < LIMIT:
                        resource[member] = _whole(value)
                    elif type(value) is float and 0 <= value < 1e27:
                        resource[member] = _broken(value)
                    else:
                        resource[member] = _amount(value, f"resources.{name[:200]}.{member}", warnings)


def _treat_amounts(data: Data, warnings: Warnings) -> None:
    amounts = data.get("amounts")
    if type(amounts) is not dict:
        return
    for name, value in amounts.items():
        amounts[name] = _amount(value, f"amounts.{name[:200]}", warnings)
    for name in [name for name, value in amounts.items() if value is None]:
        del amounts[name]
        warnings.append(FactWarning(NOT_REPORTED, f"amounts.{name[:200]}", "no amount, so not held"))


def _is_number(value: object) -> TypeGuard[int | float]:
    return type(value) in (int, float, ExactFloat)


def _amount(value: object, field: str, warnings: Warnings) -> object:
    if _is_number(value):
        try:
            exact = amount(value)
        except ValueError as err:
            warnings.append(FactWarning(AMOUNT_OUT_OF_RANGE, field, str(err)))
            return None
        if exact < 0:
            warnings.append(FactWarning(NEGATIVE_AMOUNT, field, str(exact)))
        return exact
    return value


def _finite(value: Any, field: str, warnings: Warnings) -> Any:  # noqa: ANN401 (any JSON value)
    kind = type(value)
    if kind is dict:
        for name, member in value.items():
            value[name] = _finite(member, f"{field}.{name[:200]}", warnings)
    elif kind is list:
        value[:] = [_finite(member, f"{field}.{at}", warnings) for at, member in enumerate(value)]
    elif value is NAN:
        warnings.append(FactWarning(NOT_REPORTED, field, "not a finite number"))
        return None
    elif kind is ExactFloat and not math.isfinite(value):
        warnings.append(FactWarning(AMOUNT_OUT_OF_RANGE, field, f"{value.text[:40]} is beyond every range"))
        return None
    return value
