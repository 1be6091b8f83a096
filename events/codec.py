"""Facts to bytes and back (floor 1, pure). Any bytes on any subject give a Recorded or an UnreadableError.

Decoding is a pure function of the record: a replay gives the same facts, warnings and reasons, for ever.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from functools import cache
from typing import Any, NamedTuple

import orjson
from pydantic import ValidationError

from events.amounts import ExactFloat, amount, plain
from events.body import check_depth, read_object
from events.envelope import JSON_TYPE, SPECVERSION, FactEvent, Opened, check_about, open_envelope
from events.errors import InvalidSubjectError, UnreadableError
from events.facts import FactData, Part
from events.ids import NodeId, Zone
from events.moments import from_us
from events.reasons import BAD_TYPE, INVALID_SUBJECT, MISSING, NOT_UTF8, SUBJECT_MISMATCH, FactWarning
from events.registry import REGISTRY, FactType, Registry, parse_type
from events.subjects import FactSubject, Owner, parse_fact
from events.treatments import treat
from events.upcasters import upcast


class Recorded(NamedTuple):
    """A fact as the log holds it. `data` is None for a type that we do not know: kept, counted and skipped.

    Of `node_id` and `zone` exactly one is None. `event_id` is "" for a body without an envelope. `sent_at` is
    the sender's claim, `stored_at` the log's; both are UTC. `raw` is the payload as stored.
    """

    seq: int
    stored_at: datetime
    subject: str
    node_id: NodeId | None
    zone: Zone | None
    owner: Owner
    verb: str
    type: str
    source: str
    event_id: str
    sent_at: datetime | None
    data: FactData | None
    raw: bytes
    warnings: tuple[FactWarning, ...] = ()


def decode_fact(
    *, seq: int, stored_at_ns: int, subject: str, payload: bytes, registry: Registry = REGISTRY
) -> Recorded:
    """Return the fact that a record of FLEET holds; raise UnreadableError, and nothing else.

    `stored_at_ns` counts nanoseconds since 1970 and is cut to microseconds.
    """
    try:
        about = parse_fact(subject)
    except InvalidSubjectError as err:
        raise UnreadableError(INVALID_SUBJECT, field="subject", detail=err.why) from err
    tree, is_plain = read_object(payload)
    opened = open_envelope(tree, about)
    data, warnings = _read_data(opened, about, registry, is_plain=is_plain)
    sent_at = opened.sent_at
    if sent_at is None and data is not None:
        sent_at = getattr(data, "sent_at", None)
    return Recorded(
        seq,
        from_us(stored_at_ns // 1000),
        subject,
        about.node_id,
        about.zone,
        about.owner,
        about.verb,
        opened.type,
        opened.source,
        opened.event_id,
        sent_at,
        data,
        payload,
        opened.warnings + warnings,
    )


def encode_fact(event: FactEvent) -> bytes:
    """Return the record of an event: the same event gives the same bytes.

    Raises UnreadableError where the data holds what could not be read back.
    """
    return encode_json(
        {
            "specversion": SPECVERSION,
            "id": event.event_id,
            "source": event.source,
            "type": event.kind.text,
            "subject": event.about,
            "time": event.time,
            "datacontenttype": JSON_TYPE,
            "data": event.data,
        }
    )


def encode_json(value: object) -> bytes:
    """Return compact JSON of plain values, amounts, times and parts of facts, every number exact.

    Members that have their default value are left out. Raises UnreadableError for half a surrogate pair, for
    more levels than `events.body` reads and for an amount out of range.
    """
    try:
        payload = orjson.dumps(value, default=_plain, option=orjson.OPT_UTC_Z)
    except orjson.JSONEncodeError as err:
        try:
            payload = orjson.dumps(_with_long_integers(value), default=_plain, option=orjson.OPT_UTC_Z)
        except orjson.JSONEncodeError:
            raise UnreadableError(NOT_UTF8, detail=str(err)) from err
    check_depth(payload)
    return payload


def _read_data(
    opened: Opened, about: FactSubject, registry: Registry, *, is_plain: bool
) -> tuple[FactData | None, tuple[FactWarning, ...]]:
    fact_type, data = _newest(opened, about, registry)
    if (told := data.get("node_id")) is not None and about.node_id is not None:
        check_about(told, about, field="data.node_id")
    if fact_type is None:
        return None, ()
    warnings = treat(fact_type.model, data, is_plain=is_plain)
    try:
        return _reader(fact_type.model)(data), warnings
    except ValidationError as err:
        first = err.errors(include_url=False, include_context=False, include_input=False)[0]
        reason = MISSING if first["type"] in ("missing", "string_too_short") else BAD_TYPE
        field = ".".join(str(part)[:200] for part in first["loc"])
        raise UnreadableError(reason, field=field, detail=first["msg"]) from err


def _newest(opened: Opened, about: FactSubject, registry: Registry) -> tuple[FactType | None, dict[str, Any]]:
    """Return the event type and the data lifted to its newest version; None for a type unknown to us."""
    fact_type = registry.by_text.get(opened.type)
    if fact_type is not None:
        if fact_type.owner != about.owner or fact_type.verb != about.verb:
            raise _mismatch(opened, about)
        return fact_type, opened.data
    parts = parse_type(opened.type)
    if parts is None:
        return None, opened.data
    if parts.owner != about.owner or parts.verb != about.verb:
        raise _mismatch(opened, about)
    fact_type = registry.by_verb.get((parts.owner, parts.verb))
    steps = registry.chains[parts.stem] if fact_type is not None else {}
    if fact_type is None or parts.version not in steps:
        return None, opened.data
    try:
        return fact_type, upcast(opened.data, steps, version=parts.version, newest=fact_type.version)
    except (LookupError, TypeError, ValueError, AttributeError) as err:
        raise UnreadableError(BAD_TYPE, field="data", detail=f"cannot be lifted from {opened.type}") from err


def _mismatch(opened: Opened, about: FactSubject) -> UnreadableError:
    detail = f"{opened.type[:200]} on a subject of {about.owner}.{about.verb}"
    return UnreadableError(SUBJECT_MISMATCH, field="type", detail=detail)


@cache
def _reader(model: type[FactData]) -> Callable[[dict[str, Any]], FactData]:
    # What `model_validate` does, without its checks of arguments that are never given.
    validate: Callable[[dict[str, Any]], FactData] = model.__pydantic_validator__.validate_python
    return validate


@cache
def _defaults(model: type[Part]) -> dict[str, object]:
    return {
        name: member.get_default(call_default_factory=True)
        for name, member in model.model_fields.items()
        if not member.is_required()
    }


_NO_DEFAULT = object()


def _plain(value: object) -> object:
    """Return what orjson can write of a value that it does not know."""
    if isinstance(value, Part):
        defaults = _defaults(type(value))
        told = {
            name: member
            for name, member in value.__dict__.items()
            if (default := defaults.get(name, _NO_DEFAULT)) is _NO_DEFAULT or member != default
        }
        return told | (value.model_extra or {})
    if isinstance(value, Decimal):
        return orjson.Fragment(plain(amount(value)).encode())
    if isinstance(value, ExactFloat):
        return orjson.Fragment(value.text.encode())
    raise TypeError(f"{type(value).__name__} has no JSON form")


def _with_long_integers(value: object) -> object:
    """Return the same value with the integers that orjson refuses as text fragments."""
    if isinstance(value, Part):
        value = _plain(value)
    if type(value) is int and not -(2**63) <= value < 2**64:
        return orjson.Fragment(str(value).encode())
    if isinstance(value, dict):
        return {name: _with_long_integers(member) for name, member in value.items()}
    if isinstance(value, list | tuple):
        return [_with_long_integers(member) for member in value]
    return value
