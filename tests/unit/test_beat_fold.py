from __future__ import annotations

from datetime import UTC, datetime, timedelta
from math import isnan

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from events.ids import NodeId
from events.log import Batch
from projections.beat_batch import BeatBatch, fold_beat_batch
from projections.heartbeats import MOST_MISSED, Heartbeat, Rows
from projections.node_index import NodeIndex
from projections.usage import LastUse, Resources
from tests.support.beating import Beat, Simple, Stored, beats_batch, cut, stored

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)


class Memory:
    """What beats are folded onto, without a store."""

    def __init__(self) -> None:
        self.index, self.rows, self.resources, self.last_use = NodeIndex(), Rows(), Resources(), LastUse()
        self.samples: list[tuple[str, str, int, float]] = []

    def apply(self, batch: Batch) -> BeatBatch:
        folded = fold_beat_batch(batch, self.index, self.rows, self.resources)
        self.index.add(folded.new_nodes)
        self.rows.put(folded.folded)
        self.last_use.hold(len(self.index))
        self.last_use.put(folded.contacts, folded.samples)
        self.resources.add(folded.samples.new_resources)
        columns = folded.samples
        self.samples += zip(
            self.index.node_ids(columns.numbers),
            [self.resources.names[at] for at in columns.resources.tolist()],
            columns.at_us.tolist(),
            columns.used.tolist(),
            strict=True,
        )
        return folded

    def heartbeat(self, node: str) -> Heartbeat:
        node_id = NodeId(node)
        number = self.index.number(node_id)
        assert number is not None
        found = self.rows.heartbeat(number, node_id, self.last_use.of(number, self.resources))
        assert found is not None
        return found


def folded(*beats: Beat) -> Memory:
    memory = Memory()
    memory.apply(beats_batch(stored(beats)))
    return memory


def test_the_first_beat_is_taken_whatever_its_number() -> None:
    beat = folded(Beat("n1", seq=17, at_us=5, used={"cpu": 2.5}, inventory="d1")).heartbeat("n1")

    assert beat == Heartbeat(
        node_id=NodeId("n1"),
        boot_id="b1",
        last_heartbeat_at=NOON + timedelta(microseconds=5),
        last_seq=17,
        beat_seq=1,
        missed=0,
        duplicates=0,
        reordered=0,
        other_boot=0,
        skew_ms=None,
        skewed_since=None,
        inventory="d1",
        previous_boots=(),
        used={"cpu": 2.5},
    )


def test_numbers_that_were_left_out_count_as_missed_until_they_come_late() -> None:
    beat = folded(Beat("n1", seq=1), Beat("n1", seq=5, at_us=7), Beat("n1", seq=3, at_us=9)).heartbeat("n1")

    assert (beat.missed, beat.reordered, beat.last_seq) == (2, 1, 5)
    assert beat.last_heartbeat_at == NOON + timedelta(microseconds=7)


def test_a_duplicate_changes_nothing_but_its_counter() -> None:
    once = folded(Beat("n1", seq=1, used={"cpu": 1}))
    twice = folded(
        Beat("n1", seq=1, used={"cpu": 1}), Beat("n1", seq=1, at_us=9, used={"cpu": 2}, inventory="d")
    )

    assert twice.heartbeat("n1") == once.heartbeat("n1")._replace(duplicates=1)
    assert twice.samples == once.samples


def test_a_new_boot_becomes_current_and_the_old_one_is_remembered() -> None:
    beat = folded(Beat("n1", "b1", 9, inventory="d1"), Beat("n1", "b2", 4, at_us=3)).heartbeat("n1")

    assert (beat.boot_id, beat.last_seq, beat.previous_boots) == ("b2", 4, ("b1",))
    assert beat.inventory is None
    assert beat.missed == 0


def test_two_boots_that_beat_in_turn_never_flip_the_row() -> None:
    beats = [Beat("n1", boot, seq, at_us=seq) for seq in range(1, 6) for boot in ("b1", "b2")]

    beat = folded(*beats).heartbeat("n1")

    assert (beat.boot_id, beat.last_seq, beat.other_boot) == ("b2", 5, 4)


