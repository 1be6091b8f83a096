"""Whether a parsed statement stays inside the fleet views (floor 3, pure).

The tree is what the engine's own parser makes of the text (`json_serialize_sql`), so there is no second
parser that could read it another way. Every kind of node, every relation and every function is on a list or
refused; nothing is recognised by what is wrong with it. Understands the trees of DuckDB 1.5 and 2.0.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Never

from api.sql_calls import arguments_of, lowered, name_of, series_length, text_of, whole_number_of
from api.sql_errors import SCHEMA_ROUTE, SqlRefusedError
from api.sql_functions import (
    AGGREGATES,
    ALLOWED,
    BY_NAME,
    FREE,
    SERIES,
    SIZED,
    TABLES,
    TEMPLATES,
    why_refused,
)
from projections.fleet_schema import SCHEMA

MAX_SIZE = 10_000
# Of a text or list that one call makes: enough for padding, bars and axes. A vector of 2,048 rows then
# stays at 20 MB of text or 160 MB of list, below the memory limit of a statement.
MAX_SERIES_ROWS = 10_000_000
# Of a series as a table, where it is given in numbers: streamed and interruptible, so this only spares a
# caller who typed a zero too many the wait until the time limit.

_EXPRESSIONS = """
    BETWEEN CASE CAST COLLATE COLUMN_REF COMPARISON CONJUNCTION CONSTANT FUNCTION LAMBDA LAMBDA_REF OPERATOR
    PARAMETER POSITIONAL_REFERENCE STAR SUBQUERY TYPE WINDOW
"""
_NODES = """
    SELECT_NODE SET_OPERATION_NODE RECURSIVE_CTE_NODE CTE_NODE BASE_TABLE EMPTY EXPRESSION_LIST JOIN PIVOT
    TABLE_FUNCTION LIMIT_MODIFIER LIMIT_PERCENT_MODIFIER ORDER_MODIFIER DISTINCT_MODIFIER ORDER_DEFAULT
    ASCENDING DESCENDING
