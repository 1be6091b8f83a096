"""Selections, ends and labels as people write them at the command line."""

from __future__ import annotations

from datetime import UTC, datetime

from fleetfold.cli.decision_words import changes_of, end_of, selector_of

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)


def test_a_selection_is_names_and_values() -> None:
    assert selector_of(["zone=z1", "label=tier=gold", "label=env=a=b", "match=cn12[1-5]"]) == {
        "zone": "z1",
        "label": ["tier=gold", "env=a=b"],
        "match": "cn12[1-5]",
    }
    assert selector_of(["all"]) == {"all": True}
    assert selector_of([]) == {}


def test_an_end_is_a_length_from_now_or_a_time() -> None:
    assert end_of("90s", now=NOON) == "2026-05-01T12:01:30+00:00"
    assert end_of("30m", now=NOON) == "2026-05-01T12:30:00+00:00"
    assert end_of("2h", now=NOON) == "2026-05-01T14:00:00+00:00"
    assert end_of("7d", now=NOON) == end_of("1w", now=NOON) == "2026-05-08T12:00:00+00:00"
    assert end_of("2026-05-01T12:00:00Z") == "2026-05-01T12:00:00+00:00"


def test_labels_are_declared_and_taken_away() -> None:
    assert changes_of(["tier=gold", "url=a=b", "empty=", "old-", "x-y-"]) == {
        "tier": "gold",
        "url": "a=b",
        "empty": "",
        "old": None,
        "x-y": None,
    }
