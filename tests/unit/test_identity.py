"""Who a node is: duplicates, reboots, replacements, two claimants, tombstones."""

from __future__ import annotations

from decimal import Decimal

import pytest

from events.facts import (
    Alive,
    Allocated,
    Cordoned,
    DisplayNameSet,
    FactData,
    LabelsSet,
    Leaving,
    Lost,
    Registered,
    Released,
    Resource,
    Restored,
    Retired,
)
from projections.state import MOST_CLAIMS, PREVIOUS_BOOTS
from tests.support.folding import Life, life
from tests.support.strategies import NODES, placed, said

LOST = Lost(boot_id="b1", silent_s=31, grace_s=30)


def registered(
    boot_id: str = "b1", seq: int = 1, machine_id: str | None = "m1", **data: object
) -> Registered:
    return Registered.model_validate({"boot_id": boot_id, "seq": seq, "machine_id": machine_id, **data})


def test_a_late_report_is_counted_and_changes_nothing() -> None:
    def cpu(seq: int, total: int) -> Registered:
        return registered(seq=seq, resources={"cpu": Resource(total=Decimal(total))})

    node = life(cpu(3, 32), cpu(1, 64), cpu(2, 48), cpu(3, 32))

    assert node.state.resources["cpu"].total == 32
    assert (node.state.duplicates, node.state.reordered) == (1, 2)
    assert node.state.version == 4
    assert node.tables.counters["duplicates"] == 1
    assert node.tables.counters["reordered"] == 2


def test_a_registration_with_the_same_content_folds_to_a_counter() -> None:
    node = life(registered(hostname="h"))
    before = node.state

    node.tell(*[registered(seq=seq, hostname="h") for seq in range(2, 12)])

    assert node.state == before._replace(version=11, agent_seq=11, identical=10)
    assert node.announced() == []


def test_after_a_reboot_the_operators_intent_stays_and_the_clock_runs_anew() -> None:
    node = life(registered(), Alive(boot_id="b1"), Cordoned(owner="ops", reason="disk"))

    node.tell(registered("b2"))

    assert node.announced() == ["identity.rebooted", "state.cordoned"]
    assert [hold.owner for hold in node.state.standing_holds] == ["ops"]
    assert (node.state.incarnation, node.state.liveness) == (1, "pending")
    assert node.state.liveness_since == node.state.boot_at
    assert node.state.previous_boots == ("b1",)


def test_gates_are_closed_again_by_a_reboot_until_the_agent_reports_them_open() -> None:
    node = life(registered(gates=["driver"]), Alive(boot_id="b1"), registered(seq=2))
    assert node.derived.state == "ready"

    node.tell(registered("b2", gates=["driver"]), Alive(boot_id="b2"))

    assert (node.derived.state, node.derived.reasons) == ("pending", ("gate:driver",))
    assert node.derived.conditions == ("warming",)


def test_another_machine_under_the_same_name_starts_clean() -> None:
    node = life(
        registered(resources={"cpu": Resource(total=Decimal(8))}),
        Alive(boot_id="b1"),
        Cordoned(owner="ops", reason="retire"),
        LabelsSet(labels={"tier": "gold"}),
        DisplayNameSet(display_name="old"),
    )

    node.tell(registered("b2", machine_id="m2"))

    assert node.announced()[0] == "identity.replaced"
    assert "intent.changed" in node.announced()
    assert node.state.incarnation == 2
    assert node.derived.intent == "open"
    assert (node.state.effective_labels, node.state.effective_display_name) == ({}, None)
    assert node.state.registered_at == node.state.changed_at
    assert node.state.first_registered_at != node.state.registered_at
    assert node.state.holds, "the hold of the first incarnation is not erased, it does not stand"


def test_a_sticky_hold_outlives_the_machine() -> None:
    node = life(registered(), Cordoned(owner="ops", sticky=True), Cordoned(owner="ci"))

    node.tell(registered("b2", machine_id="m2"))

    assert [hold.owner for hold in node.state.standing_holds] == ["ops"]


def test_allocations_on_a_machine_that_was_replaced_stay_and_are_pointed_out() -> None:
    node = life(registered(), Allocated(workload="w", amounts={"cpu": Decimal(2)}))

    node.tell(registered("b2", machine_id="m2"))
    assert node.derived.conditions == ("allocations_of_previous_incarnation",)
    assert [given.workload for given in node.state.standing_allocations] == ["w"]

    node.tell(Released(workload="w"))
    assert node.derived.conditions == ()


