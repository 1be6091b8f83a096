"""What the evaluator reads from the tables (floor 2): nodes that changed, and what else facts said."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from events.digest import payload_digest
from events.errors import StoreError, UnreadableError
from events.ids import NodeId
from projections.roster import NodeRows
from projections.roster_news import STEMS, Changes, Registration, beat_known, digest_in
from projections.zones import ZoneState

if TYPE_CHECKING:
    from pathlib import Path

    import duckdb

NODES = """
    SELECT
        number, version, state, liveness, boot_id, zone, pool, interval_s,
        registered_at IS NOT NULL AS is_registered, epoch_us(liveness_since) AS since_us
    FROM main.node
    WHERE version > $after
"""
REGISTRATIONS = """
    SELECT node_id, max(seq) AS seq, arg_max(event_id, seq) AS event_id
    FROM main.fact
    WHERE starts_with("type", $registered)
    GROUP BY node_id
"""
EVIDENCE = """
    SELECT node_id, arg_max("data", seq) AS "data"
    FROM main.fact
    WHERE starts_with("type", $lost)
    GROUP BY node_id
"""
TOLD = """
    SELECT
        seq, node_id, event_id, starts_with("type", $registered) AS is_registration,
        CASE WHEN starts_with("type", $lost) THEN "data" END AS lost
    FROM main.fact
    WHERE seq > $after
        AND (starts_with("type", $registered) OR starts_with("type", $lost) OR node_id IS NULL)
    ORDER BY seq
"""
DATA_AT = """
    SELECT node_id, "data"
    FROM main.fact
    WHERE seq IN (SELECT unnest($seqs))
"""
ZONES = """
    SELECT zone, cause_seq, is_silent, "count", members, epoch_us(held_until) AS held_until_us
    FROM fleet.zones
"""


def everything(cursor: duckdb.DuckDBPyConnection, *, path: Path) -> Changes:
    """Return what all facts said; raise StoreError where the tables, which lie at `path`, were closed.

    Nodes are read first, so nothing that their state follows from is missing in the rest.
    """
    with _store_errors(path):
        return Changes(
            _nodes(cursor, after=0),
            {
                node_id: Registration(seq, digest_in(event_id))
                for node_id, seq, event_id in cursor.execute(
                    REGISTRATIONS, {"registered": STEMS["registered"]}
                ).fetchall()
            },
            {
                node_id: beat_seq
                for node_id, data in cursor.execute(EVIDENCE, {"lost": STEMS["lost"]}).fetchall()
                if (beat_seq := beat_known(data)) is not None
            },
            _zones(cursor),
        )


def changes(cursor: duckdb.DuckDBPyConnection, *, after: int, path: Path) -> Changes:
    """Return what facts after a position in FLEET said; as `everything` does."""
    with _store_errors(path):
        nodes = _nodes(cursor, after=after)
        told = cursor.execute(TOLD, {"after": after, **STEMS}).fetchall()
        registrations: dict[NodeId, Registration] = {}
        lost: dict[NodeId, int] = {}
        is_about_zones = False
        for seq, node_id, event_id, is_registration, data in told:
            if node_id is None:
                is_about_zones = True
            elif is_registration:
                registrations[node_id] = Registration(seq, digest_in(event_id))
            elif (beat_seq := beat_known(data)) is not None:
                lost[node_id] = beat_seq
        return Changes(nodes, registrations, lost, _zones(cursor) if is_about_zones else [])


def digests_at(cursor: duckdb.DuckDBPyConnection, seqs: list[int], *, path: Path) -> dict[NodeId, str]:
    """Return the digests of the registrations at some positions in FLEET, computed from what they say.

    Raises StoreError where the tables were closed.
    """
    with _store_errors(path):
        found = cursor.execute(DATA_AT, {"seqs": seqs}).fetchall()
    digests: dict[NodeId, str] = {}
    for node_id, data in found:
        try:
            digests[node_id] = payload_digest(data.encode())
        except UnreadableError:
            continue  # it was readable as a record: then it is none of ours to judge
    return digests


@contextlib.contextmanager
def _store_errors(path: Path) -> Iterator[None]:
    import duckdb  # noqa: PLC0415 (whoever has a cursor has it)

    try:
        yield
    except duckdb.Error as err:
        raise StoreError(str(path), why=str(err), instead="read them again") from err


def _nodes(cursor: duckdb.DuckDBPyConnection, *, after: int) -> NodeRows:
    found: Any = cursor.sql(NODES, params={"after": after}).to_arrow_table()
    return NodeRows(
        numbers=_int64s(found["number"]),
        versions=_int64s(found["version"]),
        states=found["state"].to_pylist(),
        livenesses=found["liveness"].to_pylist(),
        boot_ids=found["boot_id"].to_pylist(),
        zones=found["zone"].to_pylist(),
        pools=found["pool"].to_pylist(),
        intervals_s=found["interval_s"].to_pylist(),
        is_registered=found["is_registered"].to_numpy().astype(bool),
        since_us=_int64s(found["since_us"]),
    )


def _zones(cursor: duckdb.DuckDBPyConnection) -> list[ZoneState]:
    return [
        ZoneState(zone, version, is_silent, count or 0, members or 0, _seconds(held_until_us))
        for zone, version, is_silent, count, members, held_until_us in cursor.execute(ZONES).fetchall()
    ]


def _int64s(column: Any) -> np.ndarray[Any, np.dtype[np.int64]]:  # noqa: ANN401 (an Arrow column)
    filled: np.ndarray[Any, np.dtype[np.int64]] = column.fill_null(0).to_numpy().astype(np.int64)
    return filled


def _seconds(us: int | None) -> float | None:
    return None if us is None else us / 1_000_000
