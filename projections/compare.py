"""Do two stores tell the same? Every contract view of both, compared (floor 2).

What comes of FLEET must be the same to the last column. Of BEATS, the broker keeps a day and each store has
read it from where it began, so of it only what both can know is compared: samples of the time that both have,
and the last heartbeat of nodes that both heard. Counters over the past are not.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from events.errors import RefusedError
from events.log import Cursor
from events.streams import BEATS_NAME, FLEET_NAME
from projections.checkpoints import load_checkpoints
from projections.fleet_schema import SCHEMA
from projections.views import VIEWS

if TYPE_CHECKING:
    import duckdb

    from projections.checkpoints import Checkpoint
    from projections.views import View

BUCKETS = 1024
# Rows are compared by one hash for each of so many buckets, and fetched from a bucket that differs only.
SHOWN = 5
"""How many differing rows of a view are shown."""

_LEFT_OUT = {
    "nodes": frozenset({"last_heartbeat_at"}),
    "heartbeats": frozenset({"missed", "duplicates", "reordered", "other_boot", "skewed_since"}),
}
_OF_FACTS_ALONE = {("nodes", "conditions"): "list_filter(conditions, lambda one: one <> 'clock_skew')"}
# Since when a clock is far off depends on the heartbeats before, and so does whether it still is.
_USAGE_RANGE = f"""
    SELECT epoch_us(min(u."at")), epoch_us(max(u."at"))
    FROM {SCHEMA}.usage AS u
"""
_HEARD = f"""
    SELECT node_id
    FROM {SCHEMA}.heartbeats
    WHERE other_boot = 0
