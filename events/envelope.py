"""The envelope of a fact (floor 1, pure): CloudEvents 1.0 in structured JSON mode, made and taken apart.

A body without `specversion` is no envelope: from an agent it is the data of an event, from anybody else
nothing.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from events.errors import UnreadableError
from events.facts import FactData
from events.ids import NodeId, Zone
from events.reasons import BAD_TYPE, MISSING, NOT_AN_EVENT, NOT_AN_OBJECT, SUBJECT_MISMATCH, FactWarning
from events.registry import PREFIX, REGISTRY, FactType
from events.subjects import FactSubject, fact_subject, node_facts_filter, zone_facts_filter, zone_subject
from events.treatments import time_or_none

SPECVERSION = "1.0"
JSON_TYPE = "application/json"
MAX_EVENT_ID = 512
# A node's id (250 bytes), a boot id and a digest fit.
BARE_VERSION = 1
# A bare body cannot say its version, so it means the first, for ever.


@dataclass(frozen=True, slots=True)
class FactEvent:
    """A fact that is about to be appended. By `event_id` the broker drops doubles."""

    data: FactData
    about: NodeId | Zone
    source: str
    event_id: str
    time: datetime

    @property
    def kind(self) -> FactType:
        return REGISTRY.by_model[type(self.data)]

    @property
    def subject(self) -> str:
        kind = self.kind
        if kind.owner == "zone":
            return zone_subject(Zone(self.about), kind.verb)
        return fact_subject(kind.owner, NodeId(self.about), kind.verb)

    @property
    def filter(self) -> str:
        """The filter over every fact about the same node or zone."""
        if self.kind.owner == "zone":
            return zone_facts_filter(Zone(self.about))
        return node_facts_filter(NodeId(self.about))


def new_event(
    data: FactData, *, about: NodeId | Zone, source: str, event_id: str, time: datetime
) -> FactEvent:
    """Return an event to append. `source` is a URI reference such as `/api` or `/liveness`; `time` is aware.

    Raises ValueError for what would not be read back, and for an id that a message header cannot carry.
    """
    if type(data) not in REGISTRY.by_model:
        raise ValueError(f"{type(data).__name__} is the data of no event type")
    if not (source and time.tzinfo):
        raise ValueError("an event has a source and an aware time")
    if not (event_id.isprintable() and event_id.strip() and len(event_id) <= MAX_EVENT_ID):
        raise ValueError(f"{event_id[:80]!r} is no event id: 1 to {MAX_EVENT_ID} printable characters")
    if event_id != event_id.strip():
        raise ValueError(f"{event_id[:80]!r} is no event id: it begins or ends with a space")
    return FactEvent(data=data, about=about, source=source, event_id=event_id, time=time)


class Opened(NamedTuple):
    """An envelope taken apart; `data` is not yet treated or checked."""

    type: str
    source: str
    event_id: str
    sent_at: datetime | None
    data: dict[str, Any]
    warnings: tuple[FactWarning, ...]


def open_envelope(tree: dict[str, Any], about: FactSubject) -> Opened:
    """Return what the body of a record on this subject says; raise UnreadableError.

    Without an envelope, the source is `/agent`, the event has no id, and the time is left to the data.
    """
    if "specversion" not in tree:
        if about.owner != "agent":
            raise UnreadableError(NOT_AN_EVENT, detail="only agents may leave the envelope out")
        stem = f"{PREFIX}.agent.{about.verb}"
        return Opened(f"{stem}.v{BARE_VERSION}", "/agent", "", None, tree, ())
    if tree["specversion"] != SPECVERSION:
        raise UnreadableError(NOT_AN_EVENT, field="specversion", detail=f"the version is {SPECVERSION}")
    if "data_base64" in tree:
        raise UnreadableError(NOT_AN_EVENT, field="data_base64", detail="the data is JSON")
    if (media := tree.get("datacontenttype", JSON_TYPE)) != JSON_TYPE:
        _check_media(media)
    if (told := tree.get("subject")) is not None:
        check_about(told, about, field="subject")
    warnings: list[FactWarning] = []
    time = tree.get("time")
    data = tree.get("data")
    if data is None:
        data = {}
    elif type(data) is not dict:
        raise UnreadableError(NOT_AN_OBJECT, field="data", detail="the data is JSON, but not an object")
    return Opened(
        _text(tree, "type"),
        _text(tree, "source"),
        _text(tree, "id"),
        None if time is None else time_or_none(time, "time", warnings),
        data,
        tuple(warnings),
    )


def check_about(told: object, about: FactSubject, *, field: str) -> None:
    """Raise UnreadableError where a body names another node or zone than its subject."""
    named = about.node_id or about.zone
    if told != named and not (type(told) is str and unicodedata.normalize("NFC", told) == named):
        raise UnreadableError(SUBJECT_MISMATCH, field=field, detail=f"{str(told)[:80]!r}, not {named!r}")


def _text(tree: dict[str, Any], name: str) -> str:
    value = tree.get(name)
    if type(value) is str and value:
        return value
    if value is None or value == "":
        raise UnreadableError(MISSING, field=name, detail="an event has an id, a source and a type")
    raise UnreadableError(BAD_TYPE, field=name, detail="is a text")


def _check_media(media: object) -> None:
    kind = media.split(";")[0].strip().lower() if type(media) is str else ""
    if kind != JSON_TYPE and not kind.endswith("+json"):
        raise UnreadableError(NOT_AN_EVENT, field="datacontenttype", detail="the data is JSON")
