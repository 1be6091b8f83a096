"""The declarations of the streams."""

from __future__ import annotations

from events.ids import NodeId, Zone
from events.stream_admin import drift
from events.streams import ALL, BEATS, CHANGES, FLEET, config
from events.subjects import (
    OWNERS,
    beat_subject,
    change_subject,
    fact_subject,
    node_facts_filter,
    zone_facts_filter,
    zone_subject,
)

N1 = NodeId("n1")


def _matches(pattern: str, subject: str) -> bool:
    wanted, found = pattern.split("."), subject.split(".")
    return len(wanted) == len(found) and all(w in ("*", f) for w, f in zip(wanted, found, strict=True))


def test_each_subject_of_ours_belongs_to_exactly_one_stream() -> None:
    subjects = {
        **{fact_subject(owner, N1, "verb"): FLEET.name for owner in OWNERS if owner != "zone"},
        zone_subject(Zone("az-1"), "silent"): FLEET.name,
        beat_subject(N1): BEATS.name,
        change_subject(N1, "state", "lost"): CHANGES.name,
    }

    for subject, stream in subjects.items():
        assert [spec.name for spec in ALL if any(_matches(p, subject) for p in spec.subjects)] == [stream]


def test_a_nodes_filter_never_matches_a_zone_of_the_same_name() -> None:
    about_node, about_zone = fact_subject("agent", N1, "registered"), zone_subject(Zone("n1"), "silent")

    assert _matches(node_facts_filter(N1), about_node)
    assert not _matches(node_facts_filter(N1), about_zone)
    assert _matches(zone_facts_filter(Zone("n1")), about_zone)
    assert not _matches(zone_facts_filter(Zone("n1")), about_node)


def test_facts_are_kept_for_ever_and_cannot_be_deleted() -> None:
    declared = config(FLEET)

    assert declared["max_age"] == 0
    assert declared["deny_delete"]
    assert declared["deny_purge"]
    assert declared["discard"] == "new"


def test_what_the_broker_leaves_out_counts_as_false_or_zero() -> None:
    declared = config(BEATS)
    found = {name: value for name, value in declared.items() if value}

    assert drift(found, declared) == {}


def test_drift_names_each_declared_member_that_differs_and_no_other() -> None:
    declared = config(FLEET)
    subjects = list(reversed(declared["subjects"]))
    found = {**declared, "subjects": subjects, "max_msg_size": 1, "metadata": {"a": "b"}}

    assert drift(found, declared) == {"max_msg_size": (1, 65536)}
