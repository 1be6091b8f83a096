"""What is still in memory of the last announcements is what the tables would say, or is not in there."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from events.change_cursor import ChangeCursor
from projections.change_queries import changes
from projections.latest import MOST_AT_ONCE, MOST_CHUNKS, ChangesPage
from tests.support.fleet import EPOCH, Fleet, fleet


def both(served: Fleet, *, seq: int, number: int) -> tuple[ChangesPage | None, ChangesPage]:
    after = ChangeCursor(EPOCH, seq)
    with closing(served.projection.cursor()) as cursor:
        asked = changes(cursor, after=after, number=number, limit=10_000)
    return served.projection.latest.page(after=after, number=number), asked


def test_memory_says_what_the_tables_say(tmp_path: Path) -> None:
    with fleet(tmp_path) as served:
        for name in ("n1", "n2"):
            served.registered(name, resources={"cpu": {"total": 4}})
        for verb in ["alive", *["lost", "alive"] * 5]:
            served.said(
                "liveness", "n1", verb, **({} if verb == "alive" else {"silent_s": 31, "grace_s": 30})
            )
        served.record("fleet.v1.agent.n1.registered", b"nobody can read this")

        for seq, number in ((0, 0), (1, 3), (2, 6)):
            kept, asked = both(served, seq=seq, number=number)
            assert kept == asked


def test_what_is_in_the_middle_of_a_batch_or_too_old_is_asked_of_the_tables(tmp_path: Path) -> None:
    with fleet(tmp_path) as served:
        served.registered("n1", resources={"cpu": {"total": 4}})
        assert both(served, seq=1, number=1)[0] is None
        for number in range(MOST_CHUNKS):
            served.registered(f"m{number}")

        assert both(served, seq=0, number=0)[0] is None
        assert both(served, seq=1, number=3)[0] == both(served, seq=1, number=3)[1]


def test_a_backlog_is_not_kept(tmp_path: Path) -> None:
    with fleet(tmp_path) as served:
        body = b'{"boot_id":"b1","seq":1}'
        many = [(f"fleet.v1.agent.n{number}.registered", body) for number in range(MOST_AT_ONCE)]
        served.records(many)
        served.registered("last")

        assert both(served, seq=0, number=0)[0] is None
        assert both(served, seq=MOST_AT_ONCE, number=2 * MOST_AT_ONCE)[0] is not None


def test_tables_begun_anew_have_nothing_of_the_ones_before(tmp_path: Path) -> None:
    with fleet(tmp_path) as served:
        served.registered("n1")
        served.projection.reopen(why="a test")

        assert served.projection.latest.page(after=ChangeCursor(EPOCH, 0), number=0) is None
