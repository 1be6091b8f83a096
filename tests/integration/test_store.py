from __future__ import annotations

import logging
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import duckdb
import pytest

from events.errors import StoreError
from events.facts import Registered
from events.ids import NodeId
from projections import damaged, set_aside
from projections import store as stores
from projections.arrow_rows import arrow_rows
from projections.damaged import spilled_of, wal_of
from projections.projection import Projection, ProjectionSettings
from projections.store import Store, StoreSettings
from projections.tables import HEARTBEAT_BOOT
from tests.support.beating import Beat, stored
from tests.support.stored import asked, everything, told
from tests.support.strategies import placed, said
from tests.support.writing_child import BEATS, FACTS, NODES, node

LEAVE = 50
"""After so many commits a file holds blocks, and its WAL a few commits more."""
HEARD = "SELECT node_id, last_seq, beat_seq FROM fleet.heartbeats ORDER BY beat_seq"
KNOWN = """
    SELECT n.node_id, n.version, c.total::INTEGER
    FROM fleet.nodes AS n
    JOIN fleet.capacity AS c ON c.node_id = n.node_id
    ORDER BY n.version
"""
HOLD = "import duckdb, sys; held = duckdb.connect(sys.argv[1]); print('held', flush=True); sys.stdin.read()"
SOME_BEATS = stored([Beat("n1", seq=1, used={"cpu": 1}), Beat("n2", seq=7)])
SOME_FACTS = placed([said(Registered(boot_id="b1", seq=1), NodeId("n1"))])


def write_and_die(path: Path, *, after_s: float = 60, commits: int = 10**6) -> dict[str, int]:
    """Let a process write until it dies; return the last positions that it saw committed."""
    died = subprocess.run(
        [sys.executable, "-m", "tests.support.writing_child", str(path), f"{after_s}", f"{commits}"],
        capture_output=True,
        check=False,
        text=True,
    )
    assert died.returncode == -9, died.stderr
    lines = [line.split() for line in died.stdout.splitlines()]
    return {stream: int(seq) for stream, seq in (line for line in lines if len(line) == 2)}


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with blocks and a WAL, as a killed process leaves it. Not to be opened: copies are."""
    path = tmp_path_factory.mktemp("killed") / "store.duckdb"
    write_and_die(path, commits=LEAVE)
    assert wal_of(path).stat().st_size
    return path


@pytest.fixture
def left(killed: Path, tmp_path: Path) -> Path:
    """A copy of what a killed process leaves."""
    for source in (killed, wal_of(killed)):
        shutil.copy(source, tmp_path)
    return tmp_path / killed.name


def asides(path: Path, word: str) -> list[Path]:
    return sorted(found for found in path.parent.iterdir() if f".{word}-" in found.name)


def test_after_kill_9_anywhere_the_rows_are_those_of_the_cursor(tmp_path: Path) -> None:
    path, chance = tmp_path / "store.duckdb", random.Random(20260501)
    seen = {"BEATS": 0, "FLEET": 0}
    for _ in range(8):
        seen |= write_and_die(path, after_s=chance.uniform(0.02, 0.6))

        with closing(Projection.open(path)) as projection:
            assert projection.recovered is None
            at = {stream: cursor.seq for stream, cursor in projection.cursors().items()}
            beats, facts = at.get("BEATS", 0), at.get("FLEET", 0)
            assert seen["BEATS"] <= beats <= seen["BEATS"] + BEATS
            assert seen["FLEET"] <= facts <= seen["FLEET"] + FACTS
            assert asked(projection, "SELECT count(*), coalesce(sum(used), 0) FROM fleet.usage") == [
                (beats, beats * (beats + 1) / 2)
            ]
            assert asked(projection, "SELECT count(*), count(DISTINCT seq) FROM fleet.facts") == [
                (facts, facts)
            ]
            assert asked(projection, HEARD) == [
                (node(seq), seq, seq) for seq in range(max(1, beats - NODES + 1), beats + 1)
            ]
            assert asked(projection, KNOWN) == [
                (node(seq), seq, seq) for seq in range(max(1, facts - NODES + 1), facts + 1)
            ]
            for seq in range(max(1, beats - NODES + 1), beats + 1):
                beat = projection.heartbeat(node(seq))
                assert beat is not None
                assert (beat.last_seq, beat.used) == (seq, {"cpu": float(seq)})


def truncated(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def emptied(path: Path) -> None:
    os.truncate(path, 0)


def garbage(path: Path) -> None:
    path.write_bytes(random.Random(1).randbytes(50_000))


def scratched(path: Path) -> None:
    """Overwrite a bit of every block after the headers."""
    with path.open("r+b") as file:
        for offset in range(12_288, path.stat().st_size, 4096):
            file.seek(offset)
            file.write(b"\xde\xad\xbe\xef" * 16)


def of_another_format(path: Path) -> None:
    """Make the file's header claim a storage version of the future."""
    with path.open("r+b") as file:
        file.seek(12)
        file.write((9999).to_bytes(8, "little"))


