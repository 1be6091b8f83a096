from __future__ import annotations

import json
import math
from collections.abc import Sequence
from datetime import UTC, datetime

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from events.heartbeats import NOT_SAID, BeatColumns, decode_beats
from events.ids import node_id
from events.log import Batch, Cursor
from events.odd_beats import MAX_BEAT_BYTES
from events.subjects import beat_subject

SENT_AT = datetime(2026, 1, 10, 19, 18, 0, 537025, tzinfo=UTC)
SENT_US = 1_768_072_680_537_025


def batch(payloads: Sequence[bytes], subjects: Sequence[bytes] | None = None) -> Batch:
    size = len(payloads)
    return Batch(
        stream="BEATS",
        seqs=np.arange(1, size + 1, dtype=np.int64),
        stored_at_ns=np.arange(size, dtype=np.int64),
        subjects=list(subjects or [b"fleet.v1.beat.n1"] * size),
        payloads=list(payloads),
        cursor=Cursor("e", size, size - 1),
    )


def beat(**members: object) -> bytes:
    return orjson.dumps({"boot_id": "b1", "seq": 1, **members})


def decoded(*payloads: bytes) -> BeatColumns:
    return decode_beats(batch(payloads))


def rejected(columns: BeatColumns) -> list[tuple[int, str, str]]:
    return [(one.row, one.reason, one.field) for one in columns.rejected]


def test_a_usual_beat_becomes_one_row_of_each_column() -> None:
    columns = decoded(
        beat(
            seq=17,
            sent_at="2026-01-10T19:18:00.537025Z",
            inventory="32fb4ce2325b0466",
            used={"cpu": 3.25, "memory": 81604378624},
        )
    )

    assert columns.boot_ids == ["b1"]
    assert columns.seqs.tolist() == [17]
    assert columns.sent_us.tolist() == [SENT_US]
    assert columns.inventories == ["32fb4ce2325b0466"]
    assert columns.sample_beats.tolist() == [0, 0]
    assert columns.sample_names == ["cpu", "memory"]
    assert columns.sample_values.tolist() == [3.25, 81604378624.0]
    assert (columns.rejected, dict(columns.warnings)) == ((), {})


def test_a_beat_of_boot_and_seq_alone_is_enough() -> None:
    columns = decoded(b'{"boot_id":"b1","seq":0}')

    assert columns.rows.tolist() == [0]
    assert columns.sent_us.tolist() == [NOT_SAID]
    assert columns.inventories == [None]
    assert columns.sample_names == []


def test_an_empty_batch_has_empty_columns() -> None:
    columns = decoded()

    assert len(columns.rows) == len(columns.boot_ids) == len(columns.sample_values) == 0


