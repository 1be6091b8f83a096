from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory

import duckdb
import pytest
from hypothesis import HealthCheck, given, settings

from events.facts import Alive, Allocated, Cordoned, Lost, Registered, Released, Resource, Retired
from events.ids import NodeId
from events.moments import to_us
from projections import queries
from projections.capacity_queries import capacity_at, capacity_history
from projections.directory import NodeFilter
from projections.projection import Projection
from projections.roster_tables import changes, everything
from tests.support.beating import stored
from tests.support.stored import opened, told
from tests.support.strategies import NODES, NOON, Log, Said, fact_logs, placed, said

N1, N2 = NODES


def cpu(cores: int) -> dict[str, Resource]:
    return {"cpu": Resource(total=Decimal(cores))}


LOG = placed(
    [
        said(Registered(boot_id="b1", seq=1, zone="z1", resources=cpu(8)), N1),
        said(Alive(boot_id="b1"), N1),
        said(Registered(boot_id="b2", seq=1, zone="z2", resources=cpu(4)), N2),
        said(Allocated(workload="w", amounts={"cpu": Decimal(3)}), N1),
        said(Cordoned(owner="ops", actor="ops", reason="disk"), N1),
        said(Registered(boot_id="b1", seq=2, zone="z2", resources={"cpu": Resource()}), N1),
        said(Retired(actor="ops"), N2),
    ]
)
"""A fact each second from noon on."""
LOST = Lost(beat_seq=7, silent_s=30.0, grace_s=30.0)


@pytest.fixture(scope="module")
def projection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Projection]:
    with opened(tmp_path_factory.mktemp("queries")) as projection:
        yield told(projection, LOG, stored([(b"fleet.v1.beat.n1", b"?"), (b"fleet.v1.beat.n1", b"[]")]))


@pytest.fixture
def cursor(projection: Projection) -> Iterator[duckdb.DuckDBPyConnection]:
    with closing(projection.cursor()) as cursor:
        yield cursor


