from __future__ import annotations

from contextlib import closing
from decimal import Decimal
from pathlib import Path

import pytest

from events.errors import RefusedError
from events.facts import Alive, Cordoned, Registered, Resource
from projections.compare import SHOWN, Comparison, compare
from projections.projection import Projection
from projections.views import VIEWS
from tests.support.beating import Beat, beats_batch, stored
from tests.support.stored import opened, told
from tests.support.strategies import NODES, placed, said

N1, N2 = NODES
LOG = placed(
    [
        said(
            Registered(boot_id="b1", seq=1, labels={"a": "1"}, resources={"cpu": Resource(total=Decimal(8))}),
            N1,
        ),
        said(Alive(boot_id="b1"), N1),
        said(Registered(boot_id="b2", seq=1), N2),
        said(Cordoned(owner="ops"), N2),
    ]
)
BEATS = stored([Beat(node, seq=seq, at_us=seq, used={"cpu": seq}) for seq in range(1, 6) for node in NODES])


def compared(left: Projection, right: Projection) -> Comparison:
    with closing(left.cursor()) as one, closing(right.cursor()) as other:
        return compare(one, other)


def unequal(comparison: Comparison) -> set[str]:
    return {view.view for view in comparison.views if not view.is_equal}


def test_two_stores_of_one_log_are_equal_however_it_was_cut(tmp_path: Path) -> None:
    with opened(tmp_path / "a") as left, opened(tmp_path / "b") as right:
        told(left, LOG, BEATS)
        told(right, BEATS[:3], LOG[:1], LOG[1:], BEATS[3:])

        comparison = compared(left, right)

        assert comparison.is_equal
        assert {view.view for view in comparison.views} == {view.name for view in VIEWS} - {"usage_1h"}
        rows = {view.view: (view.left_rows, view.right_rows) for view in comparison.views}
        assert (rows["nodes"], rows["usage"], rows["facts"]) == ((2, 2), (10, 10), (4, 4))


def test_whether_a_clock_is_off_is_not_of_the_facts_and_what_nodes_share_is(tmp_path: Path) -> None:
    log = placed([said(Registered(boot_id="b1", seq=1, hostname="h"), node) for node in NODES])
    early = stored([Beat(N1, seq=2, sent_at="2026-05-01T11:00:00Z")])
    late = stored([Beat(N1, seq=3, at_us=1, sent_at="2026-05-01T11:59:57Z")], first=2)
    with opened(tmp_path / "a") as left, opened(tmp_path / "b") as right:
        told(left, log, early, late)
        told(right, log).apply(beats_batch(late, holes=((1, 1),)))
        assert compared(left, right).is_equal

        with closing(right.cursor()) as cursor:
            cursor.execute("DELETE FROM main.shared WHERE number = 0")
        assert unequal(compared(left, right)) == {"nodes"}


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ("UPDATE main.node SET labels = MAP {'a': '2'} WHERE number = 0", "nodes labels {a=1} {a=2}"),
        ("UPDATE main.capacity SET free = 7.5", "capacity free 8.000000000 7.500000000"),
        ("UPDATE main.node_history SET actor = 'x' WHERE cause_seq = 3", "node_history actor agent x"),
        ("UPDATE main.fact SET type = 'x' WHERE seq = 2", "facts type fleetfold.liveness.alive.v1 x"),
        ("UPDATE main.heartbeat SET last_seq = 6 WHERE number = 0", "heartbeats last_seq 5 6"),
        ("UPDATE main.usage_sample SET used = NULL WHERE used = 3 AND number = 0", "usage used 3.0 None"),
    ],
)
def test_a_value_that_differs_is_found_and_shown(tmp_path: Path, change: str, found: str) -> None:
    view, column, left, right = found.split()
    with opened(tmp_path / "a") as one, opened(tmp_path / "b") as other:
        for projection in (one, other):
            told(projection, LOG, BEATS)
        with closing(other.cursor()) as cursor:
            cursor.execute(change)

        comparison = compared(one, other)

        assert not comparison.is_equal
        assert unequal(comparison) == {view}
        (differing,) = [one for one in comparison.views if one.view == view]
        shown = {difference.is_left: str(difference.row[column]) for difference in differing.differences}
        assert shown == {True: left, False: right}


def test_rows_that_only_one_has_are_shown_a_few_of_them(tmp_path: Path) -> None:
    with opened(tmp_path / "a") as left, opened(tmp_path / "b") as right:
        for projection in (left, right):
            told(projection, LOG, BEATS)
        with closing(right.cursor()) as cursor:
            cursor.execute("DELETE FROM main.usage_sample WHERE used < 4")

        (usage,) = [view for view in compared(left, right).views if view.view == "usage"]

        assert usage.is_equal
        assert (usage.left_rows, usage.right_rows) == (2, 2)
        with closing(left.cursor()) as cursor:
            cursor.execute("INSERT INTO main.fact SELECT f.* FROM main.fact AS f, range(3)")
        (facts,) = [view for view in compared(left, right).views if view.view == "facts"]
        assert (facts.left_rows, facts.right_rows, len(facts.differences)) == (16, 4, SHOWN)
        assert all(one.is_left for one in facts.differences)


def test_a_row_that_is_there_twice_is_a_difference(tmp_path: Path) -> None:
    with opened(tmp_path / "a") as left, opened(tmp_path / "b") as right:
        for projection in (left, right):
            told(projection, LOG)
        with closing(right.cursor()) as cursor:
            cursor.execute(
                "INSERT INTO main.node_history SELECT * FROM main.node_history WHERE cause_seq = 4"
            )

        assert unequal(compared(left, right)) == {"node_history"}


def test_heartbeats_that_only_one_store_could_see_are_not_held_against_the_other(tmp_path: Path) -> None:
    """The broker keeps a day: a store that is built later never saw what came before."""
    with opened(tmp_path / "a") as left, opened(tmp_path / "b") as right:
        told(left, LOG, BEATS)
        told(right, LOG)
        right.apply(beats_batch(BEATS[5:], holes=((1, 5),)))

        comparison = compared(left, right)

        assert comparison.is_equal
        rows = {view.view: (view.left_rows, view.right_rows) for view in comparison.views}
        assert rows["heartbeats"] == (2, 2)
        assert rows["usage"][0] >= rows["usage"][1] > 0


def test_heartbeats_of_stores_at_different_records_are_left_out_with_the_reason(tmp_path: Path) -> None:
    with opened(tmp_path / "a") as left, opened(tmp_path / "b") as right:
        told(left, LOG, BEATS)
        told(right, LOG, BEATS[:4])

        comparison = compared(left, right)

        assert comparison.is_equal
        assert "BEATS" in comparison.left_out["usage"]
        assert "heartbeats" not in {view.view for view in comparison.views}


def test_stores_at_different_facts_are_not_compared(tmp_path: Path) -> None:
    with opened(tmp_path / "a") as left, opened(tmp_path / "b") as right:
        told(left, LOG)
        told(right, LOG[:2])

        with pytest.raises(RefusedError, match="at 4 and 2 of FLEET"):
            compared(left, right)
