"""The data folder belongs to one process at a time."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from events.errors import RefusedError
from fleetfold.data_folder import DataFolder


def test_a_folder_in_use_is_refused_naming_the_process(tmp_path: Path) -> None:
    first, second = DataFolder(tmp_path / "data"), DataFolder(tmp_path / "data")
    first.hold()

    with pytest.raises(RefusedError, match=f"data is in use by process {os.getpid()}.*--data"):
        second.hold()

    first.release()
    first.release()
    second.hold()
    second.release()


def test_the_hold_ends_with_the_process_however_that_ends(tmp_path: Path) -> None:
    program = (
        "import os, pathlib, signal, sys\n"
        "from fleetfold.data_folder import DataFolder\n"
        "DataFolder(pathlib.Path(sys.argv[1])).hold()\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    ended = subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=False)
    assert ended.returncode == -9

    folder = DataFolder(tmp_path)
    folder.hold()
    folder.release()


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(RefusedError, match=r"cannot be used.*--data"):
        DataFolder(tmp_path / "file" / "data").hold()
