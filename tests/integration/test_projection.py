from __future__ import annotations

import re
import threading
from collections import Counter
from contextlib import closing
from dataclasses import astuple, replace
from datetime import timedelta
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from api.sql_engine import LockedCursors
from api.sql_statement import SqlLimits
from events.errors import EpochChangedError, LogGapError, StoreError
from events.facts import Alive, Allocated, Cordoned, Device, Registered, Resource, Retired
from events.ids import NodeId
from events.log import Cursor
from fleetfold.replica import store_of
from fleetfold.settings import SqlSettings
from projections import roster_tables
from projections.applied import Applied
from projections.capacity_queries import capacity_at, load_sums
from projections.capacity_sums import CapacitySum
from projections.current import latest_capacity
from projections.directory import NodeFilter
from projections.projection import BEHIND, Projection, ProjectionSettings
from projections.roster_news import Changes
from projections.state import unpack
from tests.support.beating import EPOCH, Beat, Stored, beats_batch, cut, stored
from tests.support.folding import batch_of, folded
from tests.support.stored import asked, batch, everything, opened, told
from tests.support.strategies import NODES, NOON, Log, fact_logs, placed, said

N1, N2 = NODES
RESOURCES = {"cpu": Resource(total=Decimal(8)), "memory": Resource(total=Decimal(2**63)), "gpu": Resource()}
REGISTERED = Registered(
    boot_id="b1", seq=1, zone="z1", pool="p1", hostname="h1", labels={"rack": "7", "env": "x"},
    resources=RESOURCES, devices=(Device(id="d1", kind="gpu", healthy=False, reason="hot"),), interval_s=10.0,
)  # fmt: skip
LOG = placed(
    [
        said(REGISTERED, N1),
        said(Alive(boot_id="b1"), N1),
        said(Allocated(workload="w1", amounts={"cpu": Decimal("2.5")}), N1),
        said(Cordoned(owner="ops", actor="ops", reason="disk"), N1),
        said(Registered(boot_id="b9", seq=1, zone="z2", resources={"cpu": Resource(total=Decimal(4))}), N2),
    ]
)
BEATS = stored(
    [
        Beat(N1, "b1", 1, 0, {"cpu": 1.5, "memory": None}, "d1", "2026-05-01T12:00:00.250Z"),
        Beat("stranger", "s1", 5, 10),
        Beat(N1, "b1", 3, 20, {"cpu": 2.5}, "d1"),
    ]
)

HOURS_OF_CPU = """SELECT "avg", "min", "max", "last", samples FROM fleet.usage_1h WHERE resource = 'cpu'"""
LABELS = """SELECT node_id, "key", "value", owner, cause_seq FROM fleet.labels_history"""
DEVICES = "SELECT node_id, device_id, kind, model, memory, healthy, reason FROM fleet.devices"
ALLOCATIONS = "SELECT node_id, workload, resource, amount FROM fleet.allocations"


def test_a_node_is_answered_from_memory_and_from_the_views_alike(tmp_path: Path) -> None:
    with opened(tmp_path) as projection:
        told(projection, LOG, BEATS)

        state = projection.node(N1)
        assert state is not None
        assert (state.version, state.zone, state.effective_labels) == (4, "z1", {"rack": "7", "env": "x"})
        assert asked(
            projection,
            "SELECT state, intent, zone, hostname, labels['rack'], version, epoch_us(last_heartbeat_at), "
            "interval_s FROM fleet.nodes WHERE node_id = $node",
            {"node": N1},
        ) == [("cordoned", "cordoned", "z1", "h1", "7", 4, 1_777_636_800_000_020, 10.0)]
        assert asked(
            projection, "SELECT total, allocatable, allocated, free FROM fleet.capacity WHERE node_id = 'n1' "
            "AND resource IN ('cpu', 'memory') ORDER BY resource",
        ) == [
            (Decimal(8), Decimal(8), Decimal("2.5"), Decimal("5.5")),
            (Decimal(2**63), Decimal(2**63), Decimal(0), Decimal(2**63)),
        ]  # fmt: skip
        assert asked(projection, "SELECT status, total FROM fleet.capacity WHERE resource = 'gpu'") == [
            ("unknown", None)
        ]
        assert asked(projection, "SELECT device_id, healthy, reason FROM fleet.devices") == [
            ("d1", False, "hot")
        ]
        assert asked(projection, "SELECT workload, resource, amount FROM fleet.allocations") == [
            ("w1", "cpu", Decimal("2.5"))
        ]
        assert asked(projection, "SELECT seq, \"data\"->>'boot_id' FROM fleet.facts WHERE seq = 1") == [
            (1, "b1")
        ]


