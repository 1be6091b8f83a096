"""Why a node is what it is, and what would change it: in words, from a state and its evidence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from events.facts import (
    Alive,
    Cordoned,
    Drained,
    FactData,
    Leaving,
    Lost,
    Registered,
    Restored,
    Retired,
)
from events.ids import NodeId
from projections.derive import derive
from projections.evidence import Evidence, Judged, ZoneSilence
from projections.evolve import evolve
from projections.explain import Explanation, explain
from projections.handles import Handle
from projections.heartbeats import Heartbeat
from projections.judging import Outlook
from projections.prospects import Prospect
from projections.situations import BY_WORD
from projections.state import NodeState
from tests.support.folding import decoded, life
from tests.support.strategies import NODES, NOON, Log, fact_logs, placed, said

N1 = NODES[0]
NOW = NOON + timedelta(seconds=60)
HERE = Registered(boot_id="b1", seq=1, zone="z1")
ALIVE = Alive(boot_id="b1", rule="it beat")
LOST = Lost(boot_id="b1", silent_s=31.24, grace_s=30.0)
WELL = Outlook(False, NOW + timedelta(seconds=27), 3.2, 30.0, "watching", "", 10.0)


def beat(**changes: Any) -> Heartbeat:  # noqa: ANN401
    known = Heartbeat(
        node_id=N1, boot_id="b1", last_heartbeat_at=NOW - timedelta(seconds=3.2), last_seq=7, beat_seq=9,
        missed=0, duplicates=0, reordered=0, other_boot=0, skew_ms=None, skewed_since=None, inventory=None,
        previous_boots=(), used={},
    )  # fmt: skip
    return known._replace(**changes)


def why(
    *told: FactData,
    shared: tuple[str, ...] = (),
    sharers: Mapping[Handle, Sequence[NodeId]] | None = None,
    mode: str = "watching",
    **known: Any,  # noqa: ANN401
) -> Explanation:
    """Explain a node of which these facts were told, a second apart, a minute after noon."""
    state = life(*told).state
    evidence = Evidence(
        state=state, derived=derive(state), now=NOW, mode=mode, shared=shared, sharers=sharers or {}, **known
    )
    return explain(evidence)


def outcomes(explanation: Explanation) -> dict[str, str]:
    return {prospect.event: prospect.outcome for prospect in explanation.would_change}


def test_a_ready_node_says_when_it_was_heard_and_when_silence_would_make_it_lost() -> None:
    found = why(
        HERE, ALIVE, beat=beat(missed=2, duplicates=1), outlook=WELL, judged=Judged("it beat", *[None] * 5)
    )

    assert found.summary == "ready: last heartbeat 12:00:56Z, 3.2 s ago"
    assert found.because == (
        "judged alive at 12:00:02Z by fact 2: it beat",
        "last heartbeat 12:00:56Z, 3.2 s ago: number 7 of boot b1",
        "of its heartbeats, 2 never came and 1 came twice",
        "a heartbeat is expected every 10 s, and after 30 s of watched silence it is lost",
    )
    (silence,) = found.would_change
    assert silence == Prospect(
        "no heartbeat comes", "it is called lost: 12:01:27Z, in 27 s", "lost", NOW + timedelta(seconds=27)
    )


def test_a_suspect_node_says_so_first() -> None:
    late = WELL._replace(is_suspect=True, silent_s=17.4, expected_lost_at=NOW + timedelta(seconds=12))

    found = why(HERE, ALIVE, beat=beat(), outlook=late)

    assert found.summary.endswith("and suspect: silent for 17 s, lost at 12:01:12Z unless a heartbeat comes")


def test_a_lost_node_names_its_silence_and_that_a_heartbeat_brings_it_back() -> None:
    found = why(HERE, ALIVE, LOST, beat=beat(), judged=Judged("silent", None, 9, 31.24, 30.0, None))

    assert found.summary == "lost since 12:00:03Z, 57 s ago: it was silent for 31.2 s, allowed are 30 s"
    assert outcomes(found) == {
        "a heartbeat of boot b1": "it becomes ready",
        "to register again under boot b1": "nothing: only a heartbeat counts",
        "a registration of a new boot": "pending: no verdict was made about that boot yet",
    }


def test_a_lost_node_that_is_held_comes_back_held() -> None:
    found = why(HERE, ALIVE, Cordoned(owner="ops", actor="ada", reason="disk"), LOST)

    assert outcomes(found)["a heartbeat of boot b1"] == "it becomes cordoned, not schedulable: cordoned:ops"
    assert outcomes(found)["uncordon by owner ops"] == "it stays lost, not schedulable: lost"
    assert "cordoned since 12:00:03Z by ops (ada): disk" in found.because


def test_each_hold_says_what_is_left_when_it_ends() -> None:
    until = NOW + timedelta(minutes=5)
    found = why(
        HERE, ALIVE, Cordoned(owner="ops"), Drained(owner="net", reason="switch", until=until), beat=beat()
    )

    assert found.summary == "draining by net: switch; it is alive"
    assert outcomes(found) == {
        "silence, as things are": "nothing: the evaluator is watching",
        "uncordon by owner ops": "it stays draining, not schedulable: draining:net",
        "undrain by owner net, or the end of its time: 12:06:00Z, in 5 min": (
            "it becomes cordoned, not schedulable: cordoned:ops"
        ),
    }


def test_a_node_that_never_beat_waits_for_its_first_heartbeat() -> None:
    found = why(HERE, outlook=WELL._replace(expected_lost_at=NOW + timedelta(seconds=9)))

    assert found.summary == "pending: no heartbeat of boot b1 has come since it registered"
    assert outcomes(found) == {
        "no heartbeat comes": "it is called lost: 12:01:09Z, in 9 s",
        "a heartbeat of boot b1": "it becomes ready",
    }


def test_a_node_that_never_registered_waits_for_its_registration() -> None:
    found = why(ALIVE, beat=beat())

    assert found.summary == "pending: it beats and never registered"
    assert outcomes(found)["its registration"] == "it becomes ready"
    assert [(one.name, one.about) for one in found.conditions] == [
        ("unregistered", "it was spoken of, and never registered")
    ]


def test_gates_that_are_shut_are_what_it_waits_for() -> None:
    found = why(HERE.model_copy(update={"gates": ("driver", "mesh")}), ALIVE, beat=beat())

    assert found.summary == "pending: it waits for driver and mesh"
    assert outcomes(found)["a registration that no longer names driver and mesh"] == "it becomes ready"


def test_heartbeats_of_a_boot_that_is_not_registered_count_for_nothing() -> None:
    found = why(HERE, beat=beat(boot_id="b9"))

    told = "the heartbeats are of boot b9, but b1 is registered: they count for nothing until their boot"
    assert f"{told} registers" in found.because
    assert "a registration under boot b9, which is the one that beats" in outcomes(found)


def test_a_node_whose_dialect_does_not_beat_is_never_judged() -> None:
    found = why(HERE.model_copy(update={"dialect": {"name": "stratum", "monitored": False}}))

    assert found.summary == "ready: stratum sends no heartbeats, so nobody judges its silence"
    assert found.because == ("no verdict is ever made: it sends no heartbeats",)
    assert found.would_change == ()


def test_a_retired_node_shows_its_tombstone_and_what_would_end_it() -> None:
    found = why(HERE, ALIVE, Retired(actor="ada", reason="sold"), beat=beat())

    assert found.summary == "retired: ada took it out of the fleet at 12:00:03Z: sold"
    assert outcomes(found) == {
        "an operator restores it": "it becomes pending, not schedulable: pending",
        "a registration of a boot that was never seen": (
            "another machine takes the id: incarnation 2, pending until it beats"
        ),
        "a heartbeat or a registration of the retired machine": "nothing: its agent is told that it is gone",
    }


def test_a_zone_that_is_silent_holds_the_verdict_and_says_until_when() -> None:
    held_until = NOW + timedelta(minutes=4)
    zone = ZoneSilence("z1", True, NOW - timedelta(seconds=20), 12, 20, held_until, "half", 5)
    late = WELL._replace(is_suspect=True, expected_lost_at=held_until, reason="its whole zone is silent")

    found = why(HERE, ALIVE, beat=beat(), outlook=late, zone=zone)

    told = "zone z1 fell silent at 12:00:40Z (12 of 20 nodes): single verdicts are held until 12:05:00Z"
    assert f"{told}, in 4 min" in found.because
    assert outcomes(found)["no heartbeat comes"] == (
        "it is called lost: 12:05:00Z, in 4 min, since zone z1 is silent as a whole"
    )


def test_an_evaluator_that_withholds_verdicts_says_why() -> None:
    away = WELL._replace(mode="degraded", reason="the broker has not answered for 4.0 s")

    found = why(HERE, ALIVE, beat=beat(), outlook=away, mode="degraded", mode_reason="the broker is away")
    off = why(HERE, ALIVE, beat=beat(), mode="off", mode_reason="the evaluator does not run")

    assert "the evaluator is degraded: the broker is away" in found.because
    assert outcomes(found)["no heartbeat comes"].endswith(
        "once verdicts are made again (the broker has not answered for 4.0 s)"
    )
    assert outcomes(off) == {
        "silence, as things are": "nothing: the evaluator is off (the evaluator does not run)"
    }


def test_an_identity_conflict_says_who_and_how_it_ends() -> None:
    other = HERE.model_copy(update={"boot_id": "b2"})
    found = why(HERE, other, HERE.model_copy(update={"seq": 2}), beat=beat(boot_id="b2"))

    assert [(one.name, one.about) for one in found.conditions] == [
        ("identity_conflict", "b2 and b1 report under this id in turn")
    ]
    assert "b2 and b1 report under this id in turn; the record stays with b2" in found.because
    over = "that boot has the node, and the conflict is over"
    assert outcomes(found)["boot b2 is lost or says goodbye, and a boot never seen registers"] == over


def test_conditions_say_what_they_are_about() -> None:
    found = why(
        HERE.model_copy(update={"addresses": ("10.0.0.7",), "hostname": "h1"}),
        ALIVE,
        Leaving(boot_id="b1", seq=2, cause="reboot"),
        beat=beat(skew_ms=-3_600_000, skewed_since=NOW),
        shared=("duplicate_address", "name_shared"),
        sharers={
            ("duplicate_address", "10.0.0.7"): [NodeId("n2"), NodeId("n3")],
            ("name_shared", "h1"): [NodeId("n2")],
        },
    )

    assert {one.name: one.about for one in found.conditions} == {
        "leaving": "it said goodbye: reboot",
        "duplicate_address": "the address 10.0.0.7 is also that of n2 and n3",
        "name_shared": "the name h1 is also that of n2",
        "clock_skew": "its clock was 60 min behind the broker's at its last heartbeat",
    }
    assert found.summary.endswith("; it takes no new work: leaving:reboot")


def _states(log: Log) -> list[NodeState]:
    state, found = None, []
    for record in log:
        fact = decoded(record)
        if fact is not None:
            state = evolve(state, fact)
            if state is not None:
                found.append(state)
    return found


@settings(max_examples=60)
@given(fact_logs(nodes=(N1,)), st.none() | st.just(WELL), st.none() | st.sampled_from(["b1", "b3"]))
def test_every_state_has_an_explanation(log: Log, outlook: Outlook | None, boot_id: str | None) -> None:
    for state in _states(log):
        derived = derive(state)
        last = beat(boot_id=boot_id) if boot_id else None
        found = explain(
            Evidence(state=state, derived=derived, now=NOW, beat=last, outlook=outlook, sharers={})
        )

        assert found.summary.startswith(derived.state)
        assert [one.name for one in found.conditions] == list(derived.conditions)
        assert all(found.because)
        assert all(prospect.event and prospect.outcome for prospect in found.would_change)


_COMES_TRUE: dict[str, FactData] = {
    "a heartbeat of boot ": Alive(boot_id=""),
    "no heartbeat comes": Lost(silent_s=31.0, grace_s=30.0),
    "an operator restores it": Restored(),
}


@settings(max_examples=80)
@given(fact_logs(nodes=(N1,)))
def test_what_is_promised_of_an_event_is_what_the_fold_makes_of_it(log: Log) -> None:
    for state in _states(log):
        evidence = Evidence(state=state, derived=derive(state), now=NOW, outlook=WELL, sharers={})
        for prospect in explain(evidence).would_change:
            data = next((one for begin, one in _COMES_TRUE.items() if prospect.event.startswith(begin)), None)
            if data is not None:
                fact = decoded(placed([said(data, N1)])[0]._replace(seq=state.version + 1))
                assert fact is not None
                after = evolve(state, fact)
                assert after is not None
                assert derive(after).state == prospect.state


@settings(max_examples=80)
@given(fact_logs(nodes=(N1,)))
def test_what_is_promised_of_the_end_of_a_hold_is_what_the_fold_makes_of_it(log: Log) -> None:
    for state in _states(log):
        if state.retired_at is not None:
            continue
        evidence = Evidence(state=state, derived=derive(state), now=NOW, sharers={})
        promised = {one.event.partition(",")[0]: one.state for one in explain(evidence).would_change}
        for hold in state.standing_holds:
            kind = BY_WORD[hold.kind]
            fact = decoded(
                placed([said(kind.ended(owner=hold.owner), N1)])[0]._replace(seq=state.version + 1)
            )
            assert fact is not None
            after = evolve(state, fact)
            assert after is not None
            assert derive(after).state == promised[f"{kind.end} by owner {hold.owner}"]
