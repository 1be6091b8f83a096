"""How native routes read paths and query strings."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api import parameters
from api.problems import ProblemError
from api.routing import MAX_QUERY_BYTES, check_names, node_in_path
from events.errors import InvalidNodeIdError
from events.ids import node_id

KNOWN = ["at", "cursor", "label", "limit", "state", "zone"]


@given(st.text(min_size=1, max_size=60))
def test_a_percent_encoded_node_id_comes_back_whatever_is_in_it(text: str) -> None:
    assert node_in_path(quote(text, safe="")) == node_id(text)


def test_a_path_that_is_no_utf_8_names_no_node() -> None:
    with pytest.raises(ProblemError) as caught:
        node_in_path("a%FFb")

    assert caught.value.kind.code == "invalid_node_id"


def test_a_node_id_beyond_its_length_is_refused() -> None:
    with pytest.raises(InvalidNodeIdError):
        node_in_path("n" * 251)


@pytest.mark.parametrize(
    ("written", "nearest"), [(b"staet=lost", "state"), (b"Zone=a", "zone"), (b"q=1", None)]
)
def test_an_unknown_parameter_names_the_nearest_known_one(written: bytes, nearest: str | None) -> None:
    with pytest.raises(ProblemError) as caught:
        check_names(written, known=KNOWN, repeatable={"label"})

    assert caught.value.kind.code == "unknown_parameter"
    found = caught.value.members["nearest"]
    assert found in KNOWN if nearest is None else found == nearest


def test_a_route_without_parameters_says_so() -> None:
    with pytest.raises(ProblemError, match="takes none"):
        check_names(b"x=1", known=[], repeatable=set())


def test_a_parameter_that_is_taken_once_is_not_given_twice() -> None:
    check_names(b"label=a%3Db&label=c%3Dd&zone=", known=KNOWN, repeatable={"label"})

    with pytest.raises(ProblemError, match="zone is given more than once"):
        check_names(b"zone=a&zone=b", known=KNOWN, repeatable={"label"})


def test_a_query_without_end_is_refused() -> None:
    with pytest.raises(ProblemError, match="the limit is"):
        check_names(b"zone=" + b"a" * MAX_QUERY_BYTES, known=KNOWN, repeatable=set())


@pytest.mark.parametrize(
    "text",
    [
        "2026-05-01T12:00:00Z",
        "2026-05-01T14:00:00+02:00",
        "2026-05-01T14:00:00 02:00",  # what is left of a + that the caller did not encode
        "2026-05-01 12:00:00Z",
        "2026-05-01T12:00:00.000000Z",
    ],
)
def test_a_moment_may_be_spelled_in_several_ways(text: str) -> None:
    assert parameters.moment_of(text, parameter="at") == datetime(2026, 5, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    "text",
    [
        "2026-05-01T12:00:00",
        "yesterday",
        "1777636800",
        "9999-12-31T23:59:59-12:00",
        "0001-01-01T00:00:00+14:00",
        "2026-02-30T00:00:00Z",
    ],
)
def test_what_is_no_moment_is_refused(text: str) -> None:
    with pytest.raises(ProblemError) as caught:
        parameters.moment_of(text, parameter="at")

    assert caught.value.kind.code == "invalid_parameter"


def test_the_future_is_not_known() -> None:
    soon = datetime.now(UTC) + timedelta(seconds=5)
    later = datetime.now(UTC) + timedelta(days=1)

    assert parameters.past(soon.isoformat()) == soon
    with pytest.raises(ProblemError, match="lies in the future"):
        parameters.past(later.isoformat())


@given(st.text())
def test_any_text_is_a_moment_or_a_problem(text: str) -> None:
    try:
        moment = parameters.moment_of(text, parameter="at")
    except ProblemError:
        return

    assert moment.tzinfo is UTC
