"""When records were stored by our own clock, up to when everything is known, and what is said meanwhile."""

from __future__ import annotations

import math

import numpy as np

from events.log import Cursor
from projections.silence import Gap, LivenessRules
from projections.watch import MOST_GAPS, Look, Sights, Watch

NOON_S = 1_777_636_800.0
PACE = LivenessRules().shortest


def look(
    at: float, head: int, *, took_s: float = 0.01, broker_by_s: float = 0.0, ours_by_s: float = 0.0
) -> Look:
    return Look(
        asked=at,
        answered=at + took_s,
        broker_at=NOON_S + at + took_s + broker_by_s,
        wall_at=NOON_S + at + took_s + ours_by_s,
        beats=("one", head),
        fleet=("one", 0),
    )


def watched(*looks: Look, mark_s: float | None = None) -> Watch:
    """A watch that knows all that there is from the first look on; each look is in time."""
    watch = Watch(shortest=PACE, mark_s=mark_s)
    for one in looks:
        watch.looked(one, due=one.asked, was_interrupted=False)
        reached(watch, one.beats[1], now=one.answered)
    return watch


def reached(watch: Watch, seq: int, *, now: float) -> None:
    watch.reached(beats=Cursor("one", seq, 1), fleet=Cursor("one", 1, 1), now=now)


def dated(sights: Sights, seq: int, wall_s: float, *, now: float = 100.0) -> float:
    return float(sights.dated(np.array([seq]), np.array([NOON_S + wall_s]), now=now)[0])


def test_a_record_is_dated_by_the_brokers_clock_between_the_looks_around_it() -> None:
    watch = watched(look(10, 100), look(11, 200), look(12, 300))

    assert abs(dated(watch.beats, 150, 10.7) - 10.7) < 0.001


def test_no_step_of_the_brokers_clock_moves_a_record_out_of_the_looks_around_it() -> None:
    watch = watched(look(10, 100), look(11, 200, broker_by_s=86_400), look(12, 300, broker_by_s=-86_400))

    assert dated(watch.beats, 150, 10.7) == 10.0
    assert dated(watch.beats, 250, 11.7 + 86_400) == 12.01
    assert dated(watch.beats, 350, 12.5 + 86_400, now=13.0) == 13.0
    assert dated(watch.beats, 350, -86_400.0, now=13.0) == 12.0


def test_a_record_from_before_the_first_look_is_dated_by_the_clock_and_never_later_than_it() -> None:
    watch = watched(look(10, 100))

    assert abs(dated(watch.beats, 50, -500.0) - -500.0) < 0.001
    assert dated(watch.beats, 50, 86_400.0) == 10.01


def test_records_of_another_epoch_are_dated_by_looks_at_it() -> None:
    watch = watched(look(10, 100), look(11, 200))
    watch.looked(look(12, 5)._replace(beats=("two", 5)), due=12, was_interrupted=False)

    assert dated(watch.beats, 3, -86_400.0) == 11.0
    assert watch.beats.horizon(Cursor("one", 200, 1)) == -math.inf
    assert watch.beats.horizon(Cursor("two", 5, 1)) == 12.0


def test_the_horizon_is_the_last_look_of_which_everything_is_read() -> None:
    watch = watched(look(10, 100), look(11, 200), look(12, 300))

    reached(watch, 250, now=12.5)

    assert watch.horizon == 11.0


def test_what_no_record_needs_any_more_is_forgotten_and_the_rest_is_dated_as_before() -> None:
    watch = watched(*[look(at, 100 * at) for at in range(10, 20)])
    before = dated(watch.beats, 1_850, 17.6)

    watch.forget(beats=Cursor("one", 1_700, 1), fleet=Cursor(), oldest=0.0)

    assert dated(watch.beats, 1_850, 17.6) == before
    assert watch.beats.horizon(Cursor("one", 1_700, 1)) == 17.0
    assert dated(watch.beats, 1_200, -100.0) == -100.0


def test_a_long_backlog_is_dated_with_fewer_looks() -> None:
    watch = watched(*[look(at / 10, at) for at in range(10_000)])

    assert abs(dated(watch.beats, 5_003, 500.0, now=2_000) - 500.3) < 2.0


