"""The rows of an SQL answer as people read them (floor 4)."""

from __future__ import annotations

import json
from typing import Any

from fleetfold.cli.output import count, escaped, print_table

NUMERIC = (
    "TINYINT",
    "SMALLINT",
    "INTEGER",
    "BIGINT",
    "HUGEINT",
    "UTINYINT",
    "USMALLINT",
    "UINTEGER",
    "UBIGINT",
    "UHUGEINT",
    "DECIMAL",
    "FLOAT",
    "DOUBLE",
)


def print_rows(answer: dict[str, Any]) -> None:
    """Print the rows of an SQL answer."""
    columns = answer["columns"]
    numbers = {escaped(column["name"]) for column in columns if column["type"].startswith(NUMERIC)}
    print_table(
        [escaped(column["name"]) for column in columns],
        ([_cell(value) for value in row] for row in answer["rows"]),
        numbers=numbers,
        caption=count(len(answer["rows"]), "row") + (", cut off there" if answer.get("truncated") else ""),
    )


def _cell(value: object) -> str:
    match value:
        case None:
            return "[dim]NULL[/]"
        case dict() | list():
            return escaped(json.dumps(value, ensure_ascii=False))
        case "":
            return ""
        case _:
            return escaped(value)
