"""Run the measurements one after another: `python -m bench [NAME…]`, `python -m bench --list`.

Each is a program of its own (`python -m bench.NAME`), prints its own table and says what it ran on. They are
run one at a time, since two at once would measure each other. Nothing here passes or fails: figures are for
people.
"""

from __future__ import annotations

import argparse
import ast
import os
import platform
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

FOLDER = Path(__file__).resolve().parent


def programs() -> dict[str, str]:
    """Return what can be run, by name, with the first line of its docstring."""
    found = {}
    for file in sorted(FOLDER.glob("*.py")):
        tree = ast.parse(file.read_text("utf-8"))
        functions = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
        if not file.name.startswith("_") and "main" in functions:
            found[file.stem] = (ast.get_docstring(tree) or "").partition("\n")[0]
    return found


def main() -> int:
    """Run what was named, or all; return 1 where one of them failed."""
    known = programs()
    parser = argparse.ArgumentParser(prog="bench", description="Measure, one program after another.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of: {', '.join(known)}")
    parser.add_argument("--list", action="store_true", help="say what there is and run nothing")
    asked = parser.parse_args()
    if unknown := set(asked.names) - known.keys():
        parser.error(f"there is no {', '.join(sorted(unknown))}: choose from {', '.join(known)}")
    if asked.list:
        print("\n".join(f"{name:20} {what}" for name, what in known.items()))
        return 0
    print(
        f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, {os.cpu_count()} cores, {platform.machine()}, "
        f"Python {platform.python_version()}, load {os.getloadavg()[0]:.1f}"
    )
    failed = []
    for name in asked.names or known:
        print(f"\n== {name}: {known[name]}", flush=True)
        if subprocess.run([sys.executable, "-m", f"bench.{name}"], cwd=FOLDER.parent, check=False).returncode:
            failed.append(name)
    if failed:
        print(f"\nfailed: {', '.join(failed)}")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
