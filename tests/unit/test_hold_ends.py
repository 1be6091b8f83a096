"""Which holds of a node have ended, and the facts that say so."""

from __future__ import annotations

from datetime import timedelta

from events.facts import Cordoned, Drained, MaintenanceEntered, Registered
from projections.hold_ends import AT_ONCE, ended, next_end
from tests.support.folding import life
from tests.support.strategies import NOON

HERE = Registered(boot_id="b1", seq=1)
SECOND = timedelta(seconds=1)


def test_a_hold_has_ended_at_its_very_end_and_one_without_an_end_never() -> None:
    node = life(HERE, Cordoned(owner="ops", until=NOON, actor="ada", reason="disk"), Drained(owner="ops"))

    assert next_end(node.state) == NOON
    assert ended(node.state, now=NOON - SECOND) == []
    (release,) = ended(node.state, now=NOON)
    assert release.fact.reason == "its end at 2026-05-01T12:00:00Z has passed (placed by ada: disk)"

    node.tell(release.fact)
    assert [hold.kind for hold in node.state.standing_holds] == ["draining"]
    assert next_end(node.state) is None


def test_the_first_end_counts_and_each_hold_ends_on_its_own() -> None:
    node = life(
        HERE,
        MaintenanceEntered(owner="ops", until=NOON + SECOND),
        MaintenanceEntered(owner="hw-team", until=NOON),
    )

    assert next_end(node.state) == NOON
    assert [one.fact.owner for one in ended(node.state, now=NOON)] == ["hw-team"]
    assert [one.fact.owner for one in ended(node.state, now=NOON + SECOND)] == ["ops", "hw-team"]


def test_the_same_hold_ends_under_the_same_id_and_one_placed_later_under_another() -> None:
    first = life(HERE, Cordoned(owner="ops", until=NOON))
    again = life(HERE, Cordoned(owner="ops", until=NOON))
    later = life(HERE, HERE, Cordoned(owner="ops", until=NOON))

    ids = [ended(node.state, now=NOON)[0].event_id for node in (first, again, later)]

    assert ids[0] == ids[1] != ids[2]


def test_holds_of_an_earlier_machine_end_with_it() -> None:
    node = life(
        Registered(boot_id="b1", seq=1, machine_id="m1"),
        Cordoned(owner="ops", until=NOON),
        Cordoned(owner="hw-team", until=NOON, sticky=True),
        Registered(boot_id="b2", seq=1, machine_id="m2"),
    )

    assert [one.fact.owner for one in ended(node.state, now=NOON)] == ["hw-team"]


def test_a_hold_ends_however_long_its_reason_is() -> None:
    node = life(HERE, Cordoned(owner="ops", until=NOON, reason="r" * 30_000, actor="a" * 30_000))

    (release,) = ended(node.state, now=NOON)

    assert len(release.fact.reason) < 500
    assert release.fact.reason.endswith("rrr…)")


def test_very_many_holds_of_one_node_end_in_turns() -> None:
    node = life(HERE, *(Cordoned(owner=f"o{number}", until=NOON) for number in range(AT_ONCE + 1)))

    first = ended(node.state, now=NOON)
    for one in first:
        node.tell(one.fact)

    assert len(first) == AT_ONCE
    assert [one.fact.owner for one in ended(node.state, now=NOON)] == [f"o{AT_ONCE}"]