@pytest.mark.parametrize(
    ("payload", "reason", "field"),
    [
        (b"", "not_json", ""),
        (b"beat", "not_json", ""),
        (b'{"boot_id":"b1","seq":1', "not_json", ""),
        (b'{"boot_id":"b1","seq":1}{', "not_json", ""),
        (b'{"boot_id":"b1","seq":1},{"boot_id":"b2","seq":2}', "not_json", ""),
        (b'\xef\xbb\xbf{"boot_id":"b1","seq":1}', "not_json", ""),
        (b'{"boot_id":"b\xff1","seq":1}', "not_utf8", ""),
        (b'{"boot_id":"\\ud800","seq":1}', "not_utf8", ""),
        (b'[{"boot_id":"b1","seq":1}]', "not_an_object", ""),
        (b'"text"', "not_an_object", ""),
        (b"null", "not_an_object", ""),
        (b"{}", "missing", "boot_id"),
        (b'{"seq":1}', "missing", "boot_id"),
        (b'{"boot_id":null,"seq":1}', "missing", "boot_id"),
        (b'{"boot_id":"b1"}', "missing", "seq"),
        (b'{"boot_id":17,"seq":1}', "bad_type", "boot_id"),
        (b'{"boot_id":"","seq":1}', "bad_type", "boot_id"),
        (b'{"boot_id":"' + b"b" * 257 + b'","seq":1}', "oversized", "boot_id"),
        (b'{"boot_id":"' + "ü".encode() * 129 + b'","seq":1}', "oversized", "boot_id"),
        (b'{"boot_id":"b1","seq":"1"}', "bad_type", "seq"),
        (b'{"boot_id":"b1","seq":1.5}', "bad_type", "seq"),
        (b'{"boot_id":"b1","seq":true}', "bad_type", "seq"),
        (b'{"boot_id":"b1","seq":-1}', "bad_type", "seq"),
        (b'{"boot_id":"b1","seq":NaN}', "bad_type", "seq"),
        (b'{"boot_id":"b1","seq":9223372036854775808}', "bad_type", "seq"),
        (b'{"boot_id":"b1","seq":99999999999999999999999}', "bad_type", "seq"),
        (b'{"boot_id":"b1","boot_id":"b2","seq":1}', "duplicate_key", "boot_id"),
        (b'{"boot_id" :"b1","boot_id":"b2","seq":1}', "duplicate_key", "boot_id"),
        (b'{"boot_id"\n:"b1","seq":1,"seq"\t:2}', "duplicate_key", "seq"),
        (b'{"boot_id":"b1","seq":1,"used":{"cpu":1,"cpu":2}}', "duplicate_key", "cpu"),
        (b'{"boot_id":"b1","seq":1,"x":{"y":1,"y":2}}', "duplicate_key", "y"),
        (b'{"boot_id":"b1","seq":1,"node_id":"n2"}', "subject_mismatch", "node_id"),
        (b'{"boot_id":"b1","seq":1,"node_id":1}', "subject_mismatch", "node_id"),
        (b'{"boot_id":"b1","seq":1,"x":' + b"[" * 2000 + b"]" * 2000 + b"}", "too_deep", ""),
        (b'{"boot_id":"b1","seq":1,"x":"' + b"x" * MAX_BEAT_BYTES + b'"}', "oversized", ""),
    ],
)
def test_a_beat_that_cannot_be_read_is_rejected_whole_and_its_neighbours_are_not(
    payload: bytes, reason: str, field: str
) -> None:
    columns = decoded(beat(seq=1), payload, beat(seq=3))

    assert rejected(columns) == [(1, reason, field)]
    assert columns.rows.tolist() == [0, 2]
    assert columns.seqs.tolist() == [1, 3]


@pytest.mark.parametrize(
    "subject",
    [b"fleet.v1.beat.", b"fleet.v1.beat.a.b", b"fleet.v1.beat.a%2e", b"fleet.v1.beat.\xff",
     b"fleet.v1.beat.a%FF",
     b"fleet.v1.beat.e%CC%81", b"other"],
)  # fmt: skip
def test_a_beat_on_a_subject_that_is_not_spelled_rightly_is_rejected_whole(subject: bytes) -> None:
    columns = decode_beats(batch([beat(), beat()], [b"fleet.v1.beat.n1", subject]))

    assert rejected(columns) == [(1, "invalid_subject", "")]
    assert columns.rejected[0].node_id is None
    assert columns.rows.tolist() == [0]


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b'"NaN"', "bad_type"),
        (b"true", "bad_type"),
        (b"[1]", "bad_type"),
        (b'{"total":1}', "bad_type"),
        (b'"1"', "bad_type"),
    ],
)
def test_a_value_of_another_type_is_rejected_alone_and_the_beat_counts(value: bytes, reason: str) -> None:
    columns = decoded(b'{"boot_id":"b1","seq":5,"used":{"cpu":' + value + b',"memory":7}}')

    assert rejected(columns) == [(0, reason, "used.cpu")]
    assert columns.seqs.tolist() == [5]
    assert columns.sample_names == ["memory"]


def test_what_is_told_of_a_value_is_the_same_in_every_process() -> None:
    columns = decoded(b'{"boot_id":"b1","seq":NaN}', b'{"boot_id":"b1","seq":1,"inventory":[NaN]}')

    assert [one.detail for one in columns.rejected] == ["not a number", "[not a number]"]