def test_three_boots_that_beat_in_turn_never_flip_the_row_either() -> None:
    beats = [Beat("n1", boot, seq) for seq in range(1, 4) for boot in ("b1", "b2", "b3")]

    beat = folded(*beats).heartbeat("n1")

    assert (beat.boot_id, beat.previous_boots, beat.other_boot) == ("b3", ("b2", "b1"), 4)


def test_the_clock_of_a_node_is_measured_against_the_brokers() -> None:
    ahead = folded(Beat("n1", sent_at="2026-05-01T12:00:01.500Z")).heartbeat("n1")
    behind = folded(Beat("n1", sent_at="2026-04-30T12:00:00Z", at_us=2_000)).heartbeat("n1")
    silent = folded(Beat("n1", seq=1, sent_at="2026-05-01T12:00:01Z"), Beat("n1", seq=2)).heartbeat("n1")

    assert (ahead.skew_ms, behind.skew_ms, silent.skew_ms) == (1500, -86_400_002, None)


def test_a_clock_that_is_far_off_is_said_once_and_until_it_is_well_in_step_again() -> None:
    beats = [
        Beat("n1", seq=seq, at_us=10_000_000 * seq, sent_at=_noon(10 * seq + skew_s))
        for seq, skew_s in enumerate((0, 4.9, -5.0, 4.0, -3600, 2.1, 1.9, 4.9))
    ]

    found = []
    memory = Memory()
    for at, one in enumerate(stored(beats)):
        memory.apply(beats_batch([one._replace(seq=at + 1)]))
        since = memory.heartbeat("n1").skewed_since
        found.append(since and (since - NOON).total_seconds())

    assert found == [None, None, 20.0, 20.0, 20.0, 20.0, None, None]


def test_a_beat_that_does_not_say_when_it_was_sent_leaves_the_clock_as_it_was_judged() -> None:
    beats = [
        Beat("n1", "b1", 1, sent_at=_noon(-60)),
        Beat("n1", "b1", 2, at_us=1),
        Beat("n1", "b2", 1, at_us=2),
    ]

    assert folded(*beats[:2]).heartbeat("n1").skewed_since == NOON
    assert folded(*beats).heartbeat("n1").skewed_since is None


def _noon(after_s: float) -> str:
    return (NOON + timedelta(seconds=after_s)).isoformat()


def test_gaps_of_any_length_never_overflow_the_counter() -> None:
    big = 2**63 - 1

    beat = folded(
        Beat("n1", "b1", 0), Beat("n1", "b1", big), Beat("n1", "b2", 0), Beat("n1", "b2", big)
    ).heartbeat("n1")

    assert (beat.missed, beat.last_seq) == (MOST_MISSED, big)


def test_what_was_last_used_is_that_of_the_last_accepted_beat_alone() -> None:
    memory = folded(
        Beat("n1", seq=1, used={"cpu": 1, "gpu": 3}),
        Beat("n1", seq=2, used={"cpu": None, "memory": 7}),
        Beat("n1", seq=2, used={"cpu": 9}),
        Beat("n2", seq=1, used={f"r{at}": at for at in range(12)}),
    )

    assert memory.heartbeat("n1").used == {"cpu": None, "memory": 7.0}
    assert memory.heartbeat("n2").used == {f"r{at}": float(at) for at in range(12)}


def test_beats_are_counted_by_what_became_of_them() -> None:
    beats = [
        *[Beat("n1", boot, seq) for boot, seq in [("b1", 2), ("b1", 2), ("b1", 1), ("b2", 1), ("b1", 3)]],
        Beat("n2", used={"cpu": "1"}),
    ]
    records = [*stored(beats), Stored(7, 0, b"fleet.v1.beat.n3", b"?")]

    counters = Memory().apply(beats_batch(records)).counters

    assert counters == {
        "beats": 6,
        "accepted": 3,
        "duplicates": 1,
        "reordered": 1,
        "other_boot": 1,
        "unreadable": 1,
        "unreadable_values": 1,
    }


def test_a_record_that_cannot_be_read_goes_to_quarantine_whole() -> None:
    records = [Stored(4, 5_000, b"fleet.v1.beat.a%2Eb", b'{"boot_id":7}')]

    (row,) = Memory().apply(beats_batch(records)).quarantined

    assert (row.stream, row.seq, row.subject, row.node_id) == ("BEATS", 4, "fleet.v1.beat.a%2Eb", "a.b")
    assert (row.reason, row.field, row.body) == ("bad_type", "boot_id", b'{"boot_id":7}')
    assert row.stored_at == datetime(1970, 1, 1, 0, 0, 0, 5, tzinfo=UTC)


