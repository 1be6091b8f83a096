"""What is announced as bytes, and the positions in it."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from consumers.changes_stream import MOST_BYTES, MOST_MESSAGES, batches_of
from events.announcements import (
    EPOCH,
    MAX_SIDE_CHARS,
    Announcement,
    Message,
    encode,
    encode_break,
    read_told,
)
from events.change_cursor import ChangeCursor, parse_cursor
from events.ids import NodeId
from events.subjects import CHANGES_SUBJECTS, NO_NODE, token
from projections.rows import AnnouncementRow
from tests.support.folding import folded
from tests.support.strategies import NOON, Log, fact_logs

A_LOG = "2026-05-01T12:00:00.123456789Z"
cursors = st.builds(
    ChangeCursor,
    st.sampled_from([A_LOG, "epoch"]),
    st.integers(0, 2**53),
    st.none() | st.integers(0, 10**9 - 1),
).map(lambda cursor: cursor if cursor.n is not None else ChangeCursor(cursor.epoch, cursor.seq))


def announcement(**changed: object) -> Announcement:
    one = Announcement(
        A_LOG, 17, 1, NOON, NodeId("a/b"), "state", "lost", '{"state":"ready"}', '{"state":"lost"}',
        "liveness", "silent", "fleetfold.liveness.lost.v1", NOON - timedelta(microseconds=1),
    )  # fmt: skip
    return one._replace(**changed)  # type: ignore[arg-type]


def told(row: AnnouncementRow) -> Message:
    return encode(Announcement(A_LOG, *row[:10], "fleetfold.agent.registered.v1", row.at))


@given(cursors)
def test_a_position_as_text_is_that_position(cursor: ChangeCursor) -> None:
    assert parse_cursor(str(cursor)) == cursor


@given(st.text(max_size=40))
def test_a_text_is_a_position_or_is_refused(text: str) -> None:
    try:
        cursor = parse_cursor(text)
    except ValueError:
        return
    assert parse_cursor(str(cursor)) == cursor


@pytest.mark.parametrize("text", ["", "/", "e/", "e/x", "e/-1", "e/1/", "e/1/2/3", "e e/1", "e/1\n", "١/١"])
def test_what_is_no_position_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no position"):
        parse_cursor(text)


def test_positions_of_one_log_are_ordered() -> None:
    order = ["e/0", "e/1/0", "e/1/1", "e/1", "e/2/0", "e/10"]

    assert sorted(map(parse_cursor, reversed(order))) == [parse_cursor(text) for text in order]


@settings(max_examples=40)
@given(fact_logs())
def test_the_same_log_is_announced_in_the_same_bytes(log: Log) -> None:
    """Law 12, to the end: what a subscriber reads."""
    rows = [row for row in folded(log).announcements if not row.damped]

    messages = [told(row) for row in rows]

    assert messages == [
        told(row) for row in folded(log, cuts=range(len(log))).announcements if not row.damped
    ]
    for one, next_one in pairwise(messages):
        assert one.cursor < next_one.cursor
    for row, message in zip(rows, messages, strict=True):
        event = orjson.loads(message.payload)
        assert event["id"] == event["data"]["cursor"] == str(message.cursor)
        assert (event["data"]["before"], event["data"]["after"]) == (
            orjson.loads(row.before),
            orjson.loads(row.after),
        )
        found = read_told(message.payload)
        assert found is not None
        assert found == (message.cursor, row.at)


def test_what_is_too_long_is_left_out_and_named() -> None:
    data = orjson.loads(encode(announcement(before=f'"{"x" * MAX_SIDE_CHARS}"')).payload)["data"]

    assert (data["before"], data["after"], data["omitted"]) == (None, {"state": "lost"}, ["before"])


def test_another_log_is_told_on_the_subject_of_no_node() -> None:
    message = encode_break(
        EPOCH, before=ChangeCursor("e1", 7, 0), after=ChangeCursor("e2", 0), cause_at=None, record=9,
        time=NOON, why="made again",
    )  # fmt: skip

    assert message.subject == "fleet.v1.node.~.log.epoch"
    assert message.subject.count(".") == CHANGES_SUBJECTS[0].count(".")
    assert token(NodeId(NO_NODE)) != NO_NODE
    found = read_told(message.payload)
    assert found is not None
    assert (str(found.cursor), found.cause_at) == ("e2/0", None)


@given(
    st.binary(max_size=60) | st.builds(orjson.dumps, st.dictionaries(st.text(max_size=6), st.integers(0, 9)))
)
def test_what_no_announcer_wrote_is_none(payload: bytes) -> None:
    assert read_told(payload) is None


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(1, 3_000_000)), max_size=40))
def test_announcements_of_one_fact_are_appended_together(facts: list[tuple[int, int]]) -> None:
    messages = [
        Message("s", b"x" * (size // 1_000), ChangeCursor("e", seq, n))
        for seq, (count, size) in enumerate(facts, 1)
        for n in range(count)
    ]

    parts = batches_of(messages)

    assert [message for part in parts for message in part] == messages
    for one, next_one in pairwise(parts):
        assert one[-1].cursor.seq < next_one[0].cursor.seq
    assert all(0 < len(part) <= MOST_MESSAGES for part in parts)


def test_a_batch_is_bounded() -> None:
    many = [Message("s", b"x" * 10_000, ChangeCursor("e", seq, 0)) for seq in range(2_500)]

    parts = batches_of(many)

    assert all(sum(len(message.payload) for message in part) <= MOST_BYTES for part in parts)
    assert [message for part in parts for message in part] == many
