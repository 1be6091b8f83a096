"""The feed of changes: pages, and streams over a real socket, from any position, cut anywhere."""

from __future__ import annotations

import random
import socket
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest

from api import feed_tail
from api.feed import Feed
from api.feed_models import ChangesAnswer
from events.facts import Cordoned
from events.ids import node_id
from events.log import Batch, Cursor
from tests.support.fleet import EPOCH, Fleet, fleet
from tests.support.following import Follower, after
from tests.support.strategies import said
from tests.support.waiting import wait_until
from tests.support.web import serving

pytestmark = pytest.mark.anyio
OTHER = "2026-02-02T00:00:00.000000002Z"


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Fleet]:
    with fleet(tmp_path) as made:
        yield made


@pytest.fixture
def address(served: Fleet) -> Iterator[str]:
    with serving(served.app) as url:
        try:
            yield url
        finally:
            feed_of(served).close()


def feed_of(served: Fleet) -> Feed:
    found: Feed = served.app.state.feed
    return found


def three_nodes(served: Fleet) -> None:
    for name in ("n1", "n2", "n3"):
        served.registered(name, resources={"cpu": {"total": 4}})


async def page(served: Fleet, query: str = "") -> dict[str, Any]:
    got = await served.get(f"/changes{query}")
    assert got.status == 200, got.body
    ChangesAnswer.model_validate_json(got.body)
    found: dict[str, Any] = got.json
    return found


async def everything(served: Fleet, query: str = "") -> list[str]:
    return [item["cursor"] for item in (await page(served, f"?limit=1000{query}"))["items"]]


async def test_pages_go_on_after_a_cursor_and_leave_nothing_out(served: Fleet) -> None:
    three_nodes(served)
    whole = await everything(served)
    assert whole == [f"{EPOCH}/{seq}/{n}" for seq in (1, 2, 3) for n in range(3)]

    read: list[str] = []
    cursor = "start"
    while True:
        found = await page(served, f"?limit=2&after={quote(cursor, safe='')}")
        read += [item["cursor"] for item in found["items"]]
        cursor = found["next_cursor"]
        if found["caught_up"]:
            break

    assert read == whole
    assert cursor == f"{EPOCH}/3"
    served.said("operator", "n2", "cordoned", owner="ops", actor="ada", reason="disk")
    more = await page(served, f"?after={quote(cursor, safe='')}")
    assert [(item["kind"], item["actor"], item["reason"]) for item in more["items"]] == [
        ("state", "ada", "disk"),
        ("intent", "ada", "disk"),
    ]


async def test_a_cursor_is_exclusive_and_every_change_is_one(served: Fleet) -> None:
    three_nodes(served)
    whole = await everything(served)

    for at, cursor in enumerate(whole):
        assert await everything(served, f"&after={quote(cursor, safe='')}") == whole[at + 1 :]
    assert await everything(served, f"&after={EPOCH}/2") == whole[6:]


@pytest.mark.parametrize("word", ["now", "latest"])
async def test_now_is_after_everything_so_far(served: Fleet, word: str) -> None:
    three_nodes(served)

    found = await page(served, f"?after={word}")
    served.registered("n4")

    assert (found["items"], found["next_cursor"]) == ([], f"{EPOCH}/3")
    later = await everything(served, f"&after={quote(found['next_cursor'], safe='')}")
    assert later == [f"{EPOCH}/4/0", f"{EPOCH}/4/1"]


async def test_an_empty_fleet_has_no_changes(served: Fleet) -> None:
    for query in ("", "?after=now", "?after=start"):
        found = await page(served, query)
        assert (found["items"], found["next_cursor"], found["caught_up"]) == ([], None, True)


