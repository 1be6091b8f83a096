"""Quantities as Kubernetes spells them, `500m`, `4Gi`, `100Mbps` (floor 3, pure)."""

from __future__ import annotations

import re
from decimal import Decimal

from events.amounts import amount

FACTORS = {
    "n": Decimal("1e-9"), "u": Decimal("1e-6"), "m": Decimal("1e-3"), "": Decimal(1),
    "k": Decimal(10**3), "M": Decimal(10**6), "G": Decimal(10**9), "T": Decimal(10**12), "P": Decimal(10**15),
    "E": Decimal(10**18),
    "Ki": Decimal(2**10), "Mi": Decimal(2**20), "Gi": Decimal(2**30), "Ti": Decimal(2**40),
    "Pi": Decimal(2**50), "Ei": Decimal(2**60),
}  # fmt: skip

_QUANTITY = re.compile(
    r"([+-]?(?:[0-9]{1,30}(?:\.[0-9]{0,30})?|\.[0-9]{1,30}))(?:[eE]([+-]?[0-9]{1,2})|([A-Za-z]{0,2}))(?:bps)?"
)


def quantity(text: str) -> Decimal | None:
    """Return the number that a quantity is, None where the text is none or out of range."""
    found = _QUANTITY.fullmatch(text)
    if found is None:
        return None
    number, exponent, suffix = found.groups()
    factor = Decimal(10) ** int(exponent) if exponent is not None else FACTORS.get(suffix or "")
    if factor is None:
        return None
    try:
        return amount(Decimal(number) * factor)
    except ValueError:
        return None
