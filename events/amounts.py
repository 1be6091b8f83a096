"""Amounts of resources: exact decimals from JSON numbers (floor 1, pure).

An amount has at most nine decimal places and lies strictly between -10^28 and 10^28. It is never a boolean,
never a text and never "not a number": zero, unknown (None) and absent stay three different things.
"""

from __future__ import annotations

import math
from decimal import ROUND_HALF_EVEN, Context, Decimal
from typing import Annotated

from pydantic import GetCoreSchemaHandler, WithJsonSchema
from pydantic_core import CoreSchema, core_schema

LIMIT = 10**28
# What a column DECIMAL(38, 9) can hold, with a digit to spare for sums over a fleet.

OUT_OF_RANGE = "an amount lies between -1e28 and 1e28"

PLACES = 9
_SHORT_FROM, _SHORT_BELOW = 1e-4, 1e9
# Here a float's text has no exponent, so at most eleven characters mean at most nine places.
_EXACT_FLOATS = 2**53
# Up to here a whole float is the number that was written; above, only its shortest text says which was meant.
_SMALLEST = Decimal(1).scaleb(-PLACES)
_EXACT = Context(prec=60, rounding=ROUND_HALF_EVEN)
# 28 digits and nine places need 37; the caller's own decimal context must not decide what is stored.


class ExactFloat(float):
    """A JSON number that a float alone would not hold: `text` is how it was written."""

    __slots__ = ("text",)
    text: str

    def __new__(cls, text: str) -> ExactFloat:
        made = super().__new__(cls, text)
        made.text = text
        return made


def amount(value: object) -> Decimal:
    """Return a number as an amount, rounded half to even at nine places.

    Raises ValueError for anything but an int, float or Decimal, and for a number out of range or not finite.
    """
    if type(value) is int:
        if -LIMIT < value < LIMIT:
            return Decimal(value)
        raise ValueError(OUT_OF_RANGE)
    if (
        type(value) is float
        and _SHORT_FROM <= value < _SHORT_BELOW
        and len(text := repr(value)) <= PLACES + 2
    ):
        return Decimal(text) if text[-2:] != ".0" else Decimal(int(value))
    if isinstance(value, float):
        exact = _from_float(value)
    elif isinstance(value, Decimal):
        exact = value
    else:
        raise ValueError("an amount is a JSON number")  # noqa: TRY004 (what pydantic expects)
    if not (exact.is_finite() and -LIMIT < exact < LIMIT):
        raise ValueError(OUT_OF_RANGE)
    return _rounded(exact)


def _from_float(value: float) -> Decimal:
    if isinstance(value, ExactFloat):
        # What a float cannot tell from zero or from infinity may have an exponent beyond Decimal's.
        return Decimal(value.text) if value and math.isfinite(value) else Decimal(float(value))
    return Decimal(int(value)) if value.is_integer() and abs(value) <= _EXACT_FLOATS else Decimal(repr(value))


def _rounded(exact: Decimal) -> Decimal:
    exponent = exact.as_tuple().exponent
    assert isinstance(exponent, int), "only finite decimals come here"
    if exponent < -PLACES:
        return exact.quantize(_SMALLEST, context=_EXACT)
    return exact


def plain(exact: Decimal) -> str:
    """Return a finite number in plain decimals, the same text for the same number: 8.00 and 0.8E+1 are 8."""
    text = f"{exact:f}"
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


class _AmountSchema:
    """Lets pydantic take a Decimal as it is, without a call into Python, and make one of any other number."""

    @staticmethod
    def __get_pydantic_core_schema__(_: object, __: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.union_schema(
            [core_schema.is_instance_schema(Decimal), core_schema.no_info_plain_validator_function(amount)],
            mode="left_to_right",
            custom_error_type="amount",
            custom_error_message="an amount is a JSON number between -1e28 and 1e28",
        )


Amount = Annotated[Decimal, _AmountSchema, WithJsonSchema({"type": "number"})]
"""The type of a member of a fact. A Decimal is taken on trust; encoding is where it is rounded or refused."""
