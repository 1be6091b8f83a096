"""Which modules are pure is written in `pyproject.toml`: here, that it is complete, and no clock is read."""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PURE_CONTRACT = "pure modules decide: no broker, database, loop or framework"
EDGE_MODULES = {
    "events.append",
    "events.jetstream",
    "events.loops",
    "events.newest_beats",
    "events.stream_admin",
    "projections.ahead",
    "projections.applied",
    "projections.arrow_rows",
    "projections.beat_tables",
    "projections.capacity_queries",
    "projections.change_queries",
    "projections.checkpoints",
    "projections.commits",
    "projections.compare",
    "projections.damaged",
    "projections.fact_tables",
    "projections.memory",
    "projections.positions",
    "projections.projection",
    "projections.queries",
    "projections.roster_tables",
    "projections.set_aside",
    "projections.store",
    "projections.transaction",
    "projections.why_queries",
}
"""The modules of the two lower floors that touch a broker, a database or a clock. All others are pure."""

READS_THE_WORLD = {
    "datetime.now", "datetime.utcnow", "datetime.today", "date.today",
    "time.time", "time.time_ns", "time.monotonic", "time.monotonic_ns", "time.perf_counter", "time.sleep",
    "os.environ", "os.getenv", "os.urandom", "uuid.uuid1", "uuid.uuid4",
}  # fmt: skip
WORLD_MODULES = {"random", "secrets", "socket", "threading", "subprocess"}


def modules_below() -> set[str]:
    """Every module of the two lower floors."""
    return {
        ".".join(file.relative_to(ROOT).with_suffix("").parts)
        for package in ("events", "projections")
        for file in (ROOT / package).rglob("*.py")
        if file.name != "__init__.py"
    }


def pure_modules() -> list[str]:
    """The modules that the contract names."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]
    (contract,) = (one for one in settings["contracts"] if one["name"] == PURE_CONTRACT)
    return list(contract["source_modules"])


def test_a_module_of_the_lower_floors_is_named_pure_or_edge() -> None:
    assert sorted(pure_modules()) == sorted(modules_below() - EDGE_MODULES)


@pytest.mark.parametrize("module", pure_modules())
def test_a_pure_module_reads_no_clock_environment_or_random_source(module: str) -> None:
    tree = ast.parse((ROOT / (module.replace(".", "/") + ".py")).read_text("utf-8"))

    read = {ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    imported = {
        name.split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in (
            [node.module or ""] if isinstance(node, ast.ImportFrom) else [a.name for a in node.names]
        )
    }

    assert read & READS_THE_WORLD == set()
    assert imported & WORLD_MODULES == set()