def after(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def test_one_node_at_a_moment_is_the_band_around_it(cursor: duckdb.DuckDBPyConnection) -> None:
    band = queries.node_at(cursor, N1, after(4.5))

    assert band is not None
    assert (band.state, band.zone, band.cause_seq, band.actor, band.reason) == (
        "cordoned",
        "z1",
        5,
        "ops",
        "disk",
    )
    assert (band.valid_from, band.valid_to) == (after(4), after(5))
    assert queries.node_at(cursor, N1, after(-1)) is None
    assert queries.node_at(cursor, NodeId("nobody"), after(1)) is None


def test_the_beginning_of_a_band_is_in_it_and_its_end_is_not(cursor: duckdb.DuckDBPyConnection) -> None:
    bands = [queries.node_at(cursor, N1, after(second)) for second in (0, 1, 4)]

    assert [band.state if band else None for band in bands] == ["pending", "ready", "cordoned"]


def test_nodes_at_a_moment_are_filtered_and_paged(cursor: duckdb.DuckDBPyConnection) -> None:
    def page(seconds: float, asked: NodeFilter = NodeFilter(), **paging: object) -> list[str]:  # noqa: B008
        found = queries.nodes_at(cursor, after(seconds), asked, **{"limit": 9, **paging})  # type: ignore[arg-type]
        return [band.node_id for band in found]

    assert page(1.5) == [N1]
    assert page(2.5) == [N1, N2]
    assert page(2.5, limit=1) == [N1]
    assert page(2.5, after=N1) == [N2]
    assert page(2.5, NodeFilter(zone="z2")) == [N2]
    assert page(2.5, NodeFilter(state="ready")) == [N1]
    assert page(9, NodeFilter(zone="z2")) == [N1]
    assert page(9, NodeFilter(include_retired=True)) == [N1, N2]
    assert page(9, NodeFilter(state="retired")) == [N2]


def test_a_timeline_tells_newest_first_what_subscribers_hear(cursor: duckdb.DuckDBPyConnection) -> None:
    timeline = queries.timeline(cursor, N1, limit=100)
    heard = cursor.execute("SELECT seq, node_id FROM fleet.changes ORDER BY seq").fetchall()

    assert [seq for seq, node_id in reversed(heard) if node_id == N1] == [one.seq for one in timeline]
    assert [seq for seq, _ in heard] == list(range(1, len(heard) + 1))
    assert queries.timeline(cursor, N1, before=timeline[1].seq, limit=1) == timeline[2:3]
    assert ("state", "cordoned", 5, "ops", "disk", after(4)) in [
        (one.kind, one.detail, one.cause_seq, one.actor, one.reason, one.at) for one in timeline
    ]


def test_facts_about_a_node_are_found_by_it(cursor: duckdb.DuckDBPyConnection) -> None:
    facts = cursor.execute(
        'SELECT seq, "type", epoch_us(stored_at) FROM fleet.facts WHERE node_id = $n ORDER BY seq DESC',
        {"n": N1},
    ).fetchall()

    assert [seq for seq, *_ in facts] == [6, 5, 4, 2, 1]
    assert facts[1][1:] == ("fleetfold.operator.cordoned.v1", to_us(after(4)))


def test_quarantine_is_counted_by_stream_and_reason(cursor: duckdb.DuckDBPyConnection) -> None:
    assert queries.quarantine_counts(cursor) == {("BEATS", "not_an_object"): 1, ("BEATS", "not_json"): 1}


def test_capacity_at_a_moment_is_by_the_places_of_then(cursor: duckdb.DuckDBPyConnection) -> None:
    def by_zone(seconds: float) -> list[tuple[object, ...]]:
        return [
            (one.place, one.nodes, one.unknown, one.total, one.free)
            for one in capacity_at(cursor, after(seconds), "zone")
        ]

    assert by_zone(-1) == []
    assert by_zone(2.5) == [("z1", 1, 0, Decimal(8), Decimal(8)), ("z2", 1, 0, Decimal(4), Decimal(4))]
    assert by_zone(3.5) == [("z1", 1, 0, Decimal(8), Decimal(5)), ("z2", 1, 0, Decimal(4), Decimal(4))]
    assert by_zone(5.5) == [("z2", 2, 1, Decimal(4), Decimal(4))]
    assert by_zone(6.5) == [("z2", 1, 1, None, None)]


def test_capacity_over_time_has_a_sum_for_each_step(cursor: duckdb.DuckDBPyConnection) -> None:
    steps = capacity_history(cursor, begin=after(-1), end=after(7.9), step=timedelta(seconds=2))

    assert [step.at for step in steps] == [after(second) for second in (-1, 1, 3, 5, 7)]
    assert [
        [(one.nodes, one.unknown, one.total, one.allocated, one.free) for one in step.sums] for step in steps
    ] == [
        [],
        [(1, 0, Decimal(8), Decimal(0), Decimal(8))],
        [(2, 0, Decimal(12), Decimal(3), Decimal(9))],
        [(2, 1, Decimal(4), Decimal(0), Decimal(4))],
        [(1, 1, None, None, None)],
    ]


@settings(max_examples=8, suppress_health_check=[HealthCheck.too_slow])
@given(fact_logs())
def test_each_step_of_a_history_is_the_capacity_of_its_moment(log: Log) -> None:
    begin, step = NOON - timedelta(seconds=1.5), timedelta(seconds=3)
    with (
        TemporaryDirectory() as folder,
        opened(Path(folder)) as projection,
        closing(projection.cursor()) as cursor,
    ):
        if log:
            told(projection, log)

        steps = capacity_history(cursor, begin=begin, end=begin + 8 * step, step=step)

        assert len(steps) == 9
        assert [one.sums for one in steps] == [capacity_at(cursor, one.at) for one in steps]
        assert capacity_history(
            cursor, begin=NOON + timedelta(days=1), end=NOON + timedelta(days=1), step=step, group="zone"
        )[0].sums == projection.capacity("zone")  # fmt: skip


def test_released_work_gives_its_capacity_back(tmp_path: Path) -> None:
    more = placed([said(Released(workload="w"), N1)])
    with opened(tmp_path) as projection:
        told(projection, LOG[:5], [more[0]._replace(seq=6)])

        assert [(one.allocated, one.free) for one in projection.capacity()] == [(Decimal(0), Decimal(12))]


def test_a_verdict_with_a_member_that_is_no_json_hides_no_other_evidence(tmp_path: Path) -> None:
    odd = (
        b'{"specversion":"1.0","id":"e","source":"/t","type":"fleetfold.liveness.lost.v1",'
        b'"datacontenttype":"application/json","data":{"silent_s":30,"grace_s":30,"beat_seq":5,"x":NaN}}'
    )
    log = placed(
        [
            said(Registered(boot_id="b1", seq=1), N1),
            said(Registered(boot_id="b2", seq=1), N2),
            Said(said(LOST, N1).subject, odd),
            said(LOST, N2),
        ]
    )

    with opened(tmp_path) as projection, closing(told(projection, log).cursor()) as cursor:
        path = projection.path
        assert everything(cursor, path=path).lost == changes(cursor, after=0, path=path).lost == {N2: 7}
