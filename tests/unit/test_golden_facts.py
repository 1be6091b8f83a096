"""One file for each event type and version, for ever: what was written once stays readable."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from events.codec import Recorded, decode_fact, encode_fact
from events.envelope import new_event
from events.ids import NodeId, Zone
from events.registry import REGISTRY, parse_type
from events.subjects import fact_subject, zone_subject

FOLDER = Path(__file__).parents[1] / "golden" / "facts"
FILES = {file.name.removesuffix(".json"): file for file in sorted(FOLDER.glob("*.json"))}


def _decoded(payload: bytes) -> Recorded:
    body = orjson.loads(payload)
    parts = parse_type(body["type"])
    assert parts is not None
    owner = REGISTRY.by_verb[parts.owner, parts.verb].owner
    about = body["subject"]
    subject = (
        zone_subject(Zone(about), parts.verb)
        if owner == "zone"
        else fact_subject(owner, NodeId(about), parts.verb)
    )
    return decode_fact(seq=1, stored_at_ns=0, subject=subject, payload=payload)


def test_each_registered_type_has_a_golden_file() -> None:
    assert {fact.text for fact in REGISTRY.types} <= set(FILES)


@pytest.mark.parametrize("type_text", FILES)
def test_a_golden_file_decodes_without_a_warning_and_keeps_each_member(type_text: str) -> None:
    payload = FILES[type_text].read_bytes()

    fact = _decoded(payload)

    assert fact.type == type_text
    assert fact.data is not None
    assert fact.warnings == ()
    members = set(orjson.loads(payload)["data"])
    assert members <= set(type(fact.data).model_fields) | set(fact.data.model_extra or {})


@pytest.mark.parametrize("type_text", [fact.text for fact in REGISTRY.types])
def test_the_newest_golden_file_is_what_encoding_writes_byte_for_byte(type_text: str) -> None:
    compact = orjson.dumps(orjson.loads(FILES[type_text].read_bytes()))

    fact = _decoded(compact)

    assert fact.data is not None
    assert fact.sent_at is not None
    about = fact.node_id or fact.zone
    assert about is not None
    time = orjson.loads(compact)["time"]
    event = new_event(fact.data, about=about, source=fact.source, event_id=fact.event_id, time=fact.sent_at)
    assert encode_fact(event) == compact, time
