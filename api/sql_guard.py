"""The gate of analysts' SQL: one SELECT over the fleet views, or a refusal that says what instead (floor 3).

The text is read by the engine's own parser, in an empty database of the guard's own, so reading a hostile
text touches no table. What the tree may hold is decided in `sql_tree`. This is one of several walls: the
engine is locked down, the transaction is read-only, time and memory are bounded and the process is
disposable.
"""

from __future__ import annotations

import re
import threading
from typing import Any

import duckdb
import orjson

from api.sql_errors import SCHEMA_ROUTE, SqlRefusedError, SqlSyntaxError
from api.sql_tree import Relations, check

MAX_STATEMENT_CHARACTERS = 20_000
# A generated dashboard query has 2,000 to 8,000. For any text of this length the parser stays below 50 ms
# and its tree below 1 MB.
MAX_COMMENTS = 100
# Nested comments cost the parser time in the square of their number (5,000: 2.8 s, holding the interpreter).

_PARSE = "SELECT json_serialize_sql($text::VARCHAR)"
_ADVICE = {
    "EXPLAIN": "statements are run, not explained",
    "INSERT": "facts are written through the API",
    "UPDATE": "facts are written through the API",
    "DELETE": "facts are written through the API",
    "COPY": "ask with Accept: text/csv or application/vnd.apache.parquet",
    "CREATE": "use a CTE (WITH …)",
    "PIVOT": "write it with its values: ON state IN ('ready', 'lost')",
    "PRAGMA": f"{SCHEMA_ROUTE} lists views, columns and functions",
    "SET": "times are in UTC; limits are in the request",
    "ATTACH": "only the views of schema fleet are served",
    "LOAD": "only the views of schema fleet are served",
    "CALL": "write SELECT … FROM the function",
}
_BARE_AT = re.compile(r"""(?<![.\w"'])at(?![\w"'])""", re.IGNORECASE)
_AT_ADVICE = 'a column named at is written "at", or with its table (u.at), since AT is a keyword'
_ENDLESS = re.compile(
    r'"query_location":(\d+),"value":\{"type":\{"id":"DOUBLE","type_info":null\},"is_null":false,'
    r'"value":-?Infinity\}'
)
# A number beyond DOUBLE, which the parser writes as no JSON has it. Inside a text, `"` is escaped.
_NUMBER = re.compile(r"-?\s*[\d._]+(?:[eE][+-]?[\d_]+)?")
_SHOWN_CHARACTERS = 40
_FIRST_WORD = re.compile(r"\s*(\w+)")


class Guard:
    """Reads statements with the engine's parser and refuses what `relations` and the lists do not hold.

    May be asked from any thread. Closing twice is fine.
    """

    def __init__(self, relations: Relations) -> None:
        self.relations = relations
        self._lock = threading.Lock()
        self._parser = _open_parser()

    def check(self, sql: str) -> None:
        """Return where the text is one SELECT that only reads the fleet views.

        Raises SqlRefusedError for any other text (its subclass SqlSyntaxError where it is no SQL), and
        nothing else.
        """
        _check_text(sql)
        tree = self._tree(sql)
        if tree.get("error"):
            raise self._unread(sql, tree)
        statements = tree["statements"]
        if not statements:
            raise SqlSyntaxError("there is no statement in the text")
        if len(statements) > 1:
            raise SqlRefusedError(
                f"{len(statements)} statements", "one is run at a time", instead="send each by itself"
            )
        check(statements[0], self.relations)

    def close(self) -> None:
        """Give the parser's memory back."""
        self._parser.close()

    def _tree(self, sql: str) -> dict[str, Any]:
        try:
            with self._parser.cursor() as cursor:
                rows = cursor.execute(_PARSE, {"text": sql}).fetchall()
            tree: dict[str, Any] = orjson.loads(rows[0][0])
        except orjson.JSONDecodeError as err:
            endless = _ENDLESS.search(rows[0][0])
            if endless:
                raise _too_large(sql, int(endless.group(1))) from err
            raise SqlRefusedError("nesting", "it is too deep", instead="use CTEs (WITH …)") from err
        except (duckdb.Error, RuntimeError, UnicodeError) as err:
            with self._lock:
                # an internal error of the engine ends its database, which holds nothing
                self._parser.close()
                self._parser = _open_parser()
            raise SqlRefusedError("statement", "the parser cannot read it") from err
        return tree

    def _unread(self, sql: str, tree: dict[str, Any]) -> SqlRefusedError:
        if tree.get("error_type") == "parser" or tree.get("error_subtype") == "SYNTAX_ERROR":
            position = str(tree.get("position", ""))
            return SqlSyntaxError(
                str(tree.get("error_message", ""))[:500],
                position=int(position) if position.isdecimal() else None,
                instead=_AT_ADVICE if _BARE_AT.search(sql) else "",
            )
        word = self._first_kind(sql)
        return SqlRefusedError(word, "only SELECT is served", instead=_ADVICE.get(word, ""))

    def _first_kind(self, sql: str) -> str:
        """Return what kind of statement the text begins with, as its type or else its first word says."""
        try:
            kinds = [statement.type.name for statement in self._parser.extract_statements(sql)]
        except (duckdb.Error, RuntimeError, UnicodeError):
            kinds = []
        others = [kind for kind in kinds if kind not in {"SELECT", "INVALID"}]
        found = _FIRST_WORD.match(sql)
        word = found.group(1).upper()[:20] if found else "statement"
        if others and others[0] in {"CREATE", "MULTI"} and word != "CREATE":
            return "PIVOT"  # without its values it makes a type first
        return str(others[0]) if others else word


def _check_text(sql: str) -> None:
    if len(sql) > MAX_STATEMENT_CHARACTERS:
        raise SqlRefusedError(
            f"{len(sql)} characters",
            f"at most {MAX_STATEMENT_CHARACTERS} are read",
            instead="use a CTE, or fewer literals",
        )
    if "\0" in sql:
        raise SqlRefusedError("a NUL character", "it ends a text for some readers and not for others")
    try:
        sql.encode()
    except UnicodeEncodeError as err:
        raise SqlRefusedError("a lone surrogate", "the text is not valid Unicode") from err
    if sql.count("/*") > MAX_COMMENTS:
        raise SqlRefusedError("comments", f"at most {MAX_COMMENTS} are read")


def _too_large(sql: str, position: int) -> SqlRefusedError:
    """Return the refusal of the number at a position, which counts bytes of UTF-8."""
    found = _NUMBER.match(sql.encode()[position:].decode(errors="replace"))
    number = found.group() if found else "in the text"
    if len(number) > _SHOWN_CHARACTERS:
        number = f"{number[:_SHOWN_CHARACTERS]}… ({len(number)} characters)"
    return SqlRefusedError(
        f"number {number}", "it is larger than any DOUBLE (1.8e308)", instead="write 'inf'::DOUBLE, or less"
    )


def _open_parser() -> duckdb.DuckDBPyConnection:
    return duckdb.connect(
        ":memory:",
        config={
            "threads": "1",
            "memory_limit": "256MB",
            "enable_external_access": "false",
            "autoload_known_extensions": "false",
            "autoinstall_known_extensions": "false",
            "lock_configuration": "true",
        },
    )
