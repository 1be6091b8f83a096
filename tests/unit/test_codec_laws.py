"""Laws of the codec: encode then decode is the identity; any bytes are a fact or a reason."""

from __future__ import annotations

import json
import re
from typing import Any

import orjson
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from events.body import read_object
from events.codec import Recorded, decode_fact, encode_fact, encode_json
from events.envelope import FactEvent
from events.errors import UnreadableError
from events.facts import Registered
from events.reasons import REASONS, WARNINGS
from events.registry import REGISTRY, FactType
from tests.support.facts import MEMBERS, any_event, data_of, json_values, texts

REGISTERED = "fleet.v1.agent.n1.registered"


def _decode(payload: bytes, subject: str = REGISTERED) -> Recorded:
    return decode_fact(seq=1, stored_at_ns=1_777_636_800_000_000_001, subject=subject, payload=payload)


def test_the_strategies_forget_no_fact_and_no_member() -> None:
    assert set(MEMBERS) == {fact.model for fact in REGISTRY.types}
    for model, members in MEMBERS.items():
        assert set(members) == set(model.model_fields)


@given(any_event)
def test_encode_then_decode_is_the_identity(event: FactEvent) -> None:
    payload = encode_fact(event)

    fact = _decode(payload, event.subject)

    assert fact.data == event.data
    assert (fact.source, fact.event_id, fact.sent_at) == (event.source, event.event_id, event.time)
    assert (fact.node_id or fact.zone) == event.about
    assert (fact.type, fact.owner, fact.verb) == (event.kind.text, event.kind.owner, event.kind.verb)
    assert fact.warnings == ()
    assert fact.raw == payload


@pytest.mark.parametrize("fact_type", REGISTRY.types, ids=lambda fact: fact.verb)
@settings(max_examples=20)
@given(data=st.data())
def test_each_fact_survives_as_data_and_encodes_to_the_same_bytes_again(
    fact_type: FactType, data: st.DataObject
) -> None:
    before = data.draw(data_of(fact_type.model))

    payload = encode_json(
        {"specversion": "1.0", "id": "e", "source": "/t", "type": fact_type.text, "data": before}
    )
    about = "~az" if fact_type.owner == "zone" else "n1"
    after = _decode(payload, f"fleet.v1.{fact_type.owner}.{about}.{fact_type.verb}").data

    assert after == before
    assert encode_json(after) == encode_json(before)


@given(data_of(Registered))
def test_a_bare_registration_means_what_its_envelope_would(data: Registered) -> None:
    fact = _decode(encode_json(data))

    assert fact.data == data
    assert fact.type == "fleetfold.agent.registered.v1"
    assert (fact.event_id, fact.sent_at) == ("", data.sent_at)


_TEXT = re.compile(rb'("(?:[^"\\]|\\.)*")')


def _spaced_and_escaped(payload: bytes) -> bytes:
    """Return the same JSON as another writer might write it."""
    parts = _TEXT.split(payload)
    return b"".join(
        json.dumps(json.loads(part)).encode() if at % 2 else re.sub(rb"([:,{}\[\]])", rb" \1\n", part)
        for at, part in enumerate(parts)
    )


@settings(max_examples=50)
@given(data_of(Registered))
def test_white_space_and_escapes_change_nothing(data: Registered) -> None:
    compact = encode_json(data)

    assert _decode(_spaced_and_escaped(compact)).data == _decode(compact).data


def _check(payload: bytes, subject: str = REGISTERED) -> None:
    try:
        fact = _decode(payload, subject)
    except UnreadableError as unreadable:
        assert unreadable.reason in REASONS
        unreadable.field.encode()
        unreadable.detail.encode()
    else:
        assert fact.raw == payload
        assert {warning.code for warning in fact.warnings} <= set(WARNINGS)
        if fact.data is not None:
            encode_json(fact.data)


@given(st.binary(max_size=200))
@example(b"")
@example(b"\x00")
@example(b"\xef\xbb\xbf{}")
@example(b'{"boot_id":"\\ud800","seq":1}')
@example(b'{"boot_id":"b","seq":1,"\\udfff":1}')
@example(b'{"boot_id":"b","seq":1,"x":"\\ud83d\\ude00"}')
@example(b'{"boot_id":"b","seq":1e400}')
@example(b'{"boot_id":"b","seq":99999999999999999999999999}')
@example(b'{"boot_id":"b","seq":1,"resources":{"cpu":{"total":1e28,"reserved":-1e28,"ratio":1e-999999999}}}')
@example(b'{"boot_id":"b","seq":1,"x":' + b"9" * 5000 + b"}")
@example(b'{"boot_id":"b","seq":1,"x":0.' + b"9" * 5000 + b"}")
def test_any_bytes_are_a_fact_or_a_reason(payload: bytes) -> None:
    _check(payload)


anything = json_values | st.sampled_from(
    [float("nan"), float("inf"), -float("inf"), 1e300, -1, 10**400, "x" * 2000]
)
members = st.sampled_from([*Registered.model_fields, "node_id", "specversion", "fleetfold/x"])
nested = st.recursive(
    anything,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["total", "memory", "id", "fleetfold/x", "name"]) | texts, inner, max_size=3
        )
    ),
    max_leaves=8,
)


@given(st.dictionaries(members, nested))
def test_any_registration_is_a_fact_or_a_reason(tree: dict[str, Any]) -> None:
    _check(json.dumps({"boot_id": "b", "seq": 1} | tree).encode())


@given(
    st.sampled_from(REGISTRY.types),
    st.dictionaries(texts, nested, max_size=2),
    st.dictionaries(st.sampled_from(["data", "id", "subject", "time", "type", "datacontenttype"]), nested),
    st.data(),
)
def test_any_event_on_any_subject_is_a_fact_or_a_reason(
    fact_type: FactType, others: dict[str, Any], envelope: dict[str, Any], data: st.DataObject
) -> None:
    told = data.draw(st.dictionaries(st.sampled_from([*fact_type.model.model_fields]), nested))
    event = {"specversion": "1.0", "id": "e", "source": "/t", "type": fact_type.text, "data": told}

    about = "~az" if fact_type.owner == "zone" else "n1"
    subject = f"fleet.v1.{fact_type.owner}.{about}.{fact_type.verb}"
    _check(json.dumps(event | others | envelope).encode(), subject)


@given(texts, st.binary(max_size=20))
def test_any_subject_is_a_fact_or_a_reason(subject: str, payload: bytes) -> None:
    _check(payload, subject)
    _check(b'{"boot_id":"b","seq":1}', f"fleet.v1.agent.{subject}.registered")


@given(st.dictionaries(texts, json_values, max_size=4), st.booleans())
def test_the_quick_and_the_exact_parser_agree(tree: dict[str, Any], is_ascii: bool) -> None:
    payload = json.dumps(tree, ensure_ascii=is_ascii).encode()

    read, _ = read_object(payload)

    assert read == tree
    assert orjson.loads(encode_json(read)) == orjson.loads(payload)
