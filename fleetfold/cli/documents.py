"""Documents that are made from the code, as `fleetfold schema` prints them (floor 4)."""

from __future__ import annotations

from projections.fleet_schema import SCHEMA
from projections.macros import MACROS, Macro
from projections.views import VIEWS, View


def http_document(name: str) -> str:
    """Return `openapi.json` or `asyncapi.json`."""
    from api.schema import documents  # noqa: PLC0415 - a second, for two of four documents

    return documents()[name]


def sql_contract() -> str:
    """Return every view and macro of the analysts' schema with its columns, as Markdown."""
    parts = [_section(f"{SCHEMA}.{view.name}", view) for view in VIEWS]
    parts += [_section(f"{SCHEMA}.{macro.name}({', '.join(macro.parameters)})", macro) for macro in MACROS]
    return "\n".join(parts)


def _section(heading: str, described: View | Macro) -> str:
    lines = [f"## {heading}", "", described.about, "", "| column | |", "| --- | --- |"]
    lines += [f"| `{name}` | {about} |" for name, about in described.columns.items()]
    return "\n".join(lines) + "\n"