def test_where_a_machine_id_is_missing_a_new_boot_is_a_reboot() -> None:
    node = life(registered(machine_id=None), registered("b2", machine_id="m1"))
    assert (node.state.incarnation, node.state.machine_id) == (1, "m1")

    node.tell(registered("b3", machine_id=None))
    assert (node.state.incarnation, node.state.machine_id) == (1, "m1")

    node.tell(registered("b4", machine_id="m2"))
    assert node.state.incarnation == 2


def test_two_boots_that_report_in_turn_are_a_conflict_and_the_record_does_not_flip() -> None:
    node = life(registered("k1", addresses=["192.0.2.10"]), registered("k2", addresses=["192.0.2.11"]))

    node.tell(registered("k1", seq=2, addresses=["192.0.2.10"]))
    assert node.announced() == ["identity.conflict", "condition.raised"]

    for seq in range(3, 40):
        node.tell(registered("k1", seq=seq), registered("k2", seq=seq, addresses=["192.0.2.11"]))
    assert node.announced(of=node.told - 1) == []
    assert node.state.boot_id == "k2"
    assert node.state.addresses == ("192.0.2.11",)
    assert node.state.conflict == ("k2", "k1")
    assert node.derived.conditions == ("identity_conflict",)


def in_conflict() -> Life:
    return life(registered("k1"), registered("k2"), Alive(boot_id="k2"), registered("k1", seq=2))


def test_a_boot_never_seen_is_one_claimant_more_while_a_conflict_lasts() -> None:
    node = in_conflict()

    for n in range(1, 9):
        node.tell(registered("k3", seq=2 * n), registered("k3", seq=2 * n + 1), registered("k2", seq=n + 1))

    assert node.state.boot_id == "k2"
    assert node.state.conflict == ("k2", "k1", "k3")
    assert [one.cause_seq for one in node.tables.announcements if one.detail == "conflict"] == [4, 5]


@pytest.mark.parametrize(
    "ended",
    [Lost(boot_id="k2", silent_s=31, grace_s=30), Leaving(boot_id="k2", seq=2), Retired()],
)
def test_a_boot_never_seen_takes_over_once_the_one_that_has_the_node_is_gone(ended: FactData) -> None:
    node = in_conflict().tell(registered("k3"), ended)

    node.tell(registered("k3", seq=2))

    assert (node.state.boot_id, node.state.conflict, node.state.claims) == ("k3", (), ())


def test_a_boot_never_seen_takes_over_when_it_alone_answers_three_times() -> None:
    node = in_conflict().tell(registered("k3", seq=1), registered("k3", seq=2), registered("k3", seq=2))
    before = node.state.boot_id

    node.tell(registered("k3", seq=3))

    assert before == "k2"
    assert (node.state.boot_id, node.state.conflict) == ("k3", ())
    assert node.derived.conditions == ()


@pytest.mark.parametrize("clones", [2, 9, 17, 20, 50])
def test_clones_are_found_out_however_many_report_in_turn(clones: int) -> None:
    node = life(*[registered(f"k{n}") for n in range(clones)])

    for seq in range(2, 5):
        node.tell(*[registered(f"k{n}", seq=seq) for n in range(clones)])
    boot_id, told = node.state.boot_id, len(node.tables.announcements)
    for seq in range(5, 9):
        node.tell(*[registered(f"k{n}", seq=seq) for n in range(clones)])

    assert node.derived.conditions == ("identity_conflict",)
    assert node.state.boot_id == boot_id
    assert len(node.tables.announcements) - told <= MOST_CLAIMS


def test_a_report_of_an_earlier_boot_that_was_only_late_is_no_conflict() -> None:
    node = life(registered("b1", seq=5), registered("b2"))

    node.tell(registered("b1", seq=4), registered("b1", seq=5))

    assert node.state.conflict == ()
    assert (node.state.duplicates, node.state.reordered) == (1, 1)


def test_one_boot_id_on_two_machines_is_a_conflict() -> None:
    node = life(registered("b1"), registered("b1", seq=2, machine_id="m2", hostname="other"))

    assert node.state.conflict == ("b1", "b1@m2")
    assert (node.state.machine_id, node.state.hostname) == ("m1", None)


def test_a_fleet_of_clones_takes_bounded_memory() -> None:
    node = life(*[registered(f"k{n}", seq=1) for n in range(40)])

    node.tell(*[registered(f"k{n}", seq=2) for n in range(40)])

    assert len(node.state.previous_boots) == len(node.state.previous_seqs) == PREVIOUS_BOOTS
    assert len(node.state.conflict) <= MOST_CLAIMS + 1


