"""What code says of itself, as Markdown: the generated parts of the documents by name."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from pathlib import Path

from api.dialect_amounts import CANONICAL, UNITS
from docs import bad_input, questions
from docs.markdown import table
from events import streams, subjects
from events.ids import NodeId, Zone, token, zone_token
from events.registry import TYPES
from fleetfold.cli.documents import sql_contract
from fleetfold.settings_table import settings_table
from projections.situations import SITUATIONS
from projections.transitions import TABLE

EXAMPLE_IDS = ("n1", "a.b", "gpu 7", "smolfleet:w-1", "節点-1")


def streams_table() -> str:
    """Return what the streams are and promise."""
    rows = []
    for spec in streams.ALL:
        asked = streams.config(spec)
        promises = [
            name for name in ("deny_delete", "deny_purge", "allow_atomic", "allow_batched") if asked[name]
        ]
        rows.append(
            (
                f"`{spec.name}`",
                ", ".join(f"`{subject}`" for subject in spec.subjects),
                "for ever" if spec.max_age is None else f"{spec.max_age.total_seconds() / 3600:g} h",
                "any" if spec.max_record_bytes == streams.UNLIMITED else f"{spec.max_record_bytes:,} bytes",
                f"discard {spec.discard}" + "".join(f", `{name}`" for name in promises),
            )
        )
    return table(("stream", "subjects", "kept", "largest record", "promises"), rows)


def event_types_table() -> str:
    """Return every event type with its subject and what it says."""
    rows = []
    for kind in TYPES:
        about = "<zone>" if kind.owner == "zone" else "<node>"
        meaning = (kind.model.__doc__ or "").strip().partition("\n")[0]
        rows.append((f"`{kind.text}`", f"`{subjects.ROOT}.{kind.owner}.{about}.{kind.verb}`", meaning))
    return table(("type", "subject", "what happened"), rows)


def tokens_table() -> str:
    """Return some ids with their subject tokens."""
    rows = [(f"node `{text}`", f"`{token(NodeId(text))}`") for text in EXAMPLE_IDS]
    rows.append(("zone `eu-1`", f"`{zone_token(Zone('eu-1'))}`"))
    return table(("id", "subject token"), rows)


def views() -> str:
    """Return every view and macro with its columns, one heading level down."""
    return sql_contract().replace("## ", "### ")


def metrics_table() -> str:
    """Return every metric that the code makes, found where it is made."""
    api = Path(__file__).resolve().parent.parent / "api"
    found = {row for file in api.rglob("*.py") for row in _metrics_in(ast.parse(file.read_text("utf-8")))}
    return table(("metric", "labels", "what it says"), sorted(found))


def transitions_table() -> str:
    """Return what becomes of each action in each situation, in the order in which they are tried."""
    words = {"done": "done", "no_change": "no change", "refused": "**refused**"}
    rows = []
    for action, rules in TABLE.items():
        for at, rule in enumerate(rules):
            says = rule.says + (f"; instead: {rule.instead}" if rule.instead else "")
            name = "" if at else f"`{action}`"
            rows.append((name, SITUATIONS[rule.situation][0], words[rule.outcome], says))
    return table(("action", "situation", "outcome", ""), rows)


def dialect_amounts_table() -> str:
    """Return the members in which each dialect allocates."""
    rows = []
    for dialect, units in UNITS.items():
        told = [f"`{name}` ({_unit(*unit)})" for name, unit in units.items()]
        rows.append((f"`{dialect}`", ", ".join(told)))
    rows.append(("each", ", ".join(f"`{name}`" for name in CANONICAL)))
    return table(("dialect", "members"), rows)


def _unit(resource: str, factor: int) -> str:
    sizes = {1: "", 2**20: " in MiB", 2**30: " in GiB"}
    return f"`{resource}`{sizes[factor]}"


def _metrics_in(tree: ast.AST) -> Iterator[tuple[str, str, str]]:
    for call in ast.walk(tree):
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
            continue
        suffix = METRIC_MAKERS.get(call.func.id)
        if suffix is None:
            continue
        said = [argument.value for argument in call.args[:2] if isinstance(argument, ast.Constant)]
        if len(said) != 2:
            continue  # a Counter that counts, and is no metric
        name, about = said
        labels = [
            f"`{label.value}`"
            for group in [*call.args[2:], *(word.value for word in call.keywords if word.arg == "labels")]
            for label in ast.walk(group)
            if isinstance(label, ast.Constant)
        ]
        yield f"`{name}{suffix}`", ", ".join(labels), str(about)


METRIC_MAKERS = {
    "GaugeMetricFamily": "",
    "CounterMetricFamily": "_total",
    "Histogram": "",
    "Gauge": "",
    "Counter": "_total",
}
"""What makes a metric, and what its kind adds to its name on the wire."""


PARTS: dict[str, Callable[[], str]] = {
    "settings": settings_table,
    "streams": streams_table,
    "event-types": event_types_table,
    "tokens": tokens_table,
    "metrics": metrics_table,
    "transitions": transitions_table,
    "dialect-amounts": dialect_amounts_table,
    "views": views,
    "questions": questions.answered,
    "bad-facts": bad_input.facts_table,
    "bad-beats": bad_input.beats_table,
}