def test_a_process_that_begins_has_one_gap_from_the_mark_to_when_it_has_read_all() -> None:
    watch = Watch(shortest=PACE, mark_s=NOON_S - 600)
    watch.looked(look(10, 100), due=0, was_interrupted=True)
    reached(watch, 50, now=10.5)
    waiting = watch.mode(10.5)
    watch.looked(look(11, 120), due=11, was_interrupted=True)
    reached(watch, 100, now=11.2)

    assert waiting[0] == "waiting"
    assert [(round(gap.begin), gap.end, gap.kind) for gap in watch.gaps] == [(-600, 11.2, "start")]
    assert watch.watching_since == 11.2


def test_a_look_that_comes_late_is_a_pause_and_one_not_answered_in_time_an_outage() -> None:
    watch = watched(look(10, 1), look(11, 1))
    watch.gaps.clear()

    watch.looked(look(14, 1), due=11.5, was_interrupted=False)
    watch.looked(look(15, 1), due=15, was_interrupted=False)
    watch.looked(look(16, 1, took_s=5), due=16, was_interrupted=False)
    watch.looked(look(22, 1), due=22, was_interrupted=False)
    watch.looked(look(23, 1), due=23, was_interrupted=True)

    assert watch.gaps == [Gap(11, 14.01, "pause"), Gap(15, 21, "outage"), Gap(22, 23.01, "outage")]


def test_gaps_are_merged_where_they_meet_and_where_they_are_too_many() -> None:
    watch = watched(look(1, 1))
    watch.looked(look(5, 1), due=2, was_interrupted=False)
    watch.looked(look(6, 1), due=6, was_interrupted=True)
    merged = watch.gaps[-1]
    for at in range(10, 10 + 4 * MOST_GAPS, 2):
        watch.looked(look(at, 1), due=at, was_interrupted=True)
        watch.looked(look(at + 1, 1), due=at + 1, was_interrupted=False)

    assert (merged.end, merged.kind) == (6.01, "outage")
    assert len(watch.gaps) == MOST_GAPS
    assert watch.gaps[0].begin == -math.inf


def test_a_gap_is_forgotten_when_everybody_spoke_after_it() -> None:
    watch = watched(look(1, 1), look(2, 1))
    watch.looked(look(9, 1), due=3, was_interrupted=False)

    watch.forget(beats=Cursor("one", 1, 1), fleet=Cursor(), oldest=9.0)
    before = len(watch.gaps)
    watch.forget(beats=Cursor("one", 1, 1), fleet=Cursor(), oldest=9.02)

    assert (before, watch.gaps) == (1, [])


def test_a_step_of_either_clock_is_shown_for_one_grace_and_one_beyond_the_grace_holds_verdicts() -> None:
    small, large, ours = (
        watched(*[look(at, 1) for at in range(40)], look(40, 1, **step))
        for step in ({"broker_by_s": 5.0}, {"broker_by_s": -86_400.0}, {"ours_by_s": 86_400.0})
    )

    for watch in (small, large, ours):
        assert watch.mode(40.1)[0] == "degraded"
    assert small.may_judge(40.1)
    assert not large.may_judge(40.1)
    assert not ours.may_judge(40.1)
    assert "-86400.0 s" in large.mode(40.1)[1]


def test_clocks_that_are_slewed_and_answers_that_are_slow_are_no_steps() -> None:
    looks = [look(at, 1, broker_by_s=at * 0.05, took_s=0.4 if at % 7 == 0 else 0.01) for at in range(50)]

    assert watched(*looks).mode(49.5)[0] == "watching"


def test_the_mode_says_what_is_wrong() -> None:
    watch = watched(*[look(at, 1) for at in range(40)])
    well = watch.mode(39.5)
    silent = watch.mode(45.0)
    for at in range(45, 50):
        watch.looked(look(at, 9), due=at, was_interrupted=False)
        reached(watch, 5, now=at)
    behind = watch.mode(49.5)

    assert well == ("watching", "")
    assert silent[0] == behind[0] == "degraded"
    assert "has not answered" in silent[1]
    assert "not folded" in behind[1]
    assert not watch.may_judge(49.5)


def test_after_an_outage_it_waits_until_one_grace_was_watched() -> None:
    watch = watched(*[look(at, 1) for at in range(40)])
    watch.looked(look(60, 1), due=41, was_interrupted=True)
    reached(watch, 1, now=60.1)

    assert watch.mode(60.1)[0] == "waiting"
    assert watch.may_judge(60.1)
