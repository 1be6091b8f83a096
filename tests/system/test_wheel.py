"""What the built wheel holds, and that it runs without the repository around it."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FIVE_NAMES = {"api", "consumers", "events", "fleetfold", "projections"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built with the build system that is installed: no network."""
    dist = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(dist)]
    run(*build, str(ROOT), folder=dist)
    (built,) = dist.glob("*.whl")
    return built


def test_the_wheel_owns_exactly_its_five_names(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()

    top_level = {name.split("/")[0] for name in names}
    assert {name for name in top_level if not name.endswith(".dist-info")} == FIVE_NAMES
    assert len(top_level) == len(FIVE_NAMES) + 1


def test_the_wheel_holds_every_file_of_its_packages(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if name.split("/")[0] in FIVE_NAMES}

    on_disk = {
        str(file.relative_to(ROOT))
        for package in FIVE_NAMES
        for file in (ROOT / package).rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }
    assert packed == on_disk


def test_the_installed_wheel_runs_away_from_the_repository(wheel: Path, tmp_path: Path) -> None:
    environment = tmp_path / "env"
    run(sys.executable, "-m", "venv", "--without-pip", str(environment), folder=tmp_path)
    own = next(environment.glob("lib/python*/site-packages"))
    installer = [sys.executable, "-m", "pip", "--python", str(environment / "bin" / "python")]
    run(*installer, "install", "-qq", "--no-deps", "--no-compile", "--no-index", str(wheel), folder=tmp_path)
    # What it depends on is borrowed from the environment of this test; a path file is not followed from
    # there, so an editable installation of the repository is out of sight.
    (own / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n", "utf-8")

    fleetfold = str(environment / "bin" / "fleetfold")
    where = run(str(environment / "bin" / "python"), "-c", "import api; print(api.__file__)", folder=tmp_path)

    assert Path(where.strip()).is_relative_to(own)
    assert "serve" in run(fleetfold, "--help", folder=tmp_path)
    assert "fleetfold check" in run(fleetfold, "check", "--help", folder=tmp_path)


def run(*command: str, folder: Path) -> str:
    """Run a command in a folder and return what it printed; a failure shows all that it said."""
    done = subprocess.run(
        command, cwd=folder, check=False, capture_output=True, text=True, env={**os.environ, "NO_COLOR": "1"}
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout
