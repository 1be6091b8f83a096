"""`fleetfold watch` against a feed that is served, cut and served again."""

from __future__ import annotations

import json
import signal
from pathlib import Path

from tests.support.fleet import EPOCH, Fleet, fleet
from tests.support.processes import fleetfold, running
from tests.support.tunnel import Tunnel
from tests.support.web import serving


def cursors(printed: str) -> list[str]:
    told = [json.loads(line) for line in printed.splitlines()]
    return [frame["cursor"] for frame in told if frame["frame"] == "change"]


def fill(served: Fleet) -> list[str]:
    for name in ("n1", "n2"):
        served.registered(name, resources={"cpu": {"total": 4}})
    served.said("operator", "n1", "cordoned", owner="ops", actor="ada", reason="disk")
    return [f"{EPOCH}/{seq}/{n}" for seq, count in ((1, 3), (2, 3), (3, 2)) for n in range(count)]


def test_what_there_is_is_printed_and_selected(tmp_path: Path) -> None:
    with fleet(tmp_path) as served, serving(served.app) as url:
        whole = fill(served)
        asked = ("watch", "--server", url, "--once", "--after")

        everything = fleetfold(*asked, "start", "--json", cwd=tmp_path)
        one = fleetfold(*asked, whole[3], "--json", "--node", "n1", "--kind", "intent", cwd=tmp_path)
        people = fleetfold(*asked, "start", cwd=tmp_path)
        none = fleetfold(*asked, "now", "--json", cwd=tmp_path)

    assert cursors(everything.stdout) == whole
    assert json.loads(everything.stdout.splitlines()[-1])["frame"] == "caught_up"
    assert cursors(one.stdout) == [whole[-1]]
    assert "n1 intent.changed open → cordoned (ada disk)" in people.stdout
    assert cursors(none.stdout) == []


def test_a_position_in_a_file_is_where_the_next_run_goes_on(tmp_path: Path) -> None:
    with fleet(tmp_path) as served, serving(served.app) as url:
        whole = fill(served)
        asked = ("watch", "--server", url, "--once", "--json", "--after", "start", "--cursor-file", "at.txt")
        first = fleetfold(*asked, cwd=tmp_path)
        served.registered("n3")

        second = fleetfold(*asked, cwd=tmp_path)

    assert cursors(first.stdout) == whole
    assert cursors(second.stdout) == [f"{EPOCH}/4/0", f"{EPOCH}/4/1"]
    assert (tmp_path / "at.txt").read_text().strip() == f"{EPOCH}/4"


def test_lost_connections_are_made_again_and_lose_nothing(tmp_path: Path) -> None:
    with fleet(tmp_path) as served, serving(served.app) as url, Tunnel(url) as tunnel:
        whole = fill(served)
        with running("watch", "--server", tunnel.url, "--json", "--after", "start", cwd=tmp_path) as watching:
            watching.says('"frame":"caught_up"')
            for number in range(5):
                tunnel.cut()
                served.registered(f"m{number}")
                last = f"{EPOCH}/{4 + number}/1"
                watching.says(last)
                whole += [f"{EPOCH}/{4 + number}/0", last]
            watching.send(signal.SIGINT)
            assert watching.ends() == 0

            assert cursors(watching.out) == whole
            assert "going on after" in watching.err


def test_a_server_that_is_not_there_and_a_cursor_that_is_none_are_said(tmp_path: Path) -> None:
    gone = fleetfold("watch", "--server", "http://127.0.0.1:9", cwd=tmp_path)
    with fleet(tmp_path) as served, serving(served.app) as url:
        fill(served)
        wrong = fleetfold("watch", "--server", url, "--after", "nonsense", cwd=tmp_path)

    assert (gone.returncode, wrong.returncode) == (3, 1)
    assert "does not answer" in gone.stderr
    assert "no position" in wrong.stderr


def test_another_log_is_told(tmp_path: Path) -> None:
    with fleet(tmp_path) as served, serving(served.app) as url:
        fill(served)

        told = fleetfold("watch", "--server", url, "--once", "--after", "other-log/9/0", cwd=tmp_path)

    assert "the log is another one" in told.stdout