def test_a_registered_node_without_beats_has_no_last_heartbeat_and_a_stranger_is_no_node(
    tmp_path: Path,
) -> None:
    with opened(tmp_path) as projection:
        told(projection, LOG, BEATS)

        assert asked(
            projection, "SELECT last_heartbeat_at FROM fleet.nodes WHERE node_id = $node", {"node": N2}
        ) == [(None,)]
        assert projection.heartbeat(N2) is None
        assert asked(projection, "SELECT node_id FROM fleet.nodes ORDER BY node_id") == [(N1,), (N2,)]
        assert asked(
            projection, "SELECT node_id, last_seq, missed FROM fleet.heartbeats ORDER BY node_id"
        ) == [
            (N1, 3, 1),
            ("stranger", 5, 0),
        ]


def test_usage_keeps_unknown_apart_from_zero_and_absent(tmp_path: Path) -> None:
    with opened(tmp_path) as projection:
        told(projection, BEATS)

        assert asked(
            projection, 'SELECT resource, epoch_us(u."at") % 100, used FROM fleet.usage u ORDER BY 2, 1'
        ) == [
            ("cpu", 0, 1.5),
            ("memory", 0, None),
            ("cpu", 20, 2.5),
        ]
        assert asked(projection, HOURS_OF_CPU) == [
            (2.0, 1.5, 2.5, 2.5, 2)
        ]  # fmt: skip


def test_bands_of_a_history_meet_and_the_last_one_is_open(tmp_path: Path) -> None:
    with opened(tmp_path) as projection:
        told(projection, LOG)

        bands = asked(
            projection,
            "SELECT state, epoch_ms(valid_from), epoch_ms(valid_to), cause_seq, actor, reason "
            "FROM fleet.node_history WHERE node_id = $node ORDER BY cause_seq",
            {"node": N1},
        )

        noon = 1_777_636_800_000
        assert bands == [
            ("pending", noon, noon + 1000, 1, "agent", ""),
            ("ready", noon + 1000, noon + 3000, 2, "liveness", ""),
            ("cordoned", noon + 3000, None, 4, "ops", "disk"),
        ]
        assert asked(
            projection, "SELECT free, cause_seq FROM fleet.capacity_history "
            "WHERE node_id = $node AND resource = 'cpu' ORDER BY cause_seq", {"node": N1},
        ) == [(Decimal(8), 1), (Decimal("5.5"), 3)]  # fmt: skip


def test_the_fleet_as_of_a_moment_is_what_it_was_then(tmp_path: Path) -> None:
    with opened(tmp_path) as projection:
        told(projection, LOG)

        then = NOON + timedelta(seconds=1, milliseconds=500)
        assert asked(projection, "SELECT node_id, state FROM fleet.nodes_at($t)", {"t": then}) == [
            (N1, "ready")
        ]
        assert asked(
            projection, "SELECT resource, free FROM fleet.capacity_at($t) WHERE resource = 'cpu'", {"t": then}
        ) == [("cpu", Decimal(8))]
        assert asked(projection, "SELECT * FROM fleet.nodes_at($t)", {"t": NOON - timedelta(seconds=1)}) == []
        changed = asked(
            projection, 'SELECT node_id, member, "before", "after" FROM fleet.fleet_diff($t1, $t2)',
            {"t1": then, "t2": NOON + timedelta(hours=1)},
        )  # fmt: skip
        assert (N1, "state", "ready", "cordoned") in changed
        assert (N2, "node", None, "known") in changed
        assert asked(
            projection, "SELECT state, seconds FROM fleet.uptime($node, $t1, $t2) ORDER BY state",
            {"node": N1, "t1": NOON, "t2": NOON + timedelta(seconds=10)},
        ) == [("cordoned", 7.0), ("pending", 1.0), ("ready", 2.0)]  # fmt: skip


