"""What people decide and what agents say of themselves: holds, goodbyes, labels, verdicts, the one word."""

from __future__ import annotations

from datetime import timedelta

import pytest

from events.facts import (
    Alive,
    AnnotationsSet,
    Cordoned,
    Drained,
    FactData,
    LabelsSet,
    Leaving,
    Lost,
    MaintenanceEntered,
    MaintenanceLeft,
    Registered,
    Retired,
    Uncordoned,
    Undrained,
)
from projections.derive import STATES
from tests.support.folding import life
from tests.support.strategies import NOON

HERE = Registered(boot_id="b1", seq=1)
ALIVE = Alive(boot_id="b1")
LOST = Lost(boot_id="b1", silent_s=31.25, grace_s=30)


def test_each_owner_holds_a_node_on_its_own() -> None:
    node = life(HERE, ALIVE, Cordoned(owner="ops"), Cordoned(owner="hw-team", reason="segfaults"))

    node.tell(Uncordoned(owner="ops"))
    assert node.derived.state == "cordoned"
    assert node.derived.reasons == ("cordoned:hw-team",)
    assert node.announced() == ["intent.changed"]

    node.tell(Uncordoned())
    assert node.derived.state == "ready"
    assert node.announced() == ["state.ready", "intent.changed"]


def test_the_end_of_one_kind_of_hold_ends_no_other() -> None:
    node = life(HERE, ALIVE, Cordoned(owner="ops"), Drained(owner="ops"), MaintenanceEntered(owner="ops"))
    assert node.derived.intent == "maintenance"

    node.tell(MaintenanceLeft())
    assert node.derived.intent == "draining"
    node.tell(Undrained())
    assert node.derived.intent == "cordoned"


def test_a_hold_said_again_changes_nothing_and_said_otherwise_replaces_itself() -> None:
    node = life(HERE, Cordoned(owner="ops", reason="disk"))
    placed_at = node.state.holds[0].at

    node.tell(Cordoned(owner="ops", reason="disk"))
    assert node.announced() == []
    assert node.state.holds[0].at == placed_at

    node.tell(Cordoned(owner="ops", reason="disk", until=NOON))
    assert [hold.until for hold in node.state.holds] == [NOON]
    assert node.announced() == ["intent.changed"]


def test_a_hold_ends_by_a_fact_and_not_by_a_clock() -> None:
    node = life(HERE, ALIVE, MaintenanceEntered(owner="ops", until=NOON))

    node.tell(ALIVE, after=timedelta(days=30))

    assert node.derived.state == "maintenance"


def test_a_goodbye_keeps_work_away_until_the_agent_is_back() -> None:
    node = life(HERE, ALIVE)

    node.tell(Leaving(boot_id="b1", seq=2, cause="shutdown"))
    assert (node.derived.state, node.derived.schedulable) == ("ready", False)
    assert node.derived.reasons == ("leaving:shutdown",)
    assert node.announced() == ["schedulable.changed", "condition.raised"]
    assert node.state.holds == ()
    assert node.tables.node_history[-1].reason == "shutdown"

    node.tell(Registered(boot_id="b2", seq=1), Alive(boot_id="b2"))
    assert node.state.leaving is None
    assert node.derived.schedulable


def test_the_same_boot_may_come_back_after_a_goodbye() -> None:
    node = life(HERE, ALIVE, Leaving(boot_id="b1", seq=2))
    inventory_at = node.state.inventory_at

    node.tell(Registered(boot_id="b1", seq=3))

    assert node.state.leaving is None
    assert node.state.identical == 0
    assert node.state.inventory_at == inventory_at


def test_a_goodbye_of_another_boot_changes_nothing() -> None:
    node = life(HERE, Registered(boot_id="b2", seq=1), Leaving(boot_id="b1", seq=9))

    assert node.state.leaving is None