@pytest.mark.parametrize("value", [b"NaN", b"Infinity", b"-Infinity", b"1e999", b"1" + b"0" * 400])
def test_a_number_that_is_none_is_unknown_and_counted(value: bytes) -> None:
    columns = decoded(b'{"boot_id":"b1","seq":5,"used":{"cpu":' + value + b',"memory":7}}')

    assert columns.sample_names == ["cpu", "memory"]
    assert math.isnan(columns.sample_values[0])
    assert dict(columns.warnings) == {"not_reported": 1}
    assert columns.rejected == ()


def test_unknown_absent_and_zero_stay_three_things() -> None:
    columns = decoded(beat(used={"cpu": None, "memory": 0}))

    assert columns.sample_names == ["cpu", "memory"]
    assert math.isnan(columns.sample_values[0])
    assert columns.sample_values[1] == 0.0
    assert dict(columns.warnings) == {}


@pytest.mark.parametrize("used", [[], "x", 3])
def test_used_that_is_no_object_is_rejected_alone(used: object) -> None:
    columns = decoded(beat(used=used))

    assert rejected(columns) == [(0, "bad_type", "used")]
    assert columns.rows.tolist() == [0]


def test_an_inventory_that_is_no_digest_is_rejected_alone() -> None:
    columns = decoded(beat(inventory=5), beat(inventory="x" * 65), beat(inventory="x" * 64))

    assert rejected(columns) == [(0, "bad_type", "inventory"), (1, "bad_type", "inventory")]
    assert columns.inventories == [None, None, "x" * 64]


def test_the_name_of_a_resource_has_a_limit() -> None:
    columns = decoded(beat(used={"x" * 257: 1, "": 2, "cpu": 3}))

    assert [(one.reason, one.field[:8]) for one in columns.rejected] == [
        ("oversized", "used.xxx"),
        ("missing", "used."),
    ]
    assert columns.sample_names == ["cpu"]


@pytest.mark.parametrize(
    ("text", "sent_us"),
    [
        ("2026-01-10T19:18:00.537025Z", SENT_US),
        ("2026-01-10T19:18:00.537025999Z", SENT_US),
        ("2026-01-10t19:18:00.537025z", SENT_US),
        ("2026-01-10T20:18:00.537025+01:00", SENT_US),
        ("2026-01-10T19:18:00.537025", SENT_US),
        ("9999-12-31T23:59:59Z", 253_402_300_799_000_000),
        ("2262-04-12T00:00:00Z", 9_223_372_800_000_000),
    ],
)
def test_sent_at_is_read_in_every_usual_spelling(text: str, sent_us: int) -> None:
    alone, beside_none = decoded(beat(sent_at=text)), decoded(beat(sent_at=text), beat())

    assert alone.sent_us.tolist() == [sent_us]
    assert beside_none.sent_us.tolist() == [sent_us, NOT_SAID]
    assert dict(alone.warnings) == dict(beside_none.warnings) == {}


@pytest.mark.parametrize("mark", ["\u00df", "\u0149", "z", "t"])
def test_an_odd_mark_between_day_and_hour_means_the_same_in_any_batch(mark: str) -> None:
    text = f"2026-01-10{mark}19:18:00.537025Z"

    alone, beside_none = decoded(beat(sent_at=text)), decoded(beat(sent_at=text), beat())

    assert beside_none.sent_us.tolist() == [*alone.sent_us.tolist(), NOT_SAID]
    assert dict(alone.warnings) == dict(beside_none.warnings)


@pytest.mark.parametrize(
    "value", ["yesterday", "", "2026-02-30T00:00:00Z", "10000-01-01T00:00:00Z", 1768072680, True]
)
def test_a_time_that_cannot_be_read_counts_as_not_said(value: object) -> None:
    columns = decoded(beat(sent_at=value), beat(sent_at="2026-01-10T19:18:00.537025Z"))

    assert columns.sent_us.tolist() == [NOT_SAID, SENT_US]
    assert dict(columns.warnings) == {"time_out_of_range": 1}
    assert columns.rejected == ()