def test_time_that_has_not_passed_is_in_no_uptime(tmp_path: Path) -> None:
    uptime = "SELECT sum(seconds) FROM fleet.uptime($node, $t1, now() + to_days($days))"
    ahead = "SELECT state FROM fleet.uptime($node, now() + to_days(1), now() + to_days(2))"
    with opened(tmp_path) as projection:
        told(projection, LOG)

        ((until_now,),) = asked(projection, uptime, {"node": N1, "t1": NOON, "days": 0})
        ((until_then,),) = asked(projection, uptime, {"node": N1, "t1": NOON, "days": 1000})

        assert until_then - until_now < 600
        assert asked(projection, ahead, {"node": N1}) == []


def test_everything_is_there_again_after_a_restart(tmp_path: Path) -> None:
    with opened(tmp_path) as before:
        told(before, LOG, BEATS)
        views, cursors = everything(before), before.cursors()
        told_of = {node: (before.node(node), before.heartbeat(node)) for node in (*NODES, NodeId("stranger"))}
        sums, used, states = before.capacity("zone"), before.used("zone"), before.count_by_state()

    with opened(tmp_path) as after:
        assert after.recovered is None
        assert everything(after) == views
        assert after.cursors() == cursors
        assert {node: (after.node(node), after.heartbeat(node)) for node in told_of} == told_of
        assert (after.capacity("zone"), after.used("zone"), after.count_by_state()) == (sums, used, states)
        assert [state.node_id for state in after.nodes(NodeFilter(labels={"rack": "7"}), limit=9)] == [N1]


def test_a_batch_that_comes_again_changes_nothing(tmp_path: Path) -> None:
    with opened(tmp_path) as projection:
        told(projection, LOG, BEATS)
        views = everything(projection)

        again = [projection.apply(batch(log)) for log in (LOG, BEATS, LOG[2:], BEATS[:1])]

        assert [(one.records, one.skipped) for one in again] == [(0, 5), (0, 3), (0, 3), (0, 1)]
        assert everything(projection) == views


def test_a_batch_that_overlaps_is_folded_from_where_the_cursor_is(tmp_path: Path) -> None:
    with opened(tmp_path / "whole") as whole, opened(tmp_path / "parts") as parts:
        told(whole, LOG, BEATS)

        told(parts, LOG[:3], LOG[1:], BEATS[:2], BEATS)

        assert everything(parts) == everything(whole)


def test_a_gap_is_refused_and_nothing_of_the_batch_is_kept(tmp_path: Path) -> None:
    with opened(tmp_path) as projection:
        told(projection, LOG[:2], BEATS[:1])
        views = everything(projection)

        for log in (LOG[3:], BEATS[2:]):
            with pytest.raises(LogGapError):
                projection.apply(batch(log))

        assert everything(projection) == views
        assert {stream: at.seq for stream, at in projection.cursors().items()} == {"FLEET": 2, "BEATS": 1}


def test_a_proven_hole_is_crossed_recorded_and_counted(tmp_path: Path) -> None:
    with opened(tmp_path) as projection:
        told(projection, BEATS[:1])

        applied = projection.apply(beats_batch(BEATS[2:], holes=((2, 2),)))

        assert (applied.records, applied.holes, projection.holes()) == (1, 1, {"BEATS": 1})
        assert asked(projection, "SELECT stream, epoch, low, high FROM main.hole") == [("BEATS", EPOCH, 2, 2)]
    with opened(tmp_path) as again:
        assert again.holes() == {"BEATS": 1}


