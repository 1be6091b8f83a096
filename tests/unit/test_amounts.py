"""Amounts are exact, bounded, and numbers only."""

from __future__ import annotations

from decimal import Decimal, localcontext

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from events.amounts import LIMIT, PLACES, ExactFloat, amount
from events.facts import Resource


@given(st.integers(min_value=-LIMIT + 1, max_value=LIMIT - 1))
def test_a_whole_number_is_kept_exactly(number: int) -> None:
    assert amount(number) == number
    assert amount(ExactFloat(f"{number}.0")) == number


@given(st.decimals(min_value=-(10**27), max_value=10**27, places=PLACES))
def test_nine_places_are_kept_exactly(number: Decimal) -> None:
    assert amount(number) == number
    assert amount(ExactFloat(f"{number:f}")) == number


@given(st.floats(min_value=-1e27, max_value=1e27))
@example(3.602879701896397e16)
def test_a_float_means_the_decimal_that_it_is_written_as(number: float) -> None:
    written = Decimal(repr(number))

    assert amount(ExactFloat(repr(number))) == amount(number)
    assert abs(amount(number) - written) <= Decimal(5).scaleb(-PLACES - 1)


def test_the_tenth_place_is_rounded_half_to_even_whatever_the_callers_precision() -> None:
    with localcontext(prec=3):
        assert amount(Decimal("0.0000000005")) == 0
        assert amount(Decimal("1234567.0000000015")) == Decimal("1234567.000000002")


def test_a_number_too_small_for_a_float_is_zero() -> None:
    assert amount(ExactFloat("1e-999999999999999999999")) == 0


@pytest.mark.parametrize(
    "value",
    [
        *(
            LIMIT,
            -LIMIT,
            1e28,
            Decimal(LIMIT),
            ExactFloat("1e28"),
            ExactFloat("1e999"),
            ExactFloat("-1e9999999999"),
        ),
        *(Decimal("NaN"), Decimal("sNaN"), Decimal("-Infinity"), float("nan"), float("inf")),
    ],
)
def test_what_is_out_of_range_or_not_finite_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match="between -1e28 and 1e28"):
        amount(value)


@pytest.mark.parametrize("value", [True, False, "8", None, [8], b"8"])
def test_only_numbers_are_amounts(value: object) -> None:
    with pytest.raises(ValueError, match="JSON number"):
        amount(value)
    with pytest.raises(ValueError, match="Resource"):
        Resource.model_validate({"total": value} if value is not None else {"total": {}})


def test_zero_unknown_and_absent_differ() -> None:
    assert Resource(total=Decimal(0)) != Resource(total=None)
    assert Resource.model_validate({"total": 0}).total == Decimal(0)
