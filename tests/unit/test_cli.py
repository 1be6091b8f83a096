"""The command line's words: help with examples for each command, and exit code 2 for wrong usage."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from events.errors import (
    BrokerUnavailableError,
    InvalidNodeIdError,
    RefusedError,
    SettingsError,
    StreamDriftError,
    UnreachableError,
)
from fleetfold.cli.program import app, exit_code

ROOT = Path(__file__).parents[2]
COMMANDS = (
    "up", "serve", "replica", "agent", "nodes", "show", "why", "capacity", "sql", "simulate", "rebuild",
    "verify", "quarantine", "check", "schema", "cordon", "uncordon", "drain", "undrain", "maintenance",
    "retire", "restore", "label", "export",
)  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself_with_examples(command: str) -> None:
    told = CliRunner().invoke(app, [command, "--help"])

    assert told.exit_code == 0
    assert "Examples" in told.stdout
    assert f"fleetfold {command}" in told.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ("no-such-command",),
        ("simulate", "--nodes", "0"),
        ("sql", "SELECT 1", "--format", "xml"),
        ("agent", "--label", "novalue"),
        ("serve",),
        ("schema", "nothing"),
        ("cordon",),
        ("cordon", "--selector", "zoen=z1"),
        ("cordon", "--selector", "zone=a", "--selector", "zone=b"),
        ("cordon", "n1", "--until", "soon"),
        ("cordon", "n1", "--until", "999999w"),
        ("drain", "n1", "--until", "2026-05-01T12:00:00"),
        ("uncordon", "n1", "--until", "2h"),
        ("maintenance", "leave"),
        ("label", "n1", "tier"),
        ("label", "n1", "=x"),
        ("label", "n1", "tier=gold", "tier-"),
        ("export", "nodes", "nodes.xlsx"),
        ("export", "no_such_view", "x.csv"),
        ("export", "devices", "x.csv", "--at", "2026-05-01T12:00:00Z"),
        ("export", "SELECT 1", "x.csv", "--at", "2026-05-01T12:00:00Z"),
    ],
)
def test_wrong_usage_ends_with_two(
    arguments: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    told = CliRunner().invoke(app, arguments)

    assert told.exit_code == 2
    assert told.exception is None or isinstance(told.exception, SystemExit)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((b"show", b"\xff"), "fleetfold: '\\udcff' is not text in UTF-8\n"),
        ((b"cordon", b"n1", b"--reason", b"caf\xe9"), "fleetfold: 'caf\\udce9' is not text in UTF-8\n"),
        (
            (b"show", b""),
            "fleetfold: '' cannot be a node id: it has 0 bytes",
        ),
        (
            (b"cordon", b""),
            "fleetfold: '' cannot be a node id: it has 0 bytes",
        ),
        ((b"nodes", b"--server", b"http://a..b"), "fleetfold: --server 'http://a..b' is no address"),
        (
            (b"nodes", b"--server", "http://\u2603.".encode()),
            "fleetfold: --server 'http://\u2603.' is no address",
        ),
    ],
)
def test_what_can_be_no_argument_is_said_in_one_line(
    arguments: tuple[bytes, ...], told: str, tmp_path: Path
) -> None:
    done = subprocess.run(
        [sys.executable.encode(), b"-m", b"fleetfold", *arguments],
        capture_output=True,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )

    assert done.returncode == 2
    assert done.stderr.decode().startswith(told)
    assert done.stderr.count(b"\n") == 1


def test_a_command_whose_output_is_closed_ends_as_it_would(tmp_path: Path) -> None:
    command = f"exec {sys.executable} -m fleetfold schema settings >&-"

    done = subprocess.run(
        ["sh", "-c", command],
        capture_output=True,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )

    assert (done.returncode, done.stderr) == (0, b"")


def test_an_error_s_kind_decides_how_the_process_ends() -> None:
    assert exit_code(SettingsError("no such setting")) == 2
    assert exit_code(InvalidNodeIdError("", why="it is empty")) == 2
    assert exit_code(BrokerUnavailableError("asking", why="silence")) == 3
    assert exit_code(UnreachableError("http://127.0.0.1:9", why="does not answer")) == 3
    assert exit_code(RefusedError("port_taken", "the port is taken")) == 1
    assert exit_code(StreamDriftError("FLEET", differences={})) == 1


def test_asking_for_help_loads_nothing_heavy() -> None:
    heavy = ("pydantic", "nats", "duckdb", "fastapi", "httpx", "numpy", "uvicorn", "faststream", "structlog")
    program = (
        f"import sys, fleetfold.cli.program\nprint(*(name for name in {heavy!r} if name in sys.modules))\n"
    )

    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert told.stdout.strip() == ""