def test_another_stream_of_the_same_name_is_refused_until_the_cursor_is_reset(tmp_path: Path) -> None:
    with opened(tmp_path) as projection:
        told(projection, BEATS)
        newer = beats_batch(stored([Beat(N1, "b1", 4, 30), Beat(N1, "b1", 3, 31)]), epoch="beats-2")

        with pytest.raises(EpochChangedError):
            projection.apply(newer)
        projection.reset_stream("BEATS", "beats-2")
        assert projection.cursors()["BEATS"] == Cursor("beats-2")
        projection.apply(newer)

        beat = projection.heartbeat(N1)
        assert beat is not None
        assert (beat.last_seq, beat.duplicates, beat.reordered, beat.beat_seq) == (4, 0, 1, 1)
        assert projection.cursors()["BEATS"].epoch == "beats-2"


def test_what_cannot_be_read_is_in_quarantine_whole_and_the_rest_is_folded(tmp_path: Path) -> None:
    facts = [LOG[0], LOG[1]._replace(payload=b'{"boot_id":'), LOG[2]]
    text = b'{"boot_id":"b1","seq":2,"used":{"cpu":"NaN"}}'
    odd = [(b"fleet.v1.beat.n1", text), (b"fleet.v1.beat.n1", b"\xff"), (b"fleet.v1.beat.x.y", b"{}")]
    beats = stored([Beat(N1, seq=1), *odd, Beat(N2, seq=1)])
    with opened(tmp_path) as projection:
        told(projection, facts, beats)

        assert asked(
            projection,
            "SELECT stream, seq, node_id, reason, field, body FROM fleet.quarantine ORDER BY stream, seq",
        ) == [
            ("BEATS", 2, "n1", "bad_type", "used.cpu", text),
            ("BEATS", 3, "n1", "not_utf8", "", b"\xff"),
            ("BEATS", 4, None, "invalid_subject", "", b"{}"),
            ("FLEET", 2, "n1", "not_json", "", b'{"boot_id":'),
        ]
        beat, state = projection.heartbeat(N1), projection.node(N1)
        assert beat is not None
        assert state is not None
        assert (beat.last_seq, state.version) == (2, 3)
        assert projection.heartbeat(N2) is not None


def test_subscribers_hear_of_each_commit_after_it(tmp_path: Path) -> None:
    heard: list[Applied] = []
    with opened(tmp_path) as projection:
        end = projection.subscribe(
            lambda applied: heard.append(applied) if projection.cursors()["FLEET"] else None
        )

        told(projection, LOG[:3], LOG[3:])
        end()
        end()
        told(projection, LOG)

    assert [(one.stream, one.cursor.seq, one.records) for one in heard] == [("FLEET", 3, 3), ("FLEET", 5, 2)]
    assert [set(one.nodes) for one in heard] == [{N1}, {N1, N2}]
    assert heard[0].announcements > 0


def test_announcements_are_numbered_in_order_over_batches_and_restarts(tmp_path: Path) -> None:
    for log in (LOG[:2], LOG[2:4], LOG[4:]):
        with opened(tmp_path) as projection:
            told(projection, log)
    with opened(tmp_path) as projection:
        rows = asked(projection, "SELECT seq, cause_seq, n FROM fleet.changes ORDER BY seq")

    assert [seq for seq, _, _ in rows] == list(range(1, len(rows) + 1))
    assert [(cause, n) for _, cause, n in rows] == sorted((cause, n) for _, cause, n in rows)
    assert {cause for _, cause, _ in rows} == {1, 2, 3, 4, 5}


