"""The digest that ties a heartbeat to a registration."""

from __future__ import annotations

import hashlib
from decimal import Decimal
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from events.digest import inventory_digest, payload_digest

REGISTRATION: dict[str, Any] = {
    "boot_id": "b1",
    "seq": 1,
    "sent_at": "2026-05-01T12:00:00Z",
    "zone": "中文",
    "resources": {"memory": {"total": 8}, "cpu": {"total": 8, "ratio": 0.5}},
    "role": None,
}


def test_the_digest_is_sha256_over_sorted_compact_json() -> None:
    canonical = '{"resources":{"cpu":{"ratio":0.5,"total":8},"memory":{"total":8}},"role":null,"zone":"中文"}'

    assert inventory_digest(REGISTRATION) == hashlib.sha256(canonical.encode()).hexdigest()[:16]


def test_a_new_boot_a_new_counter_and_a_new_time_change_nothing() -> None:
    later = {**REGISTRATION, "boot_id": "b2", "seq": 99, "sent_at": None}

    assert inventory_digest(later) == inventory_digest(REGISTRATION)


@pytest.mark.parametrize(
    "spellings",
    [
        [b"8", b"8.0", b"8e0", b"0.8e1", b"80E-1", b"8.00000000000000000000"],
        [b"0", b"-0", b"0.0", b"-0.0", b"0e5", b"1e-999999999"],
        [b"0.1", b"1e-1", b"0.10"],
        [b"10000000000000000000000", b"1e22", b"10000000000000000000000.0"],
        [b"null", b"NaN", b"-Infinity", b"1e999", b"1e999999999"],
    ],
)
def test_one_number_has_one_digest_however_it_is_written(spellings: list[bytes]) -> None:
    digests = {payload_digest(b'{"boot_id":"b","seq":1,"x":[%s]}' % spelling) for spelling in spellings}

    assert len(digests) == 1


def test_the_envelope_and_the_order_of_members_do_not_count() -> None:
    bare = orjson.dumps(REGISTRATION)
    turned = orjson.dumps(dict(reversed(REGISTRATION.items())))
    event = b'{"specversion":"1.0","data":%s}' % turned

    assert payload_digest(bare) == payload_digest(turned) == payload_digest(event)


def test_decimals_are_numbers_and_other_types_are_refused() -> None:
    assert inventory_digest({"x": Decimal("8.00")}) == inventory_digest({"x": 8})
    assert inventory_digest({"x": Decimal("8e999999999")}) == inventory_digest({"x": None})
    with pytest.raises(TypeError):
        inventory_digest({"x": object()})


numbers = st.integers(-(2**70), 2**70) | st.floats(allow_nan=False)
values = st.recursive(
    st.none() | st.booleans() | numbers | st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text("abc", max_size=3), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(st.dictionaries(st.text("xyz", max_size=3), values, max_size=4), values)
def test_another_inventory_has_another_digest(registration: dict[str, Any], value: Any) -> None:  # noqa: ANN401
    changed = {**registration, "extra": [value, "changed"]}

    assert inventory_digest(changed) != inventory_digest(registration)
    assert inventory_digest(changed) == inventory_digest(dict(reversed(changed.items())))