def test_payloads_that_complete_each_other_are_two_unreadable_ones() -> None:
    columns = decoded(b'{"boot_id":"b1","seq":1', b'"x":{"boot_id":"b2","seq":2}}', b'1},{"x":1')

    assert rejected(columns) == [(0, "not_json", ""), (1, "not_json", ""), (2, "not_json", "")]
    assert len(columns.rows) == 0


def test_unknown_members_and_white_space_change_nothing() -> None:
    columns = decoded(
        b' {"boot_id" : "b1",\n"seq": 4, "extra": {"a": [1, {"b": 2}]}, '
        b'"text": "a \\":\\" b : c", "node_id": "n1"}\n'
    )

    assert columns.seqs.tolist() == [4]
    assert columns.rejected == ()


def test_two_faults_do_not_hide_each_other() -> None:
    doubled = b'{"boot_id":"b1","boot_id":"b2","seq":1}'
    spaced = b'{"boot_id" :"b1","seq" :2}'

    columns = decoded(doubled, spaced, spaced, doubled)

    assert rejected(columns) == [(0, "duplicate_key", "boot_id"), (3, "duplicate_key", "boot_id")]
    assert columns.seqs.tolist() == [2, 2]


VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.integers(0, 50), st.floats(), st.text(max_size=5),
    st.sampled_from(["b1", "n1", "2026-01-10T19:18:00Z", "2026-01-10T19:18:00+02:00", "20260110T191800Z"]),
    st.dictionaries(
        st.sampled_from(["cpu", "memory", 'a":', ""]), st.one_of(st.none(), st.floats(), st.booleans())
    ),
)  # fmt: skip
OBJECTS = st.dictionaries(
    st.sampled_from(["boot_id", "seq", "sent_at", "inventory", "used", "node_id", "x", 'y" :']), VALUES
)
PLAIN = OBJECTS.map(lambda members: {"boot_id": "b1", "seq": 1, **members})
BODIES = st.one_of(
    st.one_of(PLAIN, OBJECTS).flatmap(
        lambda doc: st.sampled_from(
            [json.dumps(doc), json.dumps(doc, separators=(",", ":")), json.dumps(doc, indent=1)]
        )
    ).map(str.encode),
    st.binary(max_size=20),
    st.sampled_from([b"1},{", b'{"seq":1,"boot_id":"b1","seq":2}', b"[]", b"{"]),
)  # fmt: skip


@given(st.lists(BODIES, max_size=6))
def test_which_beats_share_a_batch_does_not_matter(bodies: list[bytes]) -> None:
    together = decode_beats(batch(bodies), known={beat_subject(node_id("n1")).encode()})

    alone = [decode_beats(batch([body])) for body in bodies]
    kept = [row for row, one in enumerate(alone) if len(one.rows)]
    assert together.rows.tolist() == kept
    assert together.boot_ids == [boot for one in alone for boot in one.boot_ids]
    assert together.seqs.tolist() == [seq for one in alone for seq in one.seqs.tolist()]
    assert together.sent_us.tolist() == [us for one in alone for us in one.sent_us.tolist()]
    assert together.inventories == [text for one in alone for text in one.inventories]
    assert together.sample_names == [name for one in alone for name in one.sample_names]
    np.testing.assert_array_equal(
        together.sample_values, np.concatenate([np.empty(0), *(one.sample_values for one in alone)])
    )
    assert rejected(together) == [
        (row, r.reason, r.field) for row, one in enumerate(alone) for r in one.rejected
    ]
    assert sum(together.warnings.values()) == sum(sum(one.warnings.values()) for one in alone)


@given(BODIES)
def test_whatever_a_body_holds_it_is_a_beat_or_rejected_with_a_reason(body: bytes) -> None:
    columns = decode_beats(batch([body]))

    assert len(columns.rows) == 1 or [one.reason for one in columns.rejected]
    assert len(columns.boot_ids) == len(columns.seqs) == len(columns.sent_us) == len(columns.rows)
    assert len(columns.sample_names) == len(columns.sample_values) == len(columns.sample_beats)
    assert not np.isinf(columns.sample_values).any()