def test_samples_that_are_too_old_are_forgotten_by_the_brokers_time(tmp_path: Path) -> None:
    settings = ProjectionSettings(usage_kept=timedelta(minutes=1))
    minute_us = 60_000_000
    beats = [Beat(N1, seq=n, at_us=n * minute_us // 2, used={"cpu": n}) for n in range(6)]
    bad = (b"fleet.v1.beat.n1", b"?")
    with closing(Projection.open(tmp_path / "store.duckdb", settings=settings)) as projection:
        for records in ([*stored([bad]), *stored(beats[:3], first=2)], stored(beats[3:], first=5)):
            projection.apply(beats_batch(records))

        assert asked(projection, "SELECT used FROM fleet.usage ORDER BY used") == [(3.0,), (4.0,), (5.0,)]
        assert asked(projection, "SELECT count(*) FROM fleet.quarantine") == [(0,)]


def test_readers_see_whole_transactions_while_the_writer_goes_on(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    done = threading.Event()
    with opened(tmp_path) as projection:

        def read() -> None:
            with closing(projection.cursor()) as cursor:
                while not done.is_set():
                    seen.extend(
                        cursor.execute(
                            "SELECT (SELECT count(*) FROM fleet.usage), "
                            "coalesce((SELECT seq FROM main.checkpoint WHERE stream = 'BEATS'), 0)"
                        ).fetchall()
                    )

        reader = threading.Thread(target=read)
        reader.start()
        for first in range(1, 400, 20):
            beats = [Beat("n1", seq=seq, used={"cpu": 1}) for seq in range(first, first + 20)]
            projection.apply(beats_batch(stored(beats, first=first)))
        done.set()
        reader.join()

    assert seen
    assert all(samples == seq for samples, seq in seen)


def whole_log(log: Log, cuts: list[int]) -> list[Log]:
    edges = sorted({0, len(log), *[one for one in cuts if 0 < one < len(log)]})
    return [log[begin:end] for begin, end in pairwise(edges)]


BEAT_LOGS = st.lists(
    st.builds(
        Beat, node=st.sampled_from(["n1", "x"]), boot_id=st.sampled_from(["b1", "b2"]), seq=st.integers(0, 4),
        at_us=st.integers(0, 9),
        used=st.none() | st.dictionaries(st.sampled_from(["cpu", "vm"]), st.integers(0, 9)),
        inventory=st.sampled_from([None, "d1"]),
    ),
    min_size=1, max_size=8,
)  # fmt: skip
ON_DISK = settings(max_examples=8, suppress_health_check=[HealthCheck.too_slow])
# Each example makes files.


@ON_DISK
@given(fact_logs(), BEAT_LOGS, st.lists(st.integers(1, 15), max_size=3))
def test_how_a_log_is_cut_into_batches_does_not_matter(log: Log, beats: list[Beat], cuts: list[int]) -> None:
    with (
        TemporaryDirectory() as folder,
        opened(Path(folder) / "a") as whole,
        opened(Path(folder) / "b") as parts,
    ):
        told(whole, log, stored(beats)) if log else told(whole, stored(beats))
        for some in whole_log(log, cuts):
            told(parts, some)
        for one in cut(stored(beats), cuts):
            parts.apply(one)

        assert everything(parts) == everything(whole)
        assert parts.cursors() == whole.cursors()


def test_conditions_of_other_nodes_and_of_the_clock_are_kept_over_a_restart(tmp_path: Path) -> None:
    query = "SELECT conditions FROM fleet.nodes ORDER BY node_id"
    log = placed(
        [
            said(Registered(boot_id="b1", seq=1, hostname="h", addresses=("10.0.0.1",), gates=("d",)), N1),
            said(Registered(boot_id="b1", seq=1, hostname="h", addresses=("10.0.0.1",)), N2),
        ]
    )
    beats = stored([Beat(N2, "b1", 2, 0, sent_at="2026-05-01T11:00:00Z")])
    shared = ["duplicate_address", "name_shared"]

    with opened(tmp_path) as projection:
        told(projection, log, beats)
        assert asked(projection, query) == [(["warming", *shared],), ([*shared, "clock_skew"],)]
    with opened(tmp_path) as projection:
        assert asked(projection, query) == [(["warming", *shared],), ([*shared, "clock_skew"],)]
        assert projection.conditions_shared(N1) == projection.conditions_shared(N2) == tuple(shared)
        assert projection.sharers(N1) == {
            ("duplicate_address", "10.0.0.1"): [N2],
            ("name_shared", "h"): [N2],
        }
        beat = projection.heartbeat(N2)
        assert beat is not None
        assert beat.skewed_since == NOON

        retired = placed([said(Retired(), N2)])[0]._replace(seq=3)
        told(projection, [retired])

        assert asked(projection, query) == [(["warming"],), ([],)]
        assert projection.conditions_shared(N1) == ()
        assert projection.sharers(N1) == {}


@ON_DISK
@given(fact_logs(max_size=16), st.lists(st.integers(1, 15), max_size=3))
def test_the_tables_hold_what_the_pure_fold_makes(log: Log, cuts: list[int]) -> None:
    expected = folded(log)
    with TemporaryDirectory() as folder, opened(Path(folder)) as projection:
        for some in whole_log(log, cuts):
            told(projection, some)

        capacity = {
            key: row for key, row in latest_capacity(expected.capacity_history).items() if row is not None
        }
        found = asked(
            projection,
            "SELECT node_id, resource, status, total, reserved, ratio, allocatable, allocated, free "
            "FROM fleet.capacity",
        )
        assert {row[:2]: row[2:] for row in found} == {key: row[2:9] for key, row in capacity.items()}
        assert len(found) == len(capacity)
        labels = [(*row[:4], row.cause_seq) for row in expected.label_history]
        assert Counter(asked(projection, LABELS)) == Counter(labels)
        devices = [row[:7] for rows in expected.devices.values() for row in rows]
        assert Counter(asked(projection, DEVICES)) == Counter(devices)
        allocations = [row[:4] for rows in expected.allocations.values() for row in rows]
        assert Counter(asked(projection, ALLOCATIONS)) == Counter(allocations)
        packed = {node: row.packed for node, row in expected.nodes.items()}
        assert dict(asked(projection, "SELECT node_id, packed FROM main.node")) == packed
        assert {node: projection.node(node) for node in packed} == {
            node: unpack(one) for node, one in packed.items()
        }
        assert len(asked(projection, "SELECT 1 FROM fleet.node_history")) == len(expected.node_history)
        assert len(asked(projection, "SELECT 1 FROM fleet.changes")) == len(expected.announcements)


@ON_DISK
@given(fact_logs(max_size=16), st.lists(st.integers(1, 15), max_size=3))
def test_sums_that_are_kept_are_sums_that_are_made_anew(log: Log, cuts: list[int]) -> None:
    with TemporaryDirectory() as folder, opened(Path(folder)) as projection:
        for some in whole_log(log, cuts):
            told(projection, some)

        with closing(projection.cursor()) as cursor:
            anew = load_sums(cursor)
            for group in ("resource", "zone", "pool", "region"):
                assert projection.capacity(group) == anew.by(group)
                assert projection.capacity(group) == capacity_at(cursor, NOON + timedelta(days=1), group)


@ON_DISK
@given(fact_logs(max_size=16), st.lists(st.integers(1, 15), max_size=3))
def test_news_in_memory_are_what_the_tables_say(log: Log, cuts: list[int]) -> None:
    with TemporaryDirectory() as folder, opened(Path(folder)) as projection:
        reached = [0]
        for some in whole_log(log, cuts):
            told(projection, some)
            reached.append(projection.cursors()["FLEET"].seq)

        with closing(projection.cursor()) as cursor:
            for after in reached[:-1]:
                news = projection.news.since(after, until=reached[-1], number_of=projection.number)
                asked_for = roster_tables.changes(cursor, after=after, path=projection.path)
                assert news is not None
                assert _in_order(news) == _in_order(asked_for)


def _in_order(said: Changes) -> tuple[object, ...]:
    """What facts said of nodes, whatever order it is said in."""
    rows = zip(*[list(column) for column in astuple(said.nodes)], strict=True)
    return sorted(rows, key=str), said.registrations, said.lost


def test_sums_count_nodes_that_do_not_say_apart(tmp_path: Path) -> None:
    with opened(tmp_path) as projection:
        told(projection, LOG)
        huge = {"memory": Resource(total=Decimal(10) ** 27)}
        more = [said(Registered(boot_id="b", seq=1, resources=huge), NodeId(f"m{at}")) for at in range(200)]
        told(projection, [record._replace(seq=record.seq + 5) for record in placed(more)])

        sums = {one.resource: one for one in projection.capacity()}
        assert sums["cpu"][2:] == (2, 0, Decimal(12), Decimal(0), Decimal(12), Decimal("2.5"), Decimal("9.5"))
        assert sums["gpu"] == CapacitySum("gpu", None, 1, 1, None, None, None, None, None)
        assert sums["memory"][2:5] == (201, 200, Decimal(2**63))
        assert [(one.resource, one.place) for one in projection.capacity("zone")] == [
            ("cpu", "z1"), ("cpu", "z2"), ("gpu", "z1"), ("memory", None), ("memory", "z1")
        ]  # fmt: skip
        with closing(projection.cursor()) as cursor:
            assert capacity_at(cursor, NOON + timedelta(days=1)) == projection.capacity()


def test_a_retired_node_is_in_no_sum_and_on_no_page(tmp_path: Path) -> None:
    with opened(tmp_path) as projection:
        told(projection, LOG, BEATS)
        retired = said(Retired(actor="ops"), N1)
        told(projection, [record._replace(seq=6) for record in placed([retired])])

        assert [(one.resource, one.total) for one in projection.capacity()] == [("cpu", Decimal(4))]
        assert [state.node_id for state in projection.nodes(limit=9)] == [N2]
        assert [state.node_id for state in projection.nodes(NodeFilter(include_retired=True), limit=9)] == [
            N1,
            N2,
        ]
        assert projection.count_by_state() == {"pending": 1, "retired": 1}
        assert projection.used() == {}
        assert asked(
            projection, "SELECT retired_at IS NOT NULL FROM fleet.nodes WHERE node_id = $n", {"n": N1}
        ) == [(True,)]


def test_what_is_used_is_summed_by_place(tmp_path: Path) -> None:
    with opened(tmp_path) as projection:
        told(projection, LOG, BEATS)
        told(projection, stored([Beat(N2, "b9", 1, 40, {"cpu": 3, "vm": 0})], first=4))

        assert projection.used() == {("cpu", None): 5.5, ("vm", None): 0.0}
        assert projection.used("zone") == {("cpu", "z1"): 2.5, ("cpu", "z2"): 3.0, ("vm", "z2"): 0.0}


def test_numbers_of_tables_that_are_no_more_are_refused(tmp_path: Path) -> None:
    with opened(tmp_path) as projection:
        told(projection, LOG, BEATS)
        numbers, openings = np.array([projection.number(N1)]), projection.openings
        assert projection.node_ids(numbers, openings=openings) == [N1]
        assert projection.beat_texts(numbers, openings=openings) == (["b1"], ["d1"])

        projection.reopen(why="test")
        told(projection, placed([said(REGISTERED, N2)]))

        with pytest.raises(StoreError, match="begun anew") as raised:
            projection.node_ids(numbers, openings=openings)
        with pytest.raises(StoreError, match="begun anew"):
            projection.beat_texts(numbers, openings=openings)
        assert not raised.value.is_fatal


def test_tables_that_were_closed_under_a_reader_are_named(tmp_path: Path) -> None:
    with opened(tmp_path) as projection:
        cursor, path = told(projection, LOG).cursor(), projection.path
        projection.reopen(why="test")

        for read in (
            lambda: roster_tables.everything(cursor, path=path),
            lambda: roster_tables.changes(cursor, after=1, path=path),
            lambda: roster_tables.digests_at(cursor, [1], path=path),
        ):
            with pytest.raises(StoreError, match=re.escape(f"the tables in {path} cannot be used")):
                read()


def test_when_every_node_was_last_heard_is_one_answer(tmp_path: Path) -> None:
    with opened(tmp_path) as projection:
        assert len(projection.contacts().beat_seqs) == 0
        told(projection, LOG, BEATS)

        contacts = projection.contacts()
        numbers = np.flatnonzero(contacts.beat_seqs)
        node_ids = projection.node_ids(numbers, openings=projection.openings)

        noon_us = 1_777_636_800_000_000
        assert dict(zip(node_ids, contacts.heard_us[numbers].tolist(), strict=True)) == {
            N1: noon_us + 20,
            "stranger": noon_us + 10,
        }


def test_records_of_a_stream_that_is_not_folded_are_refused(tmp_path: Path) -> None:
    with opened(tmp_path) as projection, pytest.raises(ValueError, match="CHANGES"):
        projection.apply(replace(batch_of(LOG), stream="CHANGES"))


def test_a_record_of_64_kib_and_a_name_of_any_letters_are_kept(tmp_path: Path) -> None:
    odd = NodeId("rack 2/ü.🦆:%*>")
    with opened(tmp_path) as projection:
        told(projection, placed([said(REGISTERED, odd)]), stored([Beat(odd, used={"ü": 1})]))
        told(projection, [Stored(2, 0, b"fleet.v1.beat.n1", b"x" * 70_000)])

        assert projection.node(odd) is not None
        query = "SELECT node_id, resource FROM fleet.nodes JOIN fleet.usage USING (node_id)"
        assert asked(projection, query) == [(odd, "ü")]
        assert asked(projection, "SELECT reason, octet_length(body) FROM fleet.quarantine") == [
            ("oversized", 70_000)
        ]


def test_the_file_is_written_seldom_while_the_log_is_far_ahead(tmp_path: Path) -> None:
    sizes = []
    with opened(tmp_path) as projection:
        for seq, pending in enumerate([0, BEHIND, BEHIND + 1, 10**9, 0], start=1):
            projection.apply(replace(beats_batch(stored([Beat(N1, seq=seq)], first=seq)), pending=pending))
            sizes += asked(projection, "SELECT current_setting('wal_autocheckpoint')")

    assert [size for (size,) in sizes] == ["61.0 MiB", "61.0 MiB", "488.2 MiB", "488.2 MiB", "61.0 MiB"]


def test_a_replica_whose_settings_are_locked_writes_its_file_seldom_as_well(tmp_path: Path) -> None:
    settings = ProjectionSettings(store=store_of(SqlSettings()))
    with closing(Projection.open(tmp_path / "replica.duckdb", settings=settings)) as projection:
        LockedCursors(projection.cursor, limits=SqlLimits())().close()
        projection.apply(replace(beats_batch(stored([Beat(N1, seq=1)])), pending=10**9))

        assert asked(projection, "SELECT current_setting('wal_autocheckpoint')") == [("122.0 MiB",)]


def test_a_log_that_is_far_ahead_is_folded_where_settings_are_locked(tmp_path: Path) -> None:
    with opened(tmp_path) as projection:
        asked(projection, "SET GLOBAL lock_configuration = true")

        for seq, pending in enumerate([10**9, 0], start=1):
            projection.apply(replace(beats_batch(stored([Beat(N1, seq=seq)], first=seq)), pending=pending))

        assert projection.cursors()["BEATS"].seq == 2
