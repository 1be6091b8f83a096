"""Schema `fleet`: its name, and how it is made (floor 2, pure).

`projections.views` and `projections.macros` say what is in it.
"""

from __future__ import annotations

from collections.abc import Callable

from projections.macros import MACROS
from projections.views import VIEWS

SCHEMA = "fleet"


def create_views(execute: Callable[[str], object]) -> None:
    """Make the schema with all views, macros and comments by running one statement after another."""
    execute(f"CREATE SCHEMA {SCHEMA}")
    for view in VIEWS:
        execute(f"CREATE VIEW {SCHEMA}.{view.name} AS {view.sql}")
        execute(f"COMMENT ON VIEW {SCHEMA}.{view.name} IS {_quoted(view.about)}")
        for name, about in view.columns.items():
            execute(f'COMMENT ON COLUMN {SCHEMA}.{view.name}."{name}" IS {_quoted(about)}')
    for macro in MACROS:
        execute(f"CREATE MACRO {SCHEMA}.{macro.name}({', '.join(macro.parameters)}) AS TABLE {macro.sql}")
        execute(f"COMMENT ON MACRO TABLE {SCHEMA}.{macro.name} IS {_quoted(macro.about)}")


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
