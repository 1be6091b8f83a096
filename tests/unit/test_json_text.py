"""JSON as answers write it: strict, exact, whatever the values are."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.json_text import dumps, number
from tests.support.asgi import strict_json

SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(),
    st.characters(categories=["Cs"]),
    st.decimals(allow_nan=True, allow_infinity=True, places=9),
    st.datetimes(timezones=st.just(UTC)),
)  # fmt: skip
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(VALUES)
def test_any_value_becomes_json_that_a_strict_parser_reads(value: object) -> None:
    strict_json(dumps(value))


@given(st.decimals(allow_nan=False, allow_infinity=False, places=9, min_value=-(10**28), max_value=10**28))
def test_a_decimal_keeps_every_digit(value: Decimal) -> None:
    written = dumps(number(value)).decode()

    assert Decimal(written) == value
    assert "e" not in written.lower()


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (Decimal("8"), b"8"),
        (Decimal("8.000"), b"8"),
        (Decimal("3.250000000"), b"3.25"),
        (Decimal("1E+3"), b"1000"),
        (Decimal("1E-9"), b"0.000000001"),
        (Decimal("-0"), b"0"),
        (Decimal(2**63), b"9223372036854775808"),
        (Decimal(10**27 + 1), b"1000000000000000000000000001"),
        (Decimal("12345678901.123456789"), b"12345678901.123456789"),
        (Decimal("NaN"), b"null"),
        (float("nan"), b"null"),
        (float("-inf"), b"null"),
        (81604378624.0, b"81604378624"),
        (0.5, b"0.5"),
        (None, b"null"),
    ],
)
def test_an_amount_is_written_in_one_spelling(value: Decimal | float | None, written: bytes) -> None:
    assert dumps(number(value)) == written


def test_a_time_is_written_in_utc_with_z() -> None:
    assert dumps(datetime(2026, 5, 1, 12, tzinfo=UTC)) == b'"2026-05-01T12:00:00Z"'


def test_a_lone_surrogate_does_not_break_an_answer() -> None:
    assert strict_json(dumps({"\ud800": ["\udfff", 2**70]})) == {"?": ["?", 2**70]}


def test_a_type_without_json_is_a_mistake_of_ours() -> None:
    with pytest.raises(TypeError, match="object"):
        dumps({"x": object()})
