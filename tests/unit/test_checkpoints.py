from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from events.errors import EpochChangedError, LogGapError
from events.log import Batch, Cursor
from projections.checkpoints import fresh
from tests.support.beating import EPOCH, Beat, beats_batch, stored


def batch(
    first: int, count: int, *, without: tuple[int, ...] = (), holes: tuple[tuple[int, int], ...] = ()
) -> Batch:
    records = stored([Beat("n1", seq=seq) for seq in range(count)], first=first)
    return beats_batch([one for one in records if one.seq not in without], holes=holes)


def after(seq: int) -> Cursor:
    return Cursor(EPOCH, seq, 1)


def test_a_batch_that_goes_on_at_the_cursor_is_new_as_a_whole() -> None:
    new = fresh(batch(4, 3), after(3))

    assert (new.batch.seqs.tolist(), new.skipped, new.holes) == ([4, 5, 6], 0, ())


def test_records_up_to_the_cursor_are_skipped() -> None:
    new = fresh(batch(2, 4), after(3))

    assert (new.batch.seqs.tolist(), new.skipped) == ([4, 5], 2)
    assert len(new.batch.payloads) == len(new.batch.subjects) == len(new.batch.stored_at_ns) == 2


def test_a_batch_that_was_folded_before_is_nothing() -> None:
    assert fresh(batch(2, 4), after(5)).is_nothing
    assert fresh(batch(2, 4), after(9)).is_nothing


def test_a_batch_that_begins_beyond_the_cursor_is_refused() -> None:
    with pytest.raises(LogGapError) as gap:
        fresh(batch(7, 2), after(3))

    assert (gap.value.stream, gap.value.low, gap.value.high) == ("BEATS", 4, 6)


def test_a_proven_hole_may_be_crossed_and_is_told() -> None:
    assert fresh(batch(7, 2, holes=((4, 6),)), after(3)).holes == ((4, 6),)
    assert fresh(batch(1, 8, without=(3, 4, 6), holes=((3, 4), (6, 6))), after(0)).holes == ((3, 4), (6, 6))


def test_a_hole_that_is_proven_in_pieces_may_be_crossed() -> None:
    assert fresh(batch(7, 2, holes=((6, 6), (1, 4), (5, 5))), after(3)).holes == ((4, 6),)


def test_a_hole_that_is_proven_in_part_is_refused() -> None:
    for holes in [((4, 5),), ((5, 6),), ((4, 4), (6, 6))]:
        with pytest.raises(LogGapError):
            fresh(batch(7, 2, holes=holes), after(3))


def test_a_hole_within_the_batch_has_to_be_proven() -> None:
    with pytest.raises(LogGapError):
        fresh(batch(1, 5, without=(3,)), after(0))


def test_a_batch_of_nothing_but_a_hole_carries_the_cursor_over_it() -> None:
    nothing = batch(1, 1)
    hole = replace(
        nothing,
        seqs=nothing.seqs[:0],
        stored_at_ns=nothing.stored_at_ns[:0],
        subjects=[],
        payloads=[],
        cursor=Cursor(EPOCH, 9, 1),
        holes=((4, 9),),
    )

    assert fresh(hole, after(3)).holes == ((4, 9),)
    assert not fresh(hole, after(3)).is_nothing
    assert fresh(hole, after(9)).is_nothing
    with pytest.raises(LogGapError):
        fresh(hole, after(2))


def test_a_batch_of_another_stream_of_the_same_name_is_refused() -> None:
    with pytest.raises(EpochChangedError) as changed:
        fresh(batch(4, 3), Cursor("another", 3, 1))

    assert (changed.value.known, changed.value.found) == ("another", EPOCH)


def test_any_batch_may_be_the_first_of_a_stream_that_was_never_read() -> None:
    assert fresh(batch(1, 3), Cursor()).batch.seqs.tolist() == [1, 2, 3]


@given(
    there=st.sets(st.integers(1, 12), min_size=1),
    proven=st.lists(st.tuples(st.integers(1, 12), st.integers(1, 12)), max_size=3),
    at=st.integers(0, 12),
)
def test_a_batch_is_taken_exactly_where_records_and_proven_holes_leave_nothing_out(
    there: set[int], proven: list[tuple[int, int]], at: int
) -> None:
    last = max(there)
    holes = tuple(
        (low, high) for low, high in proven if low <= high and not there & set(range(low, high + 1))
    )
    one = batch(1, last, without=tuple(set(range(1, last + 1)) - there), holes=holes)
    covered = there | {seq for low, high in holes for seq in range(low, high + 1)}

    if set(range(at + 1, last + 1)) <= covered:
        new = fresh(one, after(at))
        told = {seq for low, high in new.holes for seq in range(low, high + 1)}
        assert set(new.batch.seqs.tolist()) | told == set(range(at + 1, last + 1))
        assert not set(new.batch.seqs.tolist()) & told
    else:
        with pytest.raises(LogGapError):
            fresh(one, after(at))