def scratched_wal(path: Path) -> None:
    wal = wal_of(path)
    with wal.open("r+b") as file:
        file.seek(wal.stat().st_size // 2)
        file.write(b"\xde\xad\xbe\xef" * 16)


@pytest.mark.parametrize(
    "harm",
    [truncated, emptied, garbage, scratched, of_another_format, scratched_wal],
    ids=lambda harm: harm.__name__,
)
def test_a_file_that_cannot_be_used_is_moved_aside_with_its_wal_and_a_fresh_one_begun(
    left: Path, harm: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    harm(left)

    with caplog.at_level(logging.ERROR), closing(Projection.open(left)) as projection:
        found = projection.recovered
        assert found is not None
        assert (found.word, projection.cursors()) == ("damaged", {})
        assert found.why
        assert asides(left, "damaged") == [found.aside, wal_of(found.aside)]
        told(projection, SOME_FACTS, SOME_BEATS)

    assert [record.message for record in caplog.records] == ["tables moved aside"]
    with closing(Projection.open(left)) as again:
        assert again.recovered is None
        assert again.cursors()["BEATS"].seq == 2


def test_a_wal_that_was_cut_short_loses_whole_batches_and_their_positions_together(left: Path) -> None:
    truncated(wal_of(left))

    with closing(Projection.open(left)) as projection:
        assert projection.recovered is None
        beats = projection.cursors()["BEATS"].seq
        assert 0 < beats < LEAVE // 2 * BEATS
        assert asked(projection, "SELECT count(*), max(used) FROM fleet.usage") == [(beats, beats)]


def test_tables_of_another_version_are_moved_aside_as_outdated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "store.duckdb"
    with closing(Projection.open(path)) as projection:
        told(projection, SOME_BEATS)
    monkeypatch.setattr(stores, "TABLES_VERSION", stores.TABLES_VERSION + 1)

    with closing(Projection.open(path)) as projection:
        assert projection.recovered is not None
        assert (projection.recovered.word, projection.cursors()) == ("outdated", {})
        assert [projection.recovered.aside] == asides(path, "outdated")


def test_somebody_elses_database_is_moved_aside_and_not_written(tmp_path: Path) -> None:
    path = tmp_path / "store.duckdb"
    with duckdb.connect(path) as theirs:
        theirs.execute("CREATE TABLE theirs AS SELECT 42 AS answer")

    with closing(Projection.open(path)) as projection:
        assert projection.recovered is not None
        with duckdb.connect(projection.recovered.aside) as theirs:
            assert theirs.execute("SELECT answer FROM theirs").fetchall() == [(42,)]


def test_a_file_that_somebody_opened_with_duckdb_alone_is_not_taken_for_damaged(tmp_path: Path) -> None:
    path = tmp_path / "store.duckdb"
    with closing(Projection.open(path)) as projection:
        told(projection, SOME_BEATS)
    holding = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert holding.stdout is not None
    holding.stdout.readline()

    try:
        with pytest.raises(StoreError, match=r"another process has it open.*fleetfold sql"):
            Projection.open(path)
    finally:
        holding.communicate()

    with closing(Projection.open(path)) as projection:
        assert (projection.recovered, projection.cursors()["BEATS"].seq) == (None, 2)


def test_a_file_is_held_by_one_projection_at_a_time_even_within_a_process(tmp_path: Path) -> None:
    path = tmp_path / "store.duckdb"
    with closing(Projection.open(path)) as first:
        with pytest.raises(StoreError, match="another process has it open"):
            Projection.open(path)
        told(first, SOME_BEATS)

    with closing(Projection.open(path)) as second:
        assert second.cursors()["BEATS"].seq == 2


def test_nothing_is_left_of_a_file_that_is_removed_not_even_what_was_spilled(tmp_path: Path) -> None:
    path = tmp_path / "store.duckdb"
    Projection.open(path).close()
    spilled_of(path).mkdir()
    (spilled_of(path) / "duckdb_temp_storage_S32K-0.tmp").write_bytes(b"x")

    set_aside.remove(path)
    set_aside.remove(path)

    assert list(tmp_path.iterdir()) == []


def test_closing_twice_is_fine_and_gives_the_file_free(tmp_path: Path) -> None:
    projection = Projection.open(tmp_path / "store.duckdb")
    cursor = projection.cursor()
    projection.close()
    projection.close()

    with pytest.raises(duckdb.Error):
        cursor.execute("SELECT 1")
    with duckdb.connect(tmp_path / "store.duckdb") as alone:
        assert alone.execute("SELECT count(*) FROM fleet.nodes").fetchall() == [(0,)]


@pytest.mark.parametrize("name", ["fleet.duckdb", "main.db", "TEMP"])
def test_a_file_whose_name_would_hide_a_schema_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(StoreError, match="hides a schema"):
        Projection.open(tmp_path / name)


def test_a_folder_in_the_files_place_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "store.duckdb").mkdir()

    with pytest.raises(StoreError, match="it is a folder"):
        Projection.open(tmp_path / "store.duckdb")
    assert (tmp_path / "store.duckdb").is_dir()


def test_a_full_disk_is_said_and_no_file_is_blamed_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "store.duckdb"
    Projection.open(path).close()
    monkeypatch.setattr(damaged, "LEAST_ROOM_BYTES", 2**60)

    with pytest.raises(StoreError, match="are free"):
        Projection.open(path)
    assert asides(path, "damaged") == []


def test_settings_that_duckdb_refuses_are_no_damage(tmp_path: Path) -> None:
    path = tmp_path / "store.duckdb"
    Projection.open(path).close()

    with pytest.raises(StoreError, match="refuses its settings"):
        Projection.open(path, settings=ProjectionSettings(store=StoreSettings(memory_limit="much")))
    assert asides(path, "damaged") == []


def test_a_transaction_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    with closing(Projection.open(tmp_path / "store.duckdb")) as projection:
        told(projection, SOME_BEATS)
        views, store = everything(projection), projection._store

        with pytest.raises(StoreError) as failed, store.transaction() as transaction:
            transaction.execute("DELETE FROM main.heartbeat")
            transaction.execute("INSERT INTO main.heartbeat (number) VALUES ('x')")

        assert not failed.value.is_fatal
        assert everything(projection) == views
        told(projection, stored([Beat("n1", seq=2)], first=3))


def test_statements_that_were_first_planned_in_an_undone_transaction_work_in_the_next(tmp_path: Path) -> None:
    with closing(Store.open(tmp_path / "store.duckdb", StoreSettings())) as store:
        rows = arrow_rows(HEARTBEAT_BOOT, [(1, "b1", None, [])])

        with pytest.raises(RuntimeError), store.transaction() as transaction:
            transaction.insert(HEARTBEAT_BOOT, rows)
            raise RuntimeError
        for _ in range(2):
            with store.transaction() as transaction:
                transaction.insert(HEARTBEAT_BOOT, rows)

        assert store.cursor().execute("SELECT count(*) FROM main.heartbeat_boot").fetchall() == [(2,)]


def test_a_database_that_broke_while_it_was_open_is_begun_anew_by_reopening(left: Path) -> None:
    with closing(Projection.open(left)) as projection:
        reader = projection.cursor()
        reader.execute("PRAGMA debug_checkpoint_abort = 'before_header'")
        at = projection.cursors()["BEATS"].seq

        with pytest.raises(StoreError) as broken:
            projection._store.checkpoint()
        assert broken.value.is_fatal
        with pytest.raises(StoreError) as still:
            told(projection, stored([Beat("n1", seq=at + 1)], first=at + 1))
        assert still.value.is_fatal
        assert projection.cursors()["BEATS"].seq == at

        projection.reopen(why=broken.value.why)
        n1 = NodeId("n1")
        assert (projection.cursors(), projection.node(n1), projection.heartbeat(n1)) == ({}, None, None)
        assert projection.recovered is not None
        with pytest.raises(duckdb.Error):
            reader.execute("SELECT 1")
        told(projection, SOME_FACTS, SOME_BEATS)
        assert asked(projection, "SELECT count(*) FROM fleet.nodes") == [(1,)]


def test_beginning_anew_without_a_folder_is_said_and_works_once_there_is_one(tmp_path: Path) -> None:
    folder = tmp_path / "tables"
    with closing(Projection.open(folder / "store.duckdb")) as projection:
        told(projection, SOME_FACTS)
        shutil.rmtree(folder)

        with pytest.raises(StoreError, match="there is no folder"):
            projection.reopen(why="a test")
        folder.mkdir()
        projection.reopen(why="a test")

        told(projection, SOME_FACTS)
        assert asked(projection, "SELECT count(*) FROM fleet.nodes") == [(1,)]


def test_times_are_shown_in_utc_whatever_the_process_lives_in(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "store.duckdb", StoreSettings())
    with closing(store), closing(store.cursor()) as cursor:
        assert cursor.execute("SELECT TIMESTAMPTZ '2026-05-01 12:00:00+02'::VARCHAR").fetchall() == [
            ("2026-05-01 10:00:00+00",)
        ]
        assert cursor.execute("SELECT current_setting('autoload_known_extensions')").fetchall() == [(False,)]