def test_names_beyond_the_limit_go_to_quarantine_and_the_beat_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("projections.usage.MOST_RESOURCES", 2)
    memory = Memory()

    made = memory.apply(
        beats_batch(stored([Beat("n1", used={"a": 1, "b": 2, "c": 3}), Beat("n2", used={"a": 4, "c": 5})]))
    )

    assert [(row.seq, row.reason, row.field) for row in made.quarantined] == [
        (1, "oversized", "used.c"),
        (2, "oversized", "used.c"),
    ]
    assert memory.heartbeat("n1").used == {"a": 1.0, "b": 2.0}
    assert memory.heartbeat("n2").used == {"a": 4.0}


BEATS = st.lists(
    st.builds(
        Beat,
        node=st.sampled_from(["n1", "n2", "rack 2/n.3"]),
        boot_id=st.sampled_from(["b1", "b1", "b2", "b3"]),
        seq=st.one_of(st.integers(0, 6), st.just(2**63 - 1)),
        at_us=st.integers(0, 50),
        used=st.none() | st.dictionaries(st.sampled_from(["cpu", "gpu"]), st.none() | st.integers(0, 9)),
        inventory=st.sampled_from([None, "d1", "d2"]),
    ),
    max_size=14,
)  # fmt: skip


@settings(max_examples=60)
@given(BEATS)
def test_the_fold_of_columns_is_the_fold_of_beats_one_by_one(beats: list[Beat]) -> None:
    memory, simple = Memory(), {beat.node: Simple() for beat in beats}
    samples = []
    for batch in cut(stored(beats), [len(beats)]) if beats else []:
        memory.apply(batch)
    for stream_seq, beat in enumerate(beats, start=1):
        if simple[beat.node].fold(beat, stream_seq):
            samples += [(beat.node, name, value) for name, value in (beat.used or {}).items()]

    for node, expected in simple.items():
        found = memory.heartbeat(node)
        assert (
            found.boot_id, found.last_seq, found.beat_seq, found.missed, found.duplicates,
            found.reordered, found.other_boot, found.inventory, list(found.previous_boots),
        ) == (
            expected.boot_id, expected.last_seq, expected.beat_seq, expected.missed, expected.duplicates,
            expected.reordered, expected.other_boot, expected.inventory, expected.previous,
        )  # fmt: skip
        assert found.last_heartbeat_at == NOON + timedelta(microseconds=expected.at_us)
    assert [(node, name, None if isnan(used) else used) for node, name, _, used in memory.samples] == samples


@settings(max_examples=60)
@given(BEATS, st.lists(st.integers(0, 14), max_size=4))
def test_how_a_log_of_beats_is_cut_into_batches_does_not_matter(beats: list[Beat], cuts: list[int]) -> None:
    records = stored(beats)
    whole, parts = Memory(), Memory()
    for batch in cut(records, []) if records else []:
        whole.apply(batch)
    for batch in cut(records, cuts) if records else []:
        parts.apply(batch)

    nodes = {beat.node for beat in beats}
    assert {node: parts.heartbeat(node) for node in nodes} == {node: whole.heartbeat(node) for node in nodes}
    assert repr(parts.samples) == repr(whole.samples)
    assert parts.resources.names == whole.resources.names


@settings(max_examples=60)
@given(BEATS, st.data())
def test_duplicates_change_nothing(beats: list[Beat], data: st.DataObject) -> None:
    once, again = Memory(), Memory()
    doubled = [copy for beat in beats for copy in [beat] * data.draw(st.integers(1, 3))]
    for memory, some in ((once, beats), (again, doubled)):
        for batch in cut(stored(some), []) if some else []:
            memory.apply(batch)

    for node in {beat.node for beat in beats}:
        told, retold = once.heartbeat(node), again.heartbeat(node)
        counters = {"beat_seq": 0, "duplicates": 0, "reordered": 0, "other_boot": 0, "missed": 0}
        assert retold._replace(**counters) == told._replace(**counters)
    assert repr(again.samples) == repr(once.samples)