def test_heartbeat_and_registration_end_alike_in_either_order() -> None:
    beat_first = life(Alive(boot_id="b1"))
    assert (beat_first.derived.state, beat_first.derived.conditions) == ("pending", ("unregistered",))
    assert beat_first.state.liveness == "alive"
    assert beat_first.announced() == ["state.pending"]

    beat_first.tell(registered())
    assert beat_first.announced()[:2] == ["identity.registered", "state.ready"]
    registered_first = life(registered(), Alive(boot_id="b1"))

    assert beat_first.derived == registered_first.derived
    assert beat_first.state.incarnation == registered_first.state.incarnation == 1


def test_what_is_decided_before_a_node_registers_holds_for_its_first_incarnation() -> None:
    node = life(DisplayNameSet(display_name="pre-created"), Cordoned(owner="ops"), registered(), Alive())

    assert node.state.effective_display_name == "pre-created"
    assert node.derived.state == "cordoned"


def test_what_changes_nothing_about_an_unknown_node_makes_none() -> None:
    node = life(LOST, Released(workload="w"), Leaving(boot_id="b1", seq=1), Restored())

    assert node.tables.nodes == {}
    assert len(node.tables.facts) == 4


def test_a_retired_node_is_not_raised_by_its_own_agent() -> None:
    node = life(registered(), Alive(boot_id="b1"), Retired(actor="ada", reason="sold"))
    assert node.announced() == ["lifecycle.retired", "state.retired"]
    before = node.state

    node.tell(registered(seq=2), Leaving(boot_id="b1", seq=3), LOST, Alive(boot_id="b1"))

    assert node.state == before._replace(version=7, zombies=2)
    assert node.derived.state == "retired"


def test_a_boot_never_seen_after_a_retirement_is_a_new_incarnation_of_the_node() -> None:
    node = life(
        registered(resources={"cpu": Resource(total=Decimal(8))}),
        Allocated(workload="w", amounts={"cpu": Decimal(2)}),
        Cordoned(owner="ops"),
        Retired(),
    )
    retired_at = node.state.retired_at

    node.tell(registered("b2", resources={"cpu": Resource(total=Decimal(8))}))

    assert node.announced()[:3] == ["identity.replaced", "lifecycle.restored", "state.pending"]
    assert (node.state.incarnation, node.state.lifecycle) == (2, "active")
    assert node.state.retirement is not None
    assert node.state.retirement.at == retired_at, "the tombstone of the first incarnation stays"
    assert node.state.standing_allocations == ()
    assert node.derived.intent == "open"


def test_a_restored_node_has_its_work_again_and_is_pending_until_it_is_heard() -> None:
    node = life(
        registered(resources={"cpu": Resource(total=Decimal(8))}),
        Alive(boot_id="b1"),
        Allocated(workload="w", amounts={"cpu": Decimal(2)}),
        Retired(),
        Allocated(workload="late", amounts={"cpu": Decimal(1)}),
    )
    assert node.tables.allocations == {}

    node.tell(Restored())

    assert node.announced()[:2] == ["lifecycle.restored", "state.pending"]
    assert [given.workload for given in node.state.standing_allocations] == ["w"]
    assert node.state.liveness_since == node.state.changed_at

    node.tell(Alive(boot_id="b1"))
    assert node.derived.state == "ready"


def test_what_a_retirement_closed_stays_closed_when_a_later_one_is_taken_back() -> None:
    node = life(
        registered(), Allocated(workload="w", amounts={"cpu": Decimal(2)}), Retired(), registered("b2")
    )

    node.tell(Retired(), Restored())

    assert node.state.lifecycle == "active"
    assert node.state.standing_allocations == ()


def test_an_address_may_change_without_a_conflict() -> None:
    node = life(registered(addresses=["192.0.2.108"]))

    node.tell(registered(seq=2, addresses=["192.0.2.177"]))

    assert node.announced() == ["address.changed"]
    assert node.tables.announcements[-1].after == '{"addresses":["192.0.2.177"]}'


def test_a_record_that_cannot_be_read_moves_the_version_of_a_known_node_only() -> None:
    subject, _ = said(registered(), NODES[0])
    node = life(registered())
    broken = placed([said(registered(), NODES[0])])[0]._replace(payload=b'{"resources": 7}')

    folded = node.tables.apply(
        [broken._replace(seq=2), broken._replace(seq=3, subject=subject.replace("n1", "n9"))]
    )

    assert node.state.version == 2
    assert [(row.seq, row.node_id, row.reason) for row in folded.quarantined] == [
        (2, "n1", "missing"),
        (3, "n9", "missing"),
    ]
    assert folded.quarantined[0].body == b'{"resources": 7}'
    assert set(node.tables.nodes) == {NODES[0]}
    assert folded.counters["unreadable"] == 2
