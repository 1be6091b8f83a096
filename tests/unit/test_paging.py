"""Cursors of lists."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from api import paging
from api.problems import ProblemError

POSITIONS = st.lists(st.text(max_size=250), min_size=1, max_size=3)
QUESTION = paging.question(list="nodes", zone="z1")


@given(POSITIONS, st.text())
def test_a_cursor_gives_its_position_back(position: list[str], zone: str) -> None:
    of = paging.question(list="nodes", zone=zone)

    assert paging.decode(paging.encode(position, of=of), of=of) == position


@given(st.text())
def test_garbage_is_refused(cursor: str) -> None:
    with pytest.raises(ProblemError) as caught:
        paging.decode(cursor, of=QUESTION)

    assert caught.value.kind.code == "invalid_cursor"


@given(POSITIONS, st.data())
def test_an_edited_cursor_is_refused(position: list[str], data: st.DataObject) -> None:
    cursor = paging.encode(position, of=QUESTION)
    where = data.draw(st.integers(0, len(cursor) - 1))
    letter = data.draw(st.sampled_from("ABCDEFabcdef0123456789-_"))
    edited = cursor[:where] + letter + cursor[where + 1 :]
    assume(edited != cursor)

    with pytest.raises(ProblemError):
        paging.decode(edited, of=QUESTION)


@given(POSITIONS)
def test_a_cursor_of_other_filters_is_refused(position: list[str]) -> None:
    cursor = paging.encode(position, of=paging.question(list="nodes", zone="z2"))

    with pytest.raises(ProblemError):
        paging.decode(cursor, of=QUESTION)


def test_a_cursor_of_the_longest_node_id_is_not_too_long() -> None:
    position = ["2026-05-01T12:00:00.000000+00:00", "\u0001" * 250]

    cursor = paging.encode(position, of=QUESTION)

    assert paging.decode(cursor, of=QUESTION) == position
