"""The list of conditions in the documents has each one that there is."""

from __future__ import annotations

import re
from pathlib import Path

from projections import capacity, derive
from projections.conditions import CLOCK_SKEW
from projections.handles import SHARED_CONDITIONS

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "conditions.md"


def test_every_condition_is_documented_with_its_beginning_and_its_end() -> None:
    own = (
        derive.UNREGISTERED,
        derive.IDENTITY_CONFLICT,
        derive.LEAVING,
        derive.WARMING,
        derive.FLAPPING,
        derive.DEVICE_UNHEALTHY,
        derive.REPORT_WARNINGS,
        derive.FOREIGN_ALLOCATIONS,
        capacity.OVERCOMMITTED,
        capacity.OVER_RESERVED,
        capacity.NEGATIVE_ALLOCATION,
        capacity.OUT_OF_RANGE,
    )

    listed = re.findall(r"^\| `([a-z_]+)` \|", DOCUMENT.read_text("utf-8"), re.MULTILINE)

    assert listed == [*own, *SHARED_CONDITIONS, CLOCK_SKEW]
