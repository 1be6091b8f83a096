"""Holes between sequences, and the broker's times."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumers.holes import holes_in
from consumers.stream_api import nanoseconds


@given(st.sets(st.integers(1, 200), min_size=1), st.integers(0, 50))
def test_records_and_holes_together_are_every_sequence_once(found: set[int], after: int) -> None:
    seqs = sorted(seq for seq in found if seq > after)

    holes = holes_in(np.array(seqs, np.int64), after=after)

    missing = [seq for low, high in holes for seq in range(low, high + 1)]
    assert sorted(seqs + missing) == list(range(after + 1, max(seqs, default=after) + 1))
    assert all(low <= high for low, high in holes)


@pytest.mark.parametrize("seqs", [[1, 3, 2], [1, 1], [5, 4]])
def test_sequences_that_do_not_rise_are_refused(seqs: list[int]) -> None:
    with pytest.raises(ValueError, match="do not rise"):
        holes_in(np.array(seqs, np.int64), after=0)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("2026-01-01T00:00:00.1Z", 1_767_225_600_100_000_000),
        ("2026-01-01T00:00:00.123456789Z", 1_767_225_600_123_456_789),
        ("2026-01-01T00:00:00.000000001Z", 1_767_225_600_000_000_001),
    ],
)
def test_a_time_of_the_brokers_is_read_to_the_nanosecond(text: str, expected: int) -> None:
    assert nanoseconds(text) == expected