async def test_changes_are_selected_by_node_and_kind(served: Fleet) -> None:
    three_nodes(served)
    served.said("operator", "n2", "cordoned", owner="ops")

    of_two = await page(served, "?node=n1&node=n2&kind=identity&kind=state.cordoned")
    by_pages = await page(served, "?kind=state&limit=2")

    assert [(item["node_id"], item["kind"], item["detail"]) for item in of_two["items"]] == [
        ("n1", "identity", "registered"),
        ("n2", "identity", "registered"),
        ("n2", "state", "cordoned"),
    ]
    assert [item["node_id"] for item in by_pages["items"]] == ["n1", "n2"]
    rest = await page(served, f"?kind=state&limit=2&after={quote(by_pages['next_cursor'], safe='')}")
    assert [(item["node_id"], item["detail"]) for item in rest["items"]] == [
        ("n3", "pending"),
        ("n2", "cordoned"),
    ]


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("after=nonsense", "invalid_cursor"),
        (f"after={EPOCH}/x", "invalid_cursor"),
        (f"after={EPOCH}/1/2/3", "invalid_cursor"),
        ("limit=0", "invalid_parameter"),
        ("kind=a%20b", "invalid_parameter"),
        ("node=", "invalid_node_id"),
        ("form=sse", "unknown_parameter"),
    ],
)
async def test_what_cannot_be_read_is_refused(served: Fleet, query: str, code: str) -> None:
    got = await served.get(f"/changes?{query}")

    assert (got.status, got.json["code"]) == (400, code)


async def test_a_cursor_of_another_log_is_gone_and_says_how_to_go_on(served: Fleet) -> None:
    three_nodes(served)

    got = await served.get(f"/changes?after={OTHER}/7")

    assert (got.status, got.json["code"]) == (410, "epoch_changed")
    assert (got.json["known"], got.json["found"], got.json["after"]) == (OTHER, EPOCH, f"{EPOCH}/0")
    assert (await served.get(got.json["snapshot"].removeprefix("/fleet/v1"))).status == 200


async def test_a_cursor_beyond_the_end_of_its_log_is_of_one_that_went_back(served: Fleet) -> None:
    three_nodes(served)

    got = await served.get(f"/changes?after={EPOCH}/900")

    assert (got.status, got.json["change"], got.json["after"]) == (410, "rewound", f"{EPOCH}/3")


async def test_facts_that_are_gone_are_a_frame_between_the_changes(served: Fleet) -> None:
    three_nodes(served)
    with_hole(served, low=4, high=9)
    served.registered("n4")

    found = await page(served, f"?after={EPOCH}/2")
    inside = await page(served, f"?after={EPOCH}/6")

    frames = [(item["frame"], item["cursor"]) for item in found["items"]]
    assert frames == [
        *[("change", f"{EPOCH}/3/{n}") for n in range(3)],
        ("gap", f"{EPOCH}/9"),
        *[("change", f"{EPOCH}/10/{n}") for n in range(2)],
    ]
    gap = found["items"][3]
    assert (gap["from"], gap["to"]) == (4, 9)
    assert (await served.get(gap["snapshot"].removeprefix("/fleet/v1"))).json["items"]
    assert (inside["items"][0]["from"], inside["items"][0]["to"]) == (7, 9)
    assert len(await everything(served, f"&after={EPOCH}/9")) == 2


async def test_what_a_flapping_node_flips_is_in_its_timeline_alone(served: Fleet) -> None:
    served.registered("n1")
    for verb in ["alive", *["lost", "alive"] * 10]:
        served.said("liveness", "n1", verb, boot_id="b1", **({} if verb == "alive" else LOST))

    states = [item["detail"] for item in (await page(served, "?kind=state"))["items"]]
    timeline = (await served.get("/nodes/n1/timeline?limit=1000")).json["items"]

    assert states == ["pending", "ready", "lost", "ready", "lost", "ready", "flapping"]
    assert len([item for item in timeline if item["kind"] == "state"]) == 2 + 20 + 1
    assert len([item for item in timeline if item["damped"]]) == 16
    assert "flapping" in (await served.get("/nodes/n1")).json["conditions"]


