"""What the command line prints."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from fleetfold.cli.client import node_path
from fleetfold.cli.output import age, amount, coloured, escaped, print_table, size
from fleetfold.cli.rows_view import print_rows


@pytest.mark.parametrize(
    ("size_bytes", "told"),
    [
        (0, "0 B"),
        (1023, "1,023 B"),
        (1024, "1.0 KiB"),
        (81_604_378_624, "76.0 GiB"),
        (1_099_511_627_776, "1.0 TiB"),
        (641_758_628_347_904, "584 TiB"),
        (-2 * 1024**3, "-2.0 GiB"),
        (2**63, "8,192 PiB"),
    ],
)
def test_a_size_is_told_in_binary_units(size_bytes: float, told: str) -> None:
    assert size(size_bytes) == told


def test_unknown_zero_and_part_of_a_core_look_different() -> None:
    assert amount("cpu", None) == "?"
    assert amount("cpu", 0) == "0"
    assert amount("cpu", 3.25) == "3.25"
    assert amount("cpu", 125_514) == "125,514"
    assert amount("cpu", -0.001) == "-0.001"
    assert amount("memory", 1024) == "1.0 KiB"


@pytest.mark.parametrize(
    ("moment", "told"),
    [
        ("2026-05-01T12:00:00Z", "0 s"),
        ("2026-05-01T12:00:03Z", "0 s"),
        ("2026-05-01T11:58:01Z", "119 s"),
        ("2026-05-01T11:58:00Z", "2 min"),
        ("2026-05-01T09:00:00Z", "3 h"),
        ("2026-04-01T12:00:00Z", "30 d"),
        (None, "–"),
    ],
)
def test_an_age_has_one_unit(moment: str | None, told: str) -> None:
    assert age(moment, now=datetime(2026, 5, 1, 12, tzinfo=UTC)) == told


def test_text_from_nodes_is_printed_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("node",), [(escaped("[red]n1[/]"),), (coloured("[bold]odd"),)])

    out = capsys.readouterr().out
    assert "[red]n1[/]" in out
    assert "[bold]odd" in out


def test_a_node_with_a_slash_has_a_path_of_one_step() -> None:
    assert node_path("rack.1/n 1") == "/nodes/rack.1%2Fn%201"


def test_a_node_named_by_dots_has_a_path_that_nobody_resolves() -> None:
    assert node_path(".") == "/nodes/%2E"
    assert node_path("..") == "/nodes/%2E%2E"
    assert node_path("...") == "/nodes/..."


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("h\x1b[2J\x07", "h\\x1b[2J\\x07"),
        ("one\ntwo\r\t", "one\\ntwo\\r\\t"),
        ("c1\x9b31m", "c1\\x9b31m"),
        ("\u202egpj.exe", "\\u202egpj.exe"),
        ("中文 é", "中文 é"),
    ],
)
def test_no_name_steers_the_terminal(text: str, told: str) -> None:
    assert escaped(text).replace("\\[", "[") == told


def test_a_column_of_sql_may_have_any_name(capsys: pytest.CaptureFixture[str]) -> None:
    columns = [{"name": "[/red]\x1b[2J", "type": "INTEGER"}, {"name": "[bold]x", "type": "VARCHAR"}]

    print_rows({"columns": columns, "rows": [[1, "a"]], "truncated": False})

    out = capsys.readouterr().out
    assert "[/red]\\x1b[2J" in out
    assert "[bold]x" in out