"""
_KINDS = frozenset((_EXPRESSIONS + _NODES).split())
_TYPE_INFO = "_TYPE_INFO"
_WIDTH = re.compile(r"[0-9]{4,}|\*|\{[^{}]+\{")


@dataclass(frozen=True, slots=True)
class Relations:
    """What a statement may name, in lower case.

    `reserved` are the relations that a name without a schema would reach, which no CTE may be called.
    """

    views: frozenset[str]
    table_macros: frozenset[str] = frozenset()
    macros: frozenset[str] = frozenset()
    reserved: frozenset[str] = frozenset()


def check(statement: dict[str, Any], relations: Relations) -> None:
    """Raise SqlRefusedError where one parsed SELECT does anything but read the fleet views."""
    nodes = list(_walk(statement))
    ctes = frozenset(_cte_names(nodes, relations))
    of_tables = {id(node["function"]) for node in nodes if _kind(node) == "TABLE_FUNCTION"}
    for node in nodes:
        match _kind(node):
            case "BASE_TABLE":
                _check_table(node, relations, ctes)
            case "TABLE_FUNCTION":
                _check_table_function(node["function"], relations)
            case "FUNCTION" | "WINDOW":
                if id(node) not in of_tables:
                    _check_function(node, relations)
            case "PIVOT":
                _check_pivot(node)
            case kind:
                _check_kind(kind)


def _walk(tree: object) -> Iterator[dict[str, Any]]:
    todo = [tree]
    while todo:
        here = todo.pop()
        if isinstance(here, dict):
            yield here
            if here.get("class") != "CONSTANT":
                todo.extend(here.values())
        elif isinstance(here, list):
            todo.extend(here)


def _kind(node: dict[str, Any]) -> str:
    kind = node.get("class") or node.get("type")
    return kind if isinstance(kind, str) else ""


def _check_kind(kind: str) -> None:
    if not kind or kind in _KINDS or kind.endswith(_TYPE_INFO):
        return
    if kind == "SHOW_REF":
        raise SqlRefusedError(
            "DESCRIBE, SHOW and SUMMARIZE",
            "the catalog is not served as SQL",
            instead=f"{SCHEMA_ROUTE} lists views, columns and functions",
        )
    if kind in {"INSERT_QUERY_NODE", "UPDATE_QUERY_NODE", "DELETE_QUERY_NODE", "MERGE_QUERY_NODE"}:
        raise SqlRefusedError(
            kind.removesuffix("_QUERY_NODE"),
            "nothing can be written here",
            instead="facts are written through the API",
        )
    raise SqlRefusedError(
        kind.lower().replace("_", " "), "this construct is not on the list of those that are served"
    )


def _cte_names(nodes: list[dict[str, Any]], relations: Relations) -> Iterator[str]:
    for node in nodes:
        named = [entry["key"] for entry in node["cte_map"]["map"]] if "cte_map" in node else []
        if "cte_name" in node:
            named.append(node["cte_name"])
        for name in named:
            if not name.isidentifier():
                # the name of a file, a URL or a column of dots could reach more than the CTE
                raise SqlRefusedError(f"CTE {name[:80]}", "its name must be letters, digits and _")
            if lowered(name) in relations.reserved:
                # elsewhere in the statement the same name would read the table
                raise SqlRefusedError(
                    f"CTE {name}", "a table has this name", instead="call it something else"
                )
            yield lowered(name)


def _check_table(node: dict[str, Any], relations: Relations, ctes: frozenset[str]) -> None:
    catalog, schema, name = (
        lowered(node.get(part) or "") for part in ("catalog_name", "schema_name", "table_name")
    )
    shown = ".".join(part for part in (catalog, schema, name) if part)[:120]
    path = [lowered(part) for part in node.get("qualified_name", {}).get("path", ())]
    if path and path != [part for part in (catalog, schema, name) if part]:
        raise SqlRefusedError(f"table {shown}", "its name cannot be read")
    if node.get("at_clause"):
        raise SqlRefusedError("AT", "views have no versions", instead=_macro_advice(relations))
    if not catalog and ((schema == SCHEMA and name in relations.views) or (not schema and name in ctes)):
        return
    _refuse_table(shown, name, relations)


def _refuse_table(shown: str, name: str, relations: Relations) -> Never:
    if name in relations.views:
        raise SqlRefusedError(
            f"table {shown}", f"views are read from schema {SCHEMA}", instead=f"write {SCHEMA}.{name}"
        )
    if name in relations.table_macros:
        raise SqlRefusedError(
            f"table {shown}", "this one takes arguments", instead=f"write {SCHEMA}.{name}(…)"
        )
    near = get_close_matches(name, sorted(relations.views), n=1)
    advice = f"did you mean {SCHEMA}.{near[0]}? " if near else ""
    raise SqlRefusedError(
        f"table {shown}",
        f"only the views of schema {SCHEMA} are served",
        instead=f"{advice}{SCHEMA_ROUTE} lists them",
    )


def _check_table_function(function: dict[str, Any], relations: Relations) -> None:
    name, schema = name_of(function), lowered(function.get("schema") or "")
    if function.get("catalog"):
        raise SqlRefusedError(f"function {name}", "write it without a catalog")
    if schema == SCHEMA and name in relations.table_macros:
        return
    if schema or name not in TABLES:
        if name in relations.table_macros:
            raise SqlRefusedError(
                f"table function {name}", "it is in another schema", instead=f"write {SCHEMA}.{name}(…)"
            )
        if name in ALLOWED:
            raise SqlRefusedError(
                f"table function {name}", "it makes no table here", instead="call it in the select list"
            )
        raise SqlRefusedError(
            f"table function {name[:80]}", why_refused(name), instead=f"{SCHEMA_ROUTE} lists what is served"
        )
    if name in SERIES:
        rows = series_length(name, arguments_of(function))
        if rows is not None and rows > MAX_SERIES_ROWS:
            raise SqlRefusedError(f"{name} of {rows} rows", f"at most {MAX_SERIES_ROWS} are served")


def _check_function(node: dict[str, Any], relations: Relations) -> None:
    name, schema = name_of(node), lowered(node.get("schema") or "")
    if schema == SCHEMA and name in relations.macros:
        return
    if name not in ALLOWED:
        near = get_close_matches(name, sorted(ALLOWED), n=1, cutoff=0.8)
        reason = why_refused(name)
        advice = f"did you mean {near[0]}? " if near and reason == "it is not on the list" else ""
        raise SqlRefusedError(
            f"function {name[:80]}", reason, instead=f"{advice}{SCHEMA_ROUTE} lists what is served"
        )
    if name not in FREE:
        _check_sizes(name, arguments_of(node))


def _check_sizes(name: str, arguments: list[dict[str, Any]]) -> None:
    second = arguments[1] if len(arguments) > 1 else {}
    if name in SERIES:
        rows = series_length(name, arguments)
        if rows is None or rows > MAX_SIZE:
            raise SqlRefusedError(
                f"{name} as a list",
                f"its bounds must be whole numbers, for at most {MAX_SIZE} elements",
                instead=f"write FROM {name}(…), which takes any bounds",
            )
    elif name in SIZED:
        size = whole_number_of(second)
        if size is None or size > MAX_SIZE:
            raise SqlRefusedError(
                f"function {name}", f"its size must be a whole number of at most {MAX_SIZE}, as a literal"
            )
    elif name in TEMPLATES:
        template = text_of(arguments[0]) if arguments else None
        if template is None or _WIDTH.search(template):
            raise SqlRefusedError(
                f"function {name}", "its template must be a literal, with widths below 1000"
            )
    elif name in BY_NAME and lowered(text_of(second) or "") not in AGGREGATES:
        raise SqlRefusedError(
            f"function {name}", "it must name one of the aggregates that are served, as a literal"
        )


def _check_pivot(node: dict[str, Any]) -> None:
    if any(pivot.get("pivot_enum") for pivot in node["pivots"]):
        raise SqlRefusedError(
            "PIVOT over an enum", "types are not served", instead="list the values: IN ('a', 'b')"
        )


def _macro_advice(relations: Relations) -> str:
    named = [macro for macro in sorted(relations.table_macros) if macro.endswith("_at")]
    return f"write FROM {SCHEMA}.{named[-1]}(TIMESTAMPTZ '…')" if named else ""
