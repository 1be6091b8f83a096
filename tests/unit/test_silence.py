"""The rules on silence: examples with numbers, and laws over every schedule of trouble."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fleetfold import liveness_settings
from projections import silence
from projections.silence import Gap, LivenessRules, Pace, is_late, is_lost, watched_silence
from tests.support.pretended import Node, Trouble, World

INTERVAL_S, GRACE_S = 10.0, 30.0
DAY_S = 86_400.0


def silent_s(spoke: float, until: float, *gaps: Gap) -> float:
    return float(
        watched_silence(np.array([spoke]), until=until, interval_s=np.array([INTERVAL_S]), gaps=gaps)[0]
    )


def lost_at(spoke: float, *gaps: Gap, since: float = 0.0) -> float:
    """The first tenth of a second at which a node that spoke then for the last time is lost."""
    for tenth in range(round(spoke * 10), 10_000):
        until = tenth / 10
        known = [gap for gap in gaps if gap.end <= until]
        if any(gap.begin <= until < gap.end for gap in gaps):
            continue
        found, _ = is_lost(
            np.array([spoke]),
            until=until,
            interval_s=np.array([INTERVAL_S]),
            grace_s=np.array([GRACE_S]),
            gaps=known,
            watching_since=since,
        )
        if found[0]:
            return until
    raise AssertionError("never")


def test_a_node_is_lost_at_its_grace_exactly() -> None:
    assert lost_at(100.0) == 130.0


def test_a_pause_of_ours_delays_by_its_length() -> None:
    assert lost_at(100.0, Gap(110, 117, "pause")) == 137.0


def test_an_outage_gives_a_node_that_was_not_late_its_grace_anew_and_one_interval() -> None:
    assert lost_at(100.0, Gap(104, 145, "outage")) == 145 + INTERVAL_S + GRACE_S


def test_an_outage_delays_a_node_that_was_late_by_its_length_and_one_interval() -> None:
    assert lost_at(100.0, Gap(120, 161, "outage")) == 130 + 41 + INTERVAL_S


def test_a_second_outage_before_agents_are_back_gives_them_their_interval_anew() -> None:
    assert lost_at(100.0, Gap(104, 145, "outage"), Gap(150, 170, "outage")) == 170 + INTERVAL_S + GRACE_S


def test_a_node_silent_before_a_restart_is_lost_on_its_deadline_and_the_downtime() -> None:
    assert lost_at(100.0, Gap(118, 122, "start"), since=122) == 122 + 1.5 * INTERVAL_S
    assert lost_at(100.0, Gap(116, 122, "start"), since=122) == 130 + 6 + 1.0  # it has to be late here too
    assert lost_at(100.0, Gap(125, 722, "start"), since=722) == 722 + 1.5 * INTERVAL_S


def test_a_node_not_late_before_a_restart_gets_one_whole_grace() -> None:
    assert lost_at(100.0, Gap(105, 705, "start"), since=705) == 705 + GRACE_S


def test_a_node_of_which_nobody_knows_when_it_was_heard_gets_one_whole_grace() -> None:
    assert lost_at(0.0, Gap(-np.inf, 700, "start"), since=700) == 700 + GRACE_S


def test_silence_that_ends_after_the_horizon_is_none() -> None:
    assert silent_s(100.0, 99.0) == 0.0


def test_a_node_is_late_from_one_and_a_half_intervals_on() -> None:
    late = is_late(
        np.array([100.0, 101.0]), until=115.5, interval_s=np.array([INTERVAL_S, INTERVAL_S]), gaps=[]
    )

    assert late.tolist() == [True, False]


@pytest.mark.parametrize(
    ("pool", "reported_s", "pace"),
    [
        (None, None, Pace(10, 30)),
        ("other", None, Pace(10, 30)),
        ("edge", None, Pace(60, 300)),
        ("edge", 120.0, Pace(120, 360)),
        (None, 5.0, Pace(5, 30)),
        (None, 20.0, Pace(20, 60)),
        (None, float("nan"), Pace(10, 30)),
        (None, -1.0, Pace(10, 30)),
        (None, 1e300, Pace(86_400, 259_200)),
    ],
)
def test_the_pace_of_a_node_is_its_own_interval_and_three_of_them_at_least(
    pool: str | None, reported_s: float | None, pace: Pace
) -> None:
    rules = LivenessRules(pools={"edge": Pace(60, 300)})

    assert rules.pace(pool=pool, reported_s=reported_s) == pace


def test_settings_and_rules_ask_for_the_same_grace() -> None:
    assert liveness_settings.GRACE_INTERVALS == silence.GRACE_INTERVALS


@given(
    st.floats(0, 100),
    st.floats(0, 200),
    st.lists(
        st.tuples(st.floats(0, 150), st.floats(0.1, 40), st.sampled_from(["pause", "outage"])), max_size=6
    ),
)
def test_watched_silence_is_never_negative_and_never_more_than_silence(
    spoke: float, until: float, said: list[tuple[float, float, str]]
) -> None:
    gaps: list[Gap] = []
    for begin, lasts, kind in sorted(said):
        if not gaps or begin >= gaps[-1].end:
            gaps.append(Gap(begin, begin + lasts, kind))  # type: ignore[arg-type] # one of them

    assert 0 <= silent_s(spoke, until, *gaps) <= max(0.0, until - spoke) + 1e-9


LASTING = st.builds(
    Trouble,
    kind=st.sampled_from(["outage", "pause", "starved", "lag", "restart"]),
    at=st.integers(0, 150),
    lasts=st.integers(1, 70),
)
STEPS = st.builds(
    Trouble,
    kind=st.sampled_from(["broker_step", "service_step"]),
    at=st.integers(0, 150),
    by_s=st.sampled_from([-DAY_S, -3_600.0, -29.0, -2.0, 2.0, 29.0, 3_600.0, DAY_S]),
)
TROUBLES = st.lists(LASTING | STEPS, max_size=5)
NEVER = 10.0**9


@given(TROUBLES, st.floats(0, 9.9))
@settings(max_examples=25)
@example([Trouble("broker_step", 22, by_s=DAY_S), Trouble("restart", 24, 2)], 1.0)
@example([Trouble("broker_step", 22, by_s=29.0)], 1.9)
@example([Trouble("outage", 20, 11), Trouble("outage", 49, 12)], 9.9)
@example([Trouble("outage", 29, 12), Trouble("outage", 59, 12), Trouble("outage", 89, 12)], 9.9)
@example([Trouble("outage", 20, 61), Trouble("restart", 20, 62)], 9.9)
@example([Trouble("restart", 20, 70), Trouble("lag", 90, 20)], 5.0)
@example([Trouble("lag", 20, 100)], 5.0)
@example([Trouble("starved", 29, 25)], 9.9)
def test_a_node_that_beats_is_never_lost_whatever_happens_to_us(
    troubles: list[Trouble], phase_s: float
) -> None:
    world = World([Node(phase_s, NEVER), Node((phase_s + 3) % 10, NEVER)], troubles).run(260)

    assert [node.lost for node in world.nodes] == [[], []]


@given(TROUBLES, st.floats(0, 9.9), st.integers(0, 160))
@settings(max_examples=25)
def test_a_node_that_fell_silent_is_lost_once_however_much_went_wrong(
    troubles: list[Trouble], phase_s: float, ends_at: int
) -> None:
    over = max([ends_at, *(one.at + one.lasts for one in troubles)])

    world = World([Node(phase_s, ends_at), Node(3.0, NEVER)], troubles).run(over + 75)

    assert len(world.nodes[0].lost) == 1
    assert world.nodes[1].lost == []


@pytest.mark.parametrize("has_others", [True, False])
def test_a_node_is_lost_with_no_input_at_all(has_others: bool) -> None:
    others = [Node(3.0, NEVER)] if has_others else []

    world = World([Node(1.0, 12.0), *others], []).run(3_600)

    assert world.nodes[0].lost == [41.0]