"""


@dataclass(frozen=True, slots=True)
class Difference:
    """A row that one store has and the other has not; values as text, by column."""

    is_left: bool
    row: dict[str, str | None]


@dataclass(frozen=True, slots=True)
class ViewComparison:
    """One view in both stores. `differences` holds the first few."""

    view: str
    left_rows: int
    right_rows: int
    is_equal: bool
    differences: tuple[Difference, ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """All views that could be compared, and those that could not, with the reason."""

    views: tuple[ViewComparison, ...]
    left_out: dict[str, str]

    @property
    def is_equal(self) -> bool:
        """Whether every compared view is the same in both."""
        return all(view.is_equal for view in self.views)


def compare(left: duckdb.DuckDBPyConnection, right: duckdb.DuckDBPyConnection) -> Comparison:
    """Return how two stores of the same log compare; neither may be written meanwhile.

    Raises RefusedError where they have folded FLEET up to different records.
    """
    at = [load_checkpoints(store) for store in (left, right)]
    fleet = [_cursor(one.get(FLEET_NAME)) for one in at]
    if fleet[0] != fleet[1]:
        raise RefusedError(
            "positions_differ",
            f"the stores are at {fleet[0].seq} and {fleet[1].seq} of {FLEET_NAME}",
            instead="fold both up to the same record and compare again",
        )
    beats = [_cursor(one.get(BEATS_NAME)) for one in at]
    scopes = {"quarantine": _Scope("stream = $stream", {"stream": FLEET_NAME})}
    left_out = {"usage_1h": "its hours are made of usage, which is compared"}
    if beats[0] != beats[1]:
        left_out |= dict.fromkeys(("heartbeats", "usage"), f"they are at different records of {BEATS_NAME}")
    else:
        scopes["heartbeats"] = _heard_by_both(left, right)
        usage = _known_to_both(left, right)
        if usage is None:
            left_out["usage"] = "they have no time in common"
        else:
            scopes["usage"] = usage
    views = [
        _compared(left, right, view.name, _columns(view), scopes.get(view.name, _EVERYTHING))
        for view in VIEWS
        if view.name not in left_out
    ]
    return Comparison(tuple(views), left_out)


class _Scope(NamedTuple):
    """Which rows of a view are compared."""

    condition: str
    parameters: dict[str, Any]


_EVERYTHING = _Scope("true", {})


def _cursor(checkpoint: Checkpoint | None) -> Cursor:
    return Cursor() if checkpoint is None else checkpoint.cursor


def _columns(view: View) -> dict[str, str]:
    """Return the columns to compare, by name, as SQL."""
    left_out: frozenset[str] = _LEFT_OUT.get(view.name, frozenset())
    return {
        name: _OF_FACTS_ALONE.get((view.name, name), f'"{name}"')
        for name in view.columns
        if name not in left_out
    }


def _heard_by_both(left: duckdb.DuckDBPyConnection, right: duckdb.DuckDBPyConnection) -> _Scope:
    """Return the nodes whose last heartbeat must be the same, whatever was heard before."""
    heard = [{node_id for (node_id,) in store.execute(_HEARD).fetchall()} for store in (left, right)]
    return _Scope("node_id IN (SELECT unnest($nodes::VARCHAR[]))", {"nodes": sorted(heard[0] & heard[1])})


def _known_to_both(left: duckdb.DuckDBPyConnection, right: duckdb.DuckDBPyConnection) -> _Scope | None:
    """Return the time of which both have samples, None where there is none."""
    ranges = [store.execute(_USAGE_RANGE).fetchall()[0] for store in (left, right)]
    if any(begin is None for begin, _ in ranges):
        return None
    begins, end = [one[0] for one in ranges], min(one[1] for one in ranges)
    # Of the microsecond in which the later one began to read, it may have a part.
    begin = max(begins) + (begins[0] != begins[1])
    if begin > end:
        return None
    return _Scope('epoch_us("at") BETWEEN $begin AND $end', {"begin": begin, "end": end})


def _compared(
    left: duckdb.DuckDBPyConnection,
    right: duckdb.DuckDBPyConnection,
    view: str,
    columns: dict[str, str],
    scope: _Scope,
) -> ViewComparison:
    buckets = [_buckets(store, view, columns, scope) for store in (left, right)]
    rows = [sum(count for count, _ in one.values()) for one in buckets]
    differing = [
        bucket
        for bucket in sorted(buckets[0].keys() | buckets[1].keys())
        if buckets[0].get(bucket) != buckets[1].get(bucket)
    ]
    shown: list[Difference] = []
    for bucket in differing:
        if len(shown) < SHOWN:
            found = [Counter(_rows(store, view, columns, scope, bucket)) for store in (left, right)]
            only = [(row, True) for row in sorted((found[0] - found[1]).elements(), key=repr)]
            only += [(row, False) for row in sorted((found[1] - found[0]).elements(), key=repr)]
            shown += [Difference(is_left, dict(zip(columns, row, strict=True))) for row, is_left in only]
    return ViewComparison(view, rows[0], rows[1], not differing, tuple(shown[:SHOWN]))


def _buckets(
    store: duckdb.DuckDBPyConnection, view: str, columns: dict[str, str], scope: _Scope
) -> dict[int, tuple[int, int]]:
    """Return for each bucket how many rows it has and the sum of their hashes, which no order changes."""
    compared = ", ".join(columns.values())
    query = f"""
        SELECT hash({_first(columns)}) % {BUCKETS} AS bucket, count(*), sum(hash({compared})::HUGEINT)
        FROM {SCHEMA}.{view}
        WHERE {scope.condition}
        GROUP BY bucket
    """
    return {
        bucket: (rows, total) for bucket, rows, total in store.execute(query, scope.parameters).fetchall()
    }


def _rows(
    store: duckdb.DuckDBPyConnection, view: str, columns: dict[str, str], scope: _Scope, bucket: int
) -> list[tuple[str | None, ...]]:
    query = f"""
        SELECT {", ".join(f"({column})::VARCHAR" for column in columns.values())}
        FROM {SCHEMA}.{view}
        WHERE ({scope.condition}) AND hash({_first(columns)}) % {BUCKETS} = $bucket
    """
    return store.execute(query, {**scope.parameters, "bucket": bucket}).fetchall()


def _first(columns: dict[str, str]) -> str:
    return next(iter(columns.values()))
