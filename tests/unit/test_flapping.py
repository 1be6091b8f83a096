"""A node that flips too often: told once that it flaps and once that it has settled, and all of it kept."""

from __future__ import annotations

from datetime import timedelta

import orjson
from hypothesis import given, settings
from hypothesis import strategies as st

from events.facts import Alive, Cordoned, FactData, Lost, Registered, Restored, Retired, Settled
from projections.derive import FLAPPING, derive
from projections.flapping import FLIPS, QUIET, WINDOW
from projections.rows import AnnouncementRow
from tests.support.folding import Tables, folded
from tests.support.strategies import NODES, Log, placed, said

N1 = NODES[0]
HALF_A_MINUTE = timedelta(seconds=15)


def lost() -> Lost:
    return Lost(boot_id="b1", silent_s=31, grace_s=30)


def flipping(count: int, *, every: timedelta = HALF_A_MINUTE) -> list[tuple[FactData, timedelta]]:
    """A machine that registers, is alive and flips so often; each fact and how long after the last."""
    facts: list[FactData] = [lost() if n % 2 == 0 else Alive(boot_id="b1") for n in range(count)]
    begin: list[tuple[FactData, timedelta]] = [
        (Registered(boot_id="b1", seq=1), timedelta(seconds=1)),
        (Alive(boot_id="b1"), timedelta(seconds=1)),
    ]
    return begin + [(fact, every) for fact in facts]


def log_of(facts: list[tuple[FactData, timedelta]]) -> Log:
    at, times = timedelta(0), []
    for _, after in facts:
        at += after
        times.append(at)
    return placed([said(fact, N1) for fact, _ in facts], at=times)


def told(tables: Tables) -> list[str]:
    return [f"{row.kind}.{row.detail}" for row in tables.announcements if not row.damped]


def states(rows: list[AnnouncementRow]) -> list[str]:
    return [row.detail for row in rows if row.kind == "state"]


def conditions(tables: Tables) -> tuple[str, ...]:
    state = tables.state(N1)
    assert state is not None
    return derive(state).conditions


def settled(tables: Tables) -> Settled:
    state = tables.state(N1)
    assert state is not None
    assert state.flips is not None
    return Settled(last_flip_seq=state.flips.last_seq, quiet_s=300)


def test_forty_cycles_are_told_in_few_words_and_kept_whole() -> None:
    facts = flipping(80)
    tables = folded(log_of(facts))

    after = folded(log_of([*facts, (settled(tables), QUIET)]))

    assert told(after) == [
        "identity.registered",
        "state.pending",
        "state.ready",
        *["state.lost", "state.ready"] * (FLIPS // 2),
        "state.flapping",
        "state.settled",
    ]
    assert len(told(after)) <= 10
    assert len(after.node_history) == 2 + 80
    assert len(states(after.announcements)) == 2 + 80 + 2


def test_the_condition_is_raised_and_cleared_once() -> None:
    assert FLAPPING not in conditions(folded(log_of(flipping(FLIPS))))
    tables = folded(log_of(flipping(FLIPS + 3)))
    assert FLAPPING in conditions(tables)

    after = folded(log_of([*flipping(FLIPS + 3), (settled(tables), QUIET)]))

    assert FLAPPING not in conditions(after)
    begun, ended = [row for row in after.announcements if row.detail in ("flapping", "settled")]
    assert orjson.loads(begun.before)["flapping_since"] is None
    assert orjson.loads(begun.after)["state"] == "lost"
    assert orjson.loads(ended.after) == {**orjson.loads(ended.before), "flapping_since": None}


def test_flips_that_are_far_apart_are_all_told() -> None:
    tables = folded(log_of(flipping(40, every=WINDOW / FLIPS)))

    assert states(tables.announcements).count("flapping") == 0
    assert not [row for row in tables.announcements if row.damped]


def test_a_verdict_about_an_earlier_flip_settles_nothing() -> None:
    facts = flipping(FLIPS + 1)
    early = settled(folded(log_of(facts)))

    tables = folded(log_of([*facts, (Alive(boot_id="b1"), HALF_A_MINUTE), (early, QUIET)]))

    assert FLAPPING in conditions(tables)
    assert "state.settled" not in told(tables)


def test_a_flip_after_a_quiet_time_is_told_although_nobody_said_that_it_had_settled() -> None:
    tables = folded(log_of([*flipping(FLIPS + 1), (Alive(boot_id="b1"), QUIET)]))

    assert told(tables)[-3:] == ["state.flapping", "state.settled", "state.ready"]
    assert FLAPPING not in conditions(tables)


def test_what_people_decide_about_a_flapping_node_is_told() -> None:
    back = (Alive(boot_id="b1"), HALF_A_MINUTE)

    tables = folded(log_of([*flipping(FLIPS + 1), back, (Cordoned(owner="ops"), HALF_A_MINUTE)]))

    assert told(tables)[-3:] == ["state.flapping", "state.cordoned", "intent.changed"]


def test_a_tombstone_ends_it() -> None:
    facts = [*flipping(FLIPS + 2), (Retired(), HALF_A_MINUTE)]

    tables = folded(log_of(facts))
    again = folded(log_of([*facts, (Restored(), HALF_A_MINUTE)]))

    assert told(tables)[-4:] == ["state.flapping", "state.settled", "lifecycle.retired", "state.retired"]
    assert FLAPPING not in conditions(again)


def test_another_machine_under_the_name_begins_steady() -> None:
    first = [(Registered(boot_id="b1", seq=1, machine_id="m1"), HALF_A_MINUTE), *flipping(FLIPS + 1)[1:]]

    tables = folded(log_of([*first, (Registered(boot_id="b2", seq=1, machine_id="m2"), HALF_A_MINUTE)]))

    assert "state.settled" in told(tables)
    assert told(tables)[-1] == "state.pending"


_flips = st.sampled_from(["lost", "alive", "settled", "stale", "booted"])


@settings(max_examples=60)
@given(st.lists(st.tuples(_flips, st.sampled_from([1, 20, 100, 299, 300, 601])), max_size=30), st.data())
def test_flapping_and_settled_alternate_however_the_log_is_cut(
    steps: list[tuple[str, int]], data: st.DataObject
) -> None:
    facts: list[tuple[FactData, timedelta]] = [(Registered(boot_id="b1", seq=1), timedelta(seconds=1))]
    boot = 1
    for word, after_s in steps:
        if word == "booted":
            boot += 1
        fact: FactData = {
            "lost": Lost(boot_id=f"b{boot}", silent_s=31, grace_s=30),
            "alive": Alive(boot_id=f"b{boot}"),
            "settled": Settled(last_flip_seq=len(facts), quiet_s=300),
            "stale": Settled(last_flip_seq=max(1, len(facts) - 3), quiet_s=300),
            "booted": Registered(boot_id=f"b{boot}", seq=1),
        }[word]
        facts.append((fact, timedelta(seconds=after_s)))
    log = log_of(facts)
    cuts = data.draw(st.sets(st.integers(0, len(log))))

    tables = folded(log, cuts=cuts)

    assert tables == folded(log)
    marks = [word for word in states(tables.announcements) if word in ("flapping", "settled")]
    assert marks == [("flapping", "settled")[n % 2] for n in range(len(marks))]
    assert (FLAPPING in conditions(tables)) == (len(marks) % 2 == 1)
