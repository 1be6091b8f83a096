"""Ten questions in SQL with the answers of the example day: a generated part of `docs/sql-guide.md`."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from textwrap import dedent
from typing import TYPE_CHECKING

from docs.example_fleet import fold_day
from docs.markdown import table
from events.amounts import plain

if TYPE_CHECKING:
    import duckdb


@dataclass(frozen=True)
class Question:
    """What somebody wants to know, the statement, and what is worth noticing about it."""

    asked: str
    sql: str
    note: str = ""


QUESTIONS: tuple[Question, ...] = (
    Question(
        "How much does the fleet have, and how much of it is left?",
        """
        SELECT
            resource, count(*) AS nodes, sum(total) AS total, sum(allocated) AS allocated, sum(free) AS free
        FROM fleet.capacity
        WHERE resource NOT LIKE 'gpu.%'
        GROUP BY resource
        ORDER BY resource
        """,
        "Resources are rows, so a new kind of resource needs no new column. `memory` is in bytes. `gpu` "
        "counts devices and `gpu.<model>` the same devices by model: sum one or the other.",
    ),
    Question(
        "Which GPUs are free, by model?",
        """
        SELECT
            replace(resource, 'gpu.', '') AS model,
            sum(total) AS total,
            sum(free) AS free,
            count(*) FILTER (free >= 8) AS nodes_with_8_free
        FROM fleet.capacity
        JOIN fleet.nodes USING (node_id)
        WHERE resource LIKE 'gpu.%' AND schedulable
        GROUP BY model
        ORDER BY free DESC
        """,
        "Free on a node that takes no work is not free to anybody: `schedulable` says which nodes do.",
    ),
    Question(
        "Which nodes take no work at the moment, and why?",
        """
        SELECT n.node_id, n.state, h.actor, h.reason, h.valid_from AS since
        FROM fleet.nodes AS n
        JOIN fleet.node_history AS h ON h.node_id = n.node_id AND h.valid_to IS NULL
        WHERE NOT n.schedulable
        ORDER BY since, n.node_id
        LIMIT 5
        """,
        "Every band of `node_history` carries the actor, the reason and the fact that began it; the open "
        "band is now.",
    ),
    Question(
        "How many nodes were in each state at noon, and how many are now?",
        """
        SELECT state, count(*) FILTER (moment = 'noon') AS noon, count(*) FILTER (moment = 'now') AS now
        FROM (
            SELECT state, 'noon' AS moment FROM fleet.nodes_at(TIMESTAMPTZ '2026-03-02 12:00:00+00')
            UNION ALL
            SELECT state, 'now' FROM fleet.nodes
        )
        GROUP BY state
        ORDER BY state
        """,
        "`nodes_at(t)` gives the fleet as it was; `capacity_at(t)` does the same for capacity.",
    ),
    Question(
        "What changed between eleven and a quarter past?",
        """
        SELECT member, before, after, count(*) AS nodes, min(node_id) AS first_of_them
        FROM fleet.fleet_diff(
            TIMESTAMPTZ '2026-03-02 11:00:00+00', TIMESTAMPTZ '2026-03-02 11:15:00+00'
        )
        GROUP BY member, before, after
        ORDER BY member
        """,
    ),
    Question(
        "Which nodes were lost, for how long, and when did they come back?",
        """
        SELECT
            h.node_id, h.valid_from AS lost_at, h.valid_to AS ended_at,
            round(epoch(h.valid_to - h.valid_from) / 60) AS minutes, n.state AS state_now
        FROM fleet.node_history AS h
        JOIN fleet.nodes AS n USING (node_id)
        WHERE h.state = 'lost'
        ORDER BY minutes DESC
        LIMIT 5
        """,
        "`valid_to` is NULL while a band is open: an outage that goes on has no length yet, and "
        "`coalesce(h.valid_to, now())` gives it one.",
    ),
    Question(
        "How many seconds did one node spend in each state?",
        """
        SELECT state, seconds
        FROM fleet.uptime(
            'openb-node-0041', TIMESTAMPTZ '2026-03-02 08:00:00+00', TIMESTAMPTZ '2026-03-02 18:00:00+00'
        )
        ORDER BY seconds DESC
        """,
        "The seconds before it was known belong to no state, which is why they are not quite ten hours.",
    ),
    Question(
        "How many GPU hours were lost in the day's outage?",
        """
        WITH cards AS (
            SELECT
                node_id, total, valid_from,
                coalesce(valid_to, TIMESTAMPTZ '2026-03-02 18:00:00+00') AS valid_to
            FROM fleet.capacity_history
            WHERE resource = 'gpu' AND status = 'reported'
        ),
        outages AS (
            SELECT
                node_id, valid_from,
                coalesce(valid_to, TIMESTAMPTZ '2026-03-02 18:00:00+00') AS valid_to
            FROM fleet.node_history
            WHERE state = 'lost'
        )
        SELECT
            count(DISTINCT o.node_id) AS nodes,
            round(sum(c.total * epoch(least(o.valid_to, c.valid_to) - greatest(o.valid_from, c.valid_from)))
                / 3600, 2) AS gpu_hours
        FROM outages AS o
        JOIN cards AS c ON c.node_id = o.node_id AND c.valid_from < o.valid_to AND c.valid_to > o.valid_from
        """,
        "Two histories are joined where their bands overlap. The bands of one history never overlap and "
        "leave no gap, so nothing is counted twice.",
    ),
    Question(
        "Where was more handed out than there is, and since when?",
        """
        SELECT c.node_id, c.total, c.ratio, c.allocatable, c.allocated, c.free, c.since, f.type
        FROM fleet.capacity AS c
        JOIN fleet.facts AS f ON f.seq = c.cause_seq
        WHERE c.free < 0
        ORDER BY c.free, c.node_id
        """,
        "`free` may be negative and is not clamped. `cause_seq` leads to the fact behind every row.",
    ),
    Question(
        "Which nodes use the least of the cores that they handed out?",
        """
        SELECT
            u.node_id, round(u.avg, 2) AS cores_used, c.allocated,
            round(100 * u.avg / c.allocated) AS percent
        FROM fleet.usage_1h AS u
        JOIN fleet.capacity AS c USING (node_id, resource)
        WHERE
            u.resource = 'cpu' AND u.hour = TIMESTAMPTZ '2026-03-02 17:00:00+00' AND c.allocated > 0
        ORDER BY percent, u.node_id
        LIMIT 5
        """,
        "`used` is measured and comes with heartbeats; `allocated` is what schedulers said. Neither follows "
        "from the other.",
    ),
)


def answered() -> str:
    """Return every question with its statement and its answer."""
    with tempfile.TemporaryDirectory() as folder:
        projection = fold_day(Path(folder))
        try:
            cursor = projection.cursor()
            try:
                return "\n\n".join(_sections(cursor))
            finally:
                cursor.close()
        finally:
            projection.close()


def _sections(cursor: duckdb.DuckDBPyConnection) -> Iterator[str]:
    for number, one in enumerate(QUESTIONS, start=1):
        sql = dedent(one.sql).strip()
        answer = cursor.execute(sql).to_arrow_table()
        rows = (tuple(shown(value) for value in row.values()) for row in answer.to_pylist())
        parts = [f"### {number}. {one.asked}", f"```sql\n{sql}\n```", table(tuple(answer.column_names), rows)]
        yield "\n\n".join([*parts, one.note] if one.note else parts)


def shown(value: object) -> str:
    """Return a value as a person would write it."""
    match value:
        case None:
            return "NULL"
        case datetime():
            return f"{value.astimezone(UTC):%Y-%m-%d %H:%M:%S}"
        case Decimal():
            return plain(value)
        case float():
            return f"{value:.10g}"
        case _:
            return str(value)
