"""Who is alive, lost, suspect or to be asked, and when a zone speaks for its nodes."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from events.log import Cursor
from projections.asking import LONGEST_PAUSE_S, to_ask, unread_digests
from projections.judging import due, newly_alive, next_deadline, oldest_sign, outlook
from projections.roster import Roster
from projections.silence import LivenessRules, Pace
from projections.watch import Look, Watch
from projections.zones import ZoneBook, ZoneFinding, ZoneState, gone_silent, speaking_again
from tests.support.rostered import Told, beat, know, rostered

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)


def watch_until(until: float, *, since: float = 0.0) -> Watch:
    """A watch in which all was well, once a second."""
    watch = Watch(shortest=Pace(10, 30), mark_s=None)
    for at in np.arange(since, until + 1):
        broker_at = NOON.timestamp() + at
        watch.looked(
            Look(at, at, broker_at, broker_at, ("one", 1), ("one", 1)), due=at, was_interrupted=False
        )
        watch.reached(beats=Cursor("one", 1, 1), fleet=Cursor("one", 1, 1), now=at)
    return watch


def alive(roster: Roster, *, now: float = 100.0, known: float = 100.0, folded: int = 1) -> list[int]:
    return newly_alive(roster, now=now, folded=folded, facts_known_until=known).tolist()


@pytest.mark.parametrize(
    ("told", "is_alive"),
    [
        (Told(liveness="pending", spoke=99.0), True),
        (Told(liveness="pending", spoke=69.0), False),
        (Told(liveness="pending", spoke=99.0, beat_boot="b2"), False),
        (Told(liveness="pending", spoke=None), False),
        (Told(liveness="alive", spoke=99.0), False),
        (Told(liveness=None, spoke=99.0), True),
        (Told(liveness="pending", is_registered=False, boot_id=None, spoke=99.0), True),
        (Told(liveness="unmonitored", spoke=99.0), False),
        (Told(liveness="pending", state="retired", spoke=99.0), False),
        (Told(liveness="lost", spoke=99.0), False),
    ],
)
def test_a_fresh_beat_of_the_registered_boot_makes_a_node_alive(told: Told, is_alive: bool) -> None:
    assert alive(rostered(told)) == ([0] if is_alive else [])


def test_nobody_unknown_is_alive_before_every_older_fact_is_known() -> None:
    roster = rostered(Told(liveness=None, spoke=99.0))

    assert alive(roster, known=98.0) == []


def test_a_lost_node_is_alive_with_the_first_beat_that_its_verdict_did_not_know() -> None:
    roster = rostered(
        Told(liveness="lost", spoke=60.0, beat_seq=7), Told(liveness="lost", spoke=60.0, beat_seq=7)
    )
    roster.knew(0, 7)
    roster.knew(1, 6)
    before = alive(roster, now=61.0)
    beat(roster, {0: Told(spoke=99.0, beat_seq=9)})

    assert before == [1]
    assert alive(roster) == [0]


def test_who_is_in_an_append_on_its_way_is_judged_when_that_is_folded() -> None:
    roster = rostered(Told(liveness="pending", spoke=99.0), Told(spoke=10.0))
    roster.waits_for[:2] = 5

    assert alive(roster, folded=4) == []
    assert alive(roster, folded=5) == [0]
    assert due(roster, watch_until(100), now=100, folded=4).numbers.tolist() == []
    assert due(roster, watch_until(100), now=100, folded=5).numbers.tolist() == [1]


def test_a_verdict_that_changed_nothing_is_not_said_again_at_once() -> None:
    roster = rostered(Told(spoke=10.0))
    roster.again_at[0] = 130.0

    assert due(roster, watch_until(129), now=129, folded=1).numbers.tolist() == []
    assert due(roster, watch_until(130), now=130, folded=1).numbers.tolist() == [0]


def test_silence_counts_for_whoever_waits_for_a_verdict_and_for_nobody_else() -> None:
    roster = rostered(
        Told(spoke=10.0),
        Told(liveness="pending", spoke=None),
        Told(liveness="lost", spoke=10.0),
        Told(liveness="unmonitored", spoke=None),
        Told(liveness="pending", state="retired", spoke=10.0),
        Told(liveness=None, spoke=10.0),
        Told(spoke=90.0),
        Told(spoke=10.0, interval_s=60.0),
        since=20.0,
    )

    found = due(roster, watch_until(100), now=100, folded=1)

    assert found.numbers.tolist() == [0, 1]
    assert [round(one) for one in found.silent_s.tolist()] == [90, 80]
    assert next_deadline(roster) == 40.0
    assert oldest_sign(roster) == 10.0


def test_another_boot_and_a_restore_let_the_clock_run_anew() -> None:
    roster = rostered(Told(spoke=10.0), Told(state="retired", spoke=10.0))

    know(roster, {0: Told(liveness="pending", boot_id="b2"), 1: Told(liveness="pending")}, since=95.0)

    assert due(roster, watch_until(124), now=124, folded=1).numbers.tolist() == []
    assert due(roster, watch_until(125), now=125, folded=1).numbers.tolist() == [0, 1]


def test_an_outlook_names_the_time_of_the_verdict() -> None:
    roster, watch = (
        rostered(Told(spoke=80.0), Told(spoke=95.0), Told(liveness="lost", spoke=1.0)),
        watch_until(100),
    )
    book = ZoneBook(hold_s=300)

    late, well, lost = (outlook(roster, watch, book, number, now=100.0) for number in range(3))

    assert (late.is_suspect, well.is_suspect, lost.is_suspect) == (True, False, False)
    assert late.expected_lost_at == NOON + timedelta(seconds=110)
    assert well.expected_lost_at == NOON + timedelta(seconds=125)
    assert lost.expected_lost_at is None
    assert (late.silent_s, late.grace_s, late.mode, late.reason) == (20.0, 30.0, "watching", "")


# Zones.

RULES = LivenessRules(zone_min=3, zone_share=0.5, zone_hold_s=300)


def in_zones(silent: dict[str, int], speaking: dict[str, int], *, liveness: str = "alive") -> Roster:
    """Nodes of zones that spoke 30 s or 1 s before 100."""
    nodes = [Told(zone=zone, spoke=70.0, liveness=liveness) for zone, n in silent.items() for _ in range(n)]
    nodes += [Told(zone=zone, spoke=99.0) for zone, n in speaking.items() for _ in range(n)]
    return rostered(*nodes, rules=RULES)


def silent_zones(roster: Roster, book: ZoneBook | None = None) -> list[ZoneFinding]:
    watch = watch_until(100)
    return gone_silent(
        roster,
        due(roster, watch, now=100, folded=1).numbers,
        until=100,
        gaps=watch.gaps,
        book=book or ZoneBook(hold_s=300),
    )


@pytest.mark.parametrize(
    ("silent", "speaking", "found"),
    [
        ({"a": 4}, {"b": 4}, [ZoneFinding("a", 4, 4)]),
        ({"a": 4}, {"a": 4}, [ZoneFinding("a", 4, 8)]),
        ({"a": 4}, {"a": 5}, []),
        ({"a": 2}, {}, []),
        ({"a": 3, "b": 3}, {}, [ZoneFinding("a", 3, 3), ZoneFinding("b", 3, 3)]),
        ({"a": 2, "b": 3}, {"a": 9}, [ZoneFinding("b", 3, 3)]),
    ],
)
def test_a_zone_is_silent_from_a_share_and_a_number_of_its_nodes_on(
    silent: dict[str, int], speaking: dict[str, int], found: list[ZoneFinding]
) -> None:
    assert silent_zones(in_zones(silent, speaking)) == found


def test_nodes_without_a_zone_are_no_zone() -> None:
    roster = rostered(*[Told(spoke=70.0) for _ in range(9)], rules=RULES)

    assert silent_zones(roster) == []


@pytest.mark.parametrize("zone", ["", "z" * 251])
def test_a_zone_whose_name_no_subject_can_carry_is_none(zone: str) -> None:
    assert silent_zones(in_zones({zone: 4}, {})) == []


def test_a_zone_that_is_silent_by_a_fact_is_not_found_again() -> None:
    book = ZoneBook(hold_s=300)
    book.take([ZoneState("a", 9, True, 4, 4, NOON.timestamp() + 200)], now=100, broker_now_s=NOON.timestamp())

    assert silent_zones(in_zones({"a": 4}, {}), book) == []
    assert book.held_until("a") == 300
    assert (book.version("a"), book.is_free("a", folded=9)) == (9, True)


def test_a_hold_is_never_longer_than_it_was_set_for() -> None:
    book = ZoneBook(hold_s=300)

    book.take(
        [ZoneState("a", 9, True, 4, 4, NOON.timestamp() + 86_400)], now=100, broker_now_s=NOON.timestamp()
    )

    assert book.held_until("a") == 400


@pytest.mark.parametrize(
    ("state", "speaking", "silent", "is_back"),
    [
        (ZoneState("a", 9, True, 8, 8, None), 4, 4, True),
        (ZoneState("a", 9, True, 8, 8, None), 3, 5, False),
        (ZoneState("a", 9, True, 4, 8, None), 5, 3, False),
        (ZoneState("a", 9, True, 4, 8, None), 6, 2, True),
        (ZoneState("a", 9, True, 8, 8, None), 0, 8, False),
        (ZoneState("a", 9, True, 8, 8, None), 2, 1, True),
        (ZoneState("a", 9, False, 8, 8, None), 8, 0, False),
    ],
)
def test_a_zone_is_back_when_half_of_those_that_went_silent_speak(
    state: ZoneState, speaking: int, silent: int, is_back: bool
) -> None:
    roster = in_zones({"a": silent}, {"a": speaking}, liveness="lost")

    found = speaking_again(roster, now=100, states={"a": state})

    assert [one.zone for one in found] == (["a"] if is_back else [])


# Who is asked.

SAME, OTHER = "00112233445566aa", "00112233445566bb"


@pytest.mark.parametrize(
    ("told", "asked"),
    [
        (Told(liveness=None), "unknown"),
        (Told(liveness="alive", is_registered=False, boot_id=None), "unknown"),
        (Told(), ""),
        (Told(beat_boot="b2"), "other_boot"),
        (Told(registered=SAME, digest=SAME), ""),
        (Told(registered=SAME, digest=OTHER), "other_inventory"),
        (Told(registered=SAME), ""),
        (Told(liveness="pending", state="retired"), "gone"),
        (Told(liveness="pending", state="retired", boot_id=None), "gone"),
        (Told(liveness="pending", state="retired", beat_boot="b2"), "other_boot"),
    ],
)
def test_who_beats_is_asked_for_what_is_missing(told: Told, asked: str) -> None:
    found = to_ask(rostered(replace(told, spoke=99.0)), now=100, facts_known_until=100)

    assert {name: numbers.tolist() for name, numbers in found._asdict().items() if len(numbers)} == (
        {asked: [0]} if asked else {}
    )


def test_nobody_is_asked_before_every_older_fact_is_known_nor_long_after_the_beat() -> None:
    roster = rostered(Told(liveness=None, spoke=99.0), Told(liveness=None, spoke=50.0))

    early = to_ask(roster, now=100, facts_known_until=60)
    later = to_ask(roster, now=100, facts_known_until=100)

    assert early.unknown.tolist() == []
    assert later.unknown.tolist() == [0]


def test_who_does_not_listen_is_asked_ever_more_seldom() -> None:
    roster, asked = rostered(Told(liveness=None, spoke=0.0)), []

    for second in range(100, 100 + 100_000, 10):
        beat(roster, {0: Told(spoke=float(second), beat_seq=second)})
        if len(to_ask(roster, now=second, facts_known_until=second + 1).unknown):
            asked.append(second)

    assert asked[:5] == [100, 110, 130, 170, 250]
    assert asked[-1] - asked[-2] == LONGEST_PAUSE_S
    know(roster, {0: Told()}, since=0.0)
    beat(roster, {0: Told(spoke=200_000.0, beat_seq=1)})
    to_ask(roster, now=200_000, facts_known_until=200_001)
    assert roster.ask_pause_s[0] == 0


def test_who_beats_under_one_id_in_turn_is_asked_and_one_late_beat_of_an_earlier_boot_is_not_enough() -> None:
    roster, asked = rostered(Told(spoke=99.0), Told(spoke=99.0)), []
    roster.take_other_boots(np.array([7, 7]))

    for count, now in ((1, 100), (2, 105), (4, 110), (5, 116), (9, 130)):
        roster.take_other_boots(np.array([7 + count, 8]))
        found = to_ask(roster, now=now, facts_known_until=now)
        asked += [(now, number) for number in found.in_turn.tolist()]

    assert asked == [(105, 0), (116, 0)]


def test_a_digest_that_only_the_data_tell_is_read_before_anybody_is_asked() -> None:
    roster = rostered(Told(spoke=99.0, digest=OTHER))
    roster.registered(0, "", seq=17)
    waiting = to_ask(roster, now=100, facts_known_until=100)
    unread = unread_digests(roster, most=10).tolist()
    roster.registered(0, SAME, seq=0)

    assert waiting.other_inventory.tolist() == []
    assert unread == [0]
    assert to_ask(roster, now=100, facts_known_until=100).other_inventory.tolist() == [0]


def test_a_roster_grows_and_keeps_what_it_has() -> None:
    roster = rostered(Told(spoke=99.0, zone="a"))

    roster.hold(5_000)

    assert (roster.count, roster.spoke[0], roster.zone[0]) == (5_000, 99.0, 0)
    assert (roster.spoke[4_999], roster.zone[4_999], roster.grace_s[4_999]) == (-np.inf, -1, 30.0)