LOST = {"silent_s": 31, "grace_s": 30}


def with_hole(served: Fleet, *, low: int, high: int) -> None:
    """Cross records that the broker proved deleted."""
    at = served.projection.cursors()["FLEET"].stored_at_ns
    nothing = np.empty(0, np.int64)
    served.projection.apply(
        Batch("FLEET", nothing, nothing, [], [], Cursor(EPOCH, high, at), holes=((low, high),))
    )
    served._seqs["FLEET"] = high
    served.readings = {**served.readings, "FLEET": replace(served.readings["FLEET"], head=high)}


def test_a_stream_tells_what_was_says_so_and_goes_on_with_what_comes(served: Fleet, address: str) -> None:
    three_nodes(served)
    follower = Follower(address)

    caught_up = follower.read()
    thread = threading.Thread(target=served.registered, args=("n4",))
    thread.start()
    follower.read(until=f"{EPOCH}/4/1")
    thread.join()

    assert caught_up is not None
    assert caught_up.id == f"{EPOCH}/3"
    assert caught_up.data["as_of"]["seq"] == 3
    assert follower.changes == [f"{EPOCH}/{seq}/{n}" for seq in (1, 2, 3) for n in range(3)] + [
        f"{EPOCH}/4/{n}" for n in range(2)
    ]
    assert {event.id for event in follower.events if event.name == "change"} == set(follower.changes)


def test_a_thousand_cut_connections_lose_and_double_nothing(served: Fleet, address: str) -> None:
    chance = random.Random(7)
    names = [f"n{number}" for number in range(60)]
    written = threading.Event()

    def write() -> None:
        for name in names:
            served.registered(name, resources={"cpu": {"total": 4}})
        for number in range(240):
            verb = "lost" if number % 2 == 0 else "alive"
            about = names[number % 60]
            served.said("liveness", about, verb, **(LOST if verb == "lost" else {}))
        written.set()

    thread = threading.Thread(target=write)
    thread.start()
    feed_of(served).heartbeat_s = 0.002  # so that there is always something to cut, also live
    follower = Follower(address)
    while follower.connections < 1_000:
        until = chance.choice(["caught_up"] * 9 + ["never"])
        follower.read(until=until, most_bytes=chance.choice([1, 200, 300, 700, 1_500, 4_000]))
    thread.join()
    assert written.is_set()
    follower.read()

    whole = Follower(address)
    whole.read()
    assert follower.changes == whole.changes
    assert len(set(whole.changes)) == len(whole.changes) > 180
    wait_until(lambda: feed_of(served).tail.readers == 0, what="readers that left to be gone")


def test_the_header_of_a_reconnect_wins_over_the_query(served: Fleet, address: str) -> None:
    three_nodes(served)
    follower = Follower(address, query="?after=start")
    follower.position = f"{EPOCH}/2/2"

    follower.read()

    assert follower.changes == [f"{EPOCH}/3/{n}" for n in range(3)]


def test_a_stream_selects(served: Fleet, address: str) -> None:
    three_nodes(served)
    follower = Follower(address, query="?node=n2&kind=capacity.changed")
    caught_up = follower.read()

    assert follower.changes == [f"{EPOCH}/2/2"]
    assert caught_up is not None
    assert caught_up.id == f"{EPOCH}/3"


def test_gaps_and_another_log_are_frames_of_a_stream(served: Fleet, address: str) -> None:
    three_nodes(served)
    with_hole(served, low=4, high=6)
    one = Follower(address, query=after(f"{EPOCH}/3"))
    one.read()
    other = Follower(address, query=after(f"{OTHER}/7/1"))
    other.read()
    ahead = Follower(address, query=after(f"{EPOCH}/900"))
    ahead.read()

    assert [event.name for event in one.events] == ["gap", "caught_up"]
    assert other.events[0].name == "epoch"
    assert other.events[0].data["before"] == {"epoch": OTHER, "cursor": f"{OTHER}/7/1"}
    assert other.events[0].data["after"] == {"epoch": EPOCH, "cursor": f"{EPOCH}/0"}
    assert len(other.changes) == 9
    assert [(event.name, event.data.get("detail")) for event in ahead.events] == [
        ("epoch", "rewound"),
        ("caught_up", None),
    ]