def test_a_report_touches_no_declared_label() -> None:
    node = life(HERE, LabelsSet(labels={"ops/role": "primary", "env": "prod"}))

    node.tell(Registered(boot_id="b1", seq=2, labels={"role": "replica", "env": "dev"}))
    assert node.state.effective_labels == {"ops/role": "primary", "role": "replica", "env": "prod"}
    assert node.announced() == ["labels.changed", "labels.overridden"]
    assert node.tables.announcements[-1].after == '{"env":{"declared":"prod","reported":"dev"}}'

    node.tell(LabelsSet(labels={"env": None}))
    assert node.state.effective_labels["env"] == "dev"
    assert node.tables.announcements[-1].before == '{"env":"prod"}'
    assert node.tables.announcements[-1].after == '{"env":"dev"}'


def test_an_override_is_announced_once_for_each_value_that_is_reported() -> None:
    node = life(HERE, LabelsSet(labels={"gpu": "true"}))
    said = []

    for seq, gpu in enumerate(("true", "false", "false", "none"), start=2):
        node.tell(Registered(boot_id="b1", seq=seq, labels={"gpu": gpu}, hostname=f"h{seq}"))
        said.append([one for one in node.announced() if one.startswith("labels")])

    assert said == [[], ["labels.overridden"], [], ["labels.overridden"]]
    assert node.state.effective_labels == {"gpu": "true"}


def test_annotations_are_declared_and_taken_away() -> None:
    node = life(HERE, AnnotationsSet(annotations={"ticket": "42", "rack": "7"}))

    node.tell(AnnotationsSet(annotations={"ticket": None}))

    assert node.state.effective_annotations == {"rack": "7"}


def test_a_verdict_on_another_boot_changes_nothing() -> None:
    node = life(HERE, ALIVE, Registered(boot_id="b2", seq=1))

    node.tell(LOST)

    assert node.state.liveness == "pending"
    assert node.announced() == []


def test_a_verdict_repeated_keeps_the_time_of_the_first() -> None:
    node = life(HERE, ALIVE, LOST)
    since = node.state.liveness_since

    node.tell(LOST)

    assert node.state.liveness_since == since
    assert node.tables.node_history[-1].reason == "silent for 31.25 s, allowed are 30 s"


def test_a_node_whose_dialect_has_no_heartbeat_is_ready_without_one() -> None:
    node = life(Registered(boot_id="b1", seq=1, dialect={"name": "fuse", "monitored": False}))

    assert node.state.liveness == "unmonitored"
    assert node.derived.state == "ready"


WORDS: list[tuple[str, tuple[FactData, ...]]] = [
    ("pending", (HERE,)),
    ("ready", (HERE, ALIVE)),
    ("cordoned", (HERE, Cordoned(owner="ops"))),
    ("draining", (HERE, Cordoned(owner="ops"), Drained(owner="ops"))),
    ("maintenance", (HERE, Drained(owner="ops"), MaintenanceEntered(owner="ops"))),
    ("lost", (HERE, MaintenanceEntered(owner="ops"), LOST)),
    ("retired", (HERE, MaintenanceEntered(owner="ops"), LOST, Retired())),
]


@pytest.mark.parametrize(("word", "told"), WORDS, ids=[word for word, _ in WORDS])
def test_the_gravest_thing_gives_the_word(word: str, told: tuple[FactData, ...]) -> None:
    node = life(*told)

    assert node.derived.state == word
    assert node.derived.schedulable == (word == "ready")
    assert bool(node.derived.reasons) == (word != "ready")


def test_the_words_are_ordered_as_they_win() -> None:
    assert [word for word, _ in reversed(WORDS)][:5] == list(STATES[:5])


def test_every_band_names_its_cause_and_who_was_it() -> None:
    node = life(HERE, ALIVE, Cordoned(owner="ops", actor="ada", reason="disk"))

    band = node.tables.node_history[-1]

    assert (band.cause_seq, band.cause_type) == (3, "fleetfold.operator.cordoned.v1")
    assert (band.actor, band.reason) == ("ada", "disk")
    assert [band.actor for band in node.tables.node_history] == ["agent", "liveness", "ada"]


def test_a_clock_of_the_broker_that_steps_back_makes_no_band_begin_earlier() -> None:
    node = life(HERE, ALIVE)
    last = node.tables.node_history[-1].valid_from

    node.tell(LOST, after=timedelta(hours=-1))

    assert node.tables.node_history[-1].state == "lost"
    assert node.tables.node_history[-1].valid_from == last
    assert node.state.liveness_since == last
