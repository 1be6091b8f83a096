"""Facts folded one batch ahead of the commits: the same as in turn, whatever becomes of the commits."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from events.errors import LogGapError
from events.facts import LabelsSet, Registered
from projections.ahead import FoldedAhead
from projections.projection import Projection
from tests.support.folding import batch_of
from tests.support.stored import everything, opened, told
from tests.support.strategies import NODES, Log, fact_logs, placed, said

LOG = placed(
    [
        *[said(Registered(boot_id="b1", seq=seq, labels={"n": str(seq)}), NODES[0]) for seq in range(4)],
        *[said(LabelsSet(labels={"n": str(n), f"k{n}": "v"}), NODES[0]) for n in range(4)],
    ]
)


def _in_turn(log: Log) -> dict[str, list[tuple[object, ...]]]:
    with TemporaryDirectory() as folder, opened(Path(folder)) as projection:
        return everything(told(projection, log))


def _apply_ahead(projection: Projection, batches: list[Log]) -> None:
    """Fold each batch before the one in front of it is committed."""
    waiting: list[FoldedAhead] = []
    for log in batches:
        waiting.append(projection.fold_ahead(batch_of(log)))
        if len(waiting) > 1:
            projection.apply(waiting.pop(0))
    for folded in waiting:
        projection.apply(folded)


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(log=fact_logs(), cuts=st.sets(st.integers(1, 40), max_size=5))
def test_folding_ahead_equals_folding_in_turn(log: Log, cuts: set[int]) -> None:
    assume(log)
    edges = sorted({0, len(log), *[cut for cut in cuts if cut < len(log)]})
    with TemporaryDirectory() as folder, opened(Path(folder)) as projection:
        _apply_ahead(projection, [log[begin:end] for begin, end in pairwise(edges)])

        assert everything(projection) == _in_turn(log)


def test_a_batch_that_is_dropped_leaves_no_trace(tmp_path: Path) -> None:
    with opened(tmp_path) as projection:
        projection.apply(projection.fold_ahead(batch_of(LOG[:3])))
        projection.fold_ahead(batch_of(LOG[3:]))

        projection.drop_ahead()
        projection.apply(projection.fold_ahead(batch_of(LOG[3:6])))
        projection.apply(batch_of(LOG[6:]))

        assert everything(projection) == _in_turn(LOG)


def test_records_that_were_folded_ahead_before_are_skipped(tmp_path: Path) -> None:
    with opened(tmp_path) as projection:
        first = projection.fold_ahead(batch_of(LOG[:4]))
        again = projection.fold_ahead(batch_of(LOG[1:4]))
        assert projection.apply(first).records == 4
        assert (projection.apply(again).records, again.new.skipped) == (0, 3)
        projection.apply(projection.fold_ahead(batch_of(LOG[2:])))

        assert everything(projection) == _in_turn(LOG)


def test_a_gap_behind_a_batch_that_is_not_committed_is_seen(tmp_path: Path) -> None:
    with opened(tmp_path) as projection:
        first = projection.fold_ahead(batch_of(LOG[:2]))
        with pytest.raises(LogGapError):
            projection.fold_ahead(batch_of(LOG[4:]))
        projection.apply(first)
        projection.apply(projection.fold_ahead(batch_of(LOG[2:])))

        assert everything(projection) == _in_turn(LOG)


def test_tables_begun_anew_know_nothing_of_what_was_folded_ahead(tmp_path: Path) -> None:
    with opened(tmp_path) as projection:
        projection.fold_ahead(batch_of(LOG[:4]))

        projection.reopen(why="another log")
        projection.apply(projection.fold_ahead(batch_of(LOG)))

        assert everything(projection) == _in_turn(LOG)