def test_another_log_is_a_frame_for_one_who_follows_live(served: Fleet, address: str) -> None:
    three_nodes(served)
    follower = Follower(address)
    follower.read()

    def begin_anew() -> None:
        served.projection.reopen(why="another log")
        served.projection.apply(other_log())

    thread = threading.Thread(target=begin_anew)
    thread.start()
    frame = follower.read(until="epoch")
    thread.join()
    follower.read()

    assert frame is not None
    assert frame.data["after"]["epoch"] == OTHER
    assert follower.changes[-2:] == [f"{OTHER}/1/0", f"{OTHER}/1/1"]


def other_log() -> Batch:
    one = np.array([1], np.int64)
    body = b'{"boot_id":"b9","seq":1}'
    at = np.array([10**18], np.int64)
    return Batch("FLEET", one, at, [b"fleet.v1.agent.n1.registered"], [body], Cursor(OTHER, 1, 10**18))


def test_who_reads_too_slowly_catches_up_from_the_tables(
    served: Fleet, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed_tail, "MOST_FRAMES", 10)
    three_nodes(served)
    feed = feed_of(served)
    host, port = address.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=20) as link:
        link.sendall(b"GET /fleet/v1/changes/stream HTTP/1.1\r\nHost: test\r\n\r\n")
        found = b""
        while b"event: caught_up" not in found:
            found += link.recv(65_536)
        # Some 20 MB: more than all the buffers between us hold.
        for number in range(40):
            served.records([cordoned(f"m{number}-{each}") for each in range(10)])
        head = f"{EPOCH}/403"
        wait_until(lambda: str(feed.tail.end) == head, what="the tail")
        assert len(feed.tail._frames) <= 10
        held = Follower(address)
        held.read()
        while held.changes[-1].encode() not in found[-200_000:]:
            found += link.recv(1 << 20)

    ids = [line for line in found.split(b"\n") if line.startswith(b"id: ") and line.count(b"/") == 2]
    assert [line[4:].decode() for line in ids] == held.changes
    assert feed.fallbacks >= 1


def cordoned(node: str) -> tuple[str, bytes]:
    """A decision with a long reason."""
    return said(Cordoned(owner="ops", reason="x" * 20_000), node_id(node))


def test_a_heartbeat_moves_the_position_of_one_whose_filters_fit_nothing(served: Fleet, address: str) -> None:
    three_nodes(served)
    feed_of(served).heartbeat_s = 0.02
    follower = Follower(address, query="?kind=labels&after=now")
    follower.read()
    thread = threading.Thread(target=served.registered, args=("n4",))
    thread.start()
    events = follower._connection(2**62)
    reading = threading.Thread(target=lambda: [*events], daemon=True)
    reading.start()

    wait_until(lambda: follower.position == f"{EPOCH}/4", what="the position")

    thread.join()
    feed_of(served).close()
    reading.join(20)
    assert follower.comments > 0
    assert follower.changes == []


async def test_a_stream_asked_with_head_ends(served: Fleet) -> None:
    got = await served.get("/changes/stream", method="HEAD")

    assert (got.status, got.body) == (200, b"")
    assert got.headers["content-type"].startswith("text/event-stream")


@pytest.mark.parametrize("query", ["after=nonsense", "kind=-", "node="])
async def test_a_stream_that_cannot_begin_is_refused(served: Fleet, query: str) -> None:
    assert (await served.get(f"/changes/stream?{query}")).status == 400
