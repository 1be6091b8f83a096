"""Bands of labels: the effective value, who says it, and since when."""

from __future__ import annotations

from events.facts import LabelsSet, Registered, Retired
from tests.support.folding import Life, life


def _bands(node: Life) -> list[tuple[str, str | None, str | None, int]]:
    return [(band.key, band.value, band.owner, band.cause_seq) for band in node.tables.label_history]


def test_a_label_begins_with_the_report_and_ends_with_one_that_leaves_it_out() -> None:
    node = life(
        Registered(boot_id="b1", seq=1, labels={"rack": "r7", "env": "prod"}),
        Registered(boot_id="b1", seq=2, labels={"env": "test"}),
        Registered(boot_id="b1", seq=3, labels={"env": "test"}, hostname="h1"),
    )

    assert _bands(node) == [
        ("env", "prod", "agent", 1),
        ("rack", "r7", "agent", 1),
        ("env", "test", "agent", 2),
        ("rack", None, None, 2),
    ]


def test_a_declared_label_wins_and_gives_the_reported_one_back_when_it_is_taken_away() -> None:
    node = life(
        Registered(boot_id="b1", seq=1, labels={"env": "prod"}),
        LabelsSet(labels={"env": "test", "tier": "gold"}),
        Registered(boot_id="b1", seq=2, labels={"env": "other"}),
        LabelsSet(labels={"env": None}),
    )

    assert _bands(node) == [
        ("env", "prod", "agent", 1),
        ("env", "test", "operator", 2),
        ("tier", "gold", "operator", 2),
        ("env", "other", "agent", 4),
    ]


def test_the_same_value_from_another_owner_is_a_band_of_its_own() -> None:
    node = life(
        Registered(boot_id="b1", seq=1, labels={"env": "prod"}),
        LabelsSet(labels={"env": "prod"}),
    )

    assert _bands(node) == [("env", "prod", "agent", 1), ("env", "prod", "operator", 2)]


def test_what_was_declared_of_a_machine_ends_with_it() -> None:
    node = life(
        Registered(boot_id="b1", seq=1, machine_id="m1", labels={"env": "prod"}),
        LabelsSet(labels={"tier": "gold"}),
        Registered(boot_id="b2", seq=1, machine_id="m2", labels={"env": "prod"}),
    )

    assert _bands(node)[-1] == ("tier", None, None, 3)
    assert [band for band in _bands(node) if band[0] == "env"] == [("env", "prod", "agent", 1)]


def test_a_retired_node_keeps_its_labels() -> None:
    node = life(Registered(boot_id="b1", seq=1, labels={"env": "prod"}), Retired())

    assert _bands(node) == [("env", "prod", "agent", 1)]
