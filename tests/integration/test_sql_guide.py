"""The questions of the SQL guide are admitted by the guard that analysts meet, and its day can be read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from api.sql_guard import Guard
from api.sql_schema import relations_of
from docs.example_fleet import fold_day
from docs.questions import QUESTIONS, Question
from projections.projection import Projection


@pytest.fixture(scope="module")
def day(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Projection]:
    """The example day, folded."""
    projection = fold_day(tmp_path_factory.mktemp("day"))
    yield projection
    projection.close()


@pytest.fixture(scope="module")
def guard(day: Projection) -> Iterator[Guard]:
    """The guard over the views of the day."""
    cursor = day.cursor()
    admitting = Guard(relations_of(cursor))
    cursor.close()
    yield admitting
    admitting.close()


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question.asked)
def test_a_question_of_the_guide_is_admitted(guard: Guard, question: Question) -> None:
    guard.check(question.sql)


def test_every_record_of_the_example_day_is_readable(day: Projection) -> None:
    cursor = day.cursor()

    (unread,) = cursor.execute("SELECT count(*) FROM fleet.quarantine").fetchall()
    (nodes,) = cursor.execute("SELECT count(*) FROM fleet.nodes").fetchall()
    cursor.close()

    assert (unread, nodes) == ((0,), (1523,))


def test_the_example_day_is_the_same_on_every_run(day: Projection, tmp_path: Path) -> None:
    again = fold_day(tmp_path)
    digest = "SELECT bit_xor(hash(f)), count(*) FROM fleet.facts AS f"

    answers = []
    for projection in (day, again):
        cursor = projection.cursor()
        answers.append(cursor.execute(digest).fetchall())
        cursor.close()
    again.close()

    assert answers[0] == answers[1]
