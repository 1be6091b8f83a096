"""Build the wheel, install it with what it asks for into an empty environment, and run it there.

`tests/system/test_wheel.py` looks at what the wheel holds, without a network; this looks at whether its
metadata ask for all that it imports.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
IMPORT_ALL = """
import importlib, pkgutil
count = 0
for name in ("events", "projections", "consumers", "api", "fleetfold"):
    package = importlib.import_module(name)
    for module in pkgutil.walk_packages(package.__path__, name + "."):
        if not module.name.endswith(".__main__"):
            importlib.import_module(module.name)
            count += 1
print(f"{count} modules import with nothing but what the wheel asks for")
"""


def main() -> None:
    """Raise CalledProcessError at the first command that fails."""
    with tempfile.TemporaryDirectory() as folder:
        dist, env, elsewhere = Path(folder, "dist"), Path(folder, "env"), Path(folder, "elsewhere")
        elsewhere.mkdir()
        _run(ROOT, sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(dist))
        (wheel,) = dist.glob("*.whl")
        _run(ROOT, sys.executable, "-m", "venv", str(env))
        python = str(env / "bin" / "python")
        _run(elsewhere, python, "-m", "pip", "install", "-qq", "--no-compile", "--prefer-binary", str(wheel))
        _run(elsewhere, python, "-c", IMPORT_ALL)
        _run(elsewhere, str(env / "bin" / "fleetfold"), "--help")
        _run(elsewhere, str(env / "bin" / "fleetfold"), "check", "--help")


def _run(folder: Path, *command: str) -> None:
    subprocess.run(command, cwd=folder, check=True)


if __name__ == "__main__":
    main()
