"""Event types and the way from an older version to the newest."""

from __future__ import annotations

from typing import Any

import pytest

from events.codec import decode_fact
from events.errors import UnreadableError
from events.facts import Cordoned, FactData, Registered, Retired
from events.reasons import BAD_TYPE
from events.registry import REGISTRY, FactType, Registry, parse_type
from events.subjects import OWNERS
from events.upcasters import Upcaster

STEM = "fleetfold.operator.cordoned"


def _who_to_owner(data: dict[str, Any]) -> dict[str, Any]:
    return {**{name: value for name, value in data.items() if name != "who"}, "owner": data["who"]}


def _reason_from_parts(data: dict[str, Any]) -> dict[str, Any]:
    because = data.pop("because", [])
    return {**data, "reason": " ".join(because)}


THREE_VERSIONS = Registry(
    (FactType("operator", "cordoned", Cordoned, version=3),),
    (Upcaster(STEM, 1, _who_to_owner), Upcaster(STEM, 2, _reason_from_parts)),
)


def _decode(version: int, data: bytes, registry: Registry = THREE_VERSIONS) -> FactData | None:
    payload = b'{"specversion":"1.0","id":"e","source":"/api","type":"%s.v%d","data":%s}' % (
        STEM.encode(),
        version,
        data,
    )
    subject = "fleet.v1.operator.n1.cordoned"
    return decode_fact(seq=1, stored_at_ns=0, subject=subject, payload=payload, registry=registry).data


def test_each_type_has_one_text_that_names_owner_verb_and_version() -> None:
    for fact in REGISTRY.types:
        parts = parse_type(fact.text)
        assert parts is not None
        assert (parts.owner, parts.verb, parts.version) == (fact.owner, fact.verb, fact.version)
        assert REGISTRY.by_text[fact.text] is REGISTRY.by_verb[fact.owner, fact.verb] is fact
        assert fact.owner in OWNERS


@pytest.mark.parametrize(
    "text",
    [
        "",
        "fleetfold.agent.registered",
        "fleetfold.agent.registered.v",
        "acme.agent.registered.v1",
        "fleetfold.agent.registered.v1 ",
        "fleetfold.a.b.c.v1",
        "fleetfold.agent.registered.v٣",
    ],
)
def test_a_type_of_others_is_none_of_ours(text: str) -> None:
    assert parse_type(text) is None


def test_each_version_is_lifted_to_the_newest() -> None:
    newest = Cordoned(owner="hw", reason="fan loud")

    assert _decode(1, b'{"who":"hw","because":["fan","loud"]}') == newest
    assert _decode(2, b'{"owner":"hw","because":["fan","loud"]}') == newest
    assert _decode(3, b'{"owner":"hw","reason":"fan loud"}') == newest


def test_a_version_from_the_future_or_before_the_chain_is_kept_and_skipped() -> None:
    assert _decode(4, b'{"whatever":1}') is None
    assert _decode(0, b'{"whatever":1}') is None


def test_data_that_an_upcaster_cannot_lift_is_unreadable_and_nothing_worse() -> None:
    with pytest.raises(UnreadableError) as raised:
        _decode(1, b'{"because":7}')

    assert raised.value.reason == BAD_TYPE


def test_a_chain_with_a_hole_a_double_or_a_stray_is_refused() -> None:
    types = (FactType("operator", "cordoned", Cordoned, version=3),)

    for broken in (
        (Upcaster(STEM, 1, _who_to_owner),),
        (Upcaster(STEM, 2, _who_to_owner), Upcaster(STEM, 2, _reason_from_parts)),
        (Upcaster("fleetfold.operator.danced", 1, _who_to_owner),),
    ):
        with pytest.raises(ValueError, match="upcaster"):
            Registry(types, broken)


def test_two_types_that_collide_are_refused() -> None:
    with pytest.raises(ValueError, match="share"):
        Registry((FactType("operator", "retired", Retired), FactType("operator", "retired", Registered)))
