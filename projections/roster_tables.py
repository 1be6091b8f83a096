"""What the evaluator reads from the tables (floor 2): nodes that changed, and what else facts said."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import orjson

from events.digest import DIGITS, payload_digest
from events.errors import StoreError, UnreadableError
from events.facts import Lost, Registered
from events.ids import NodeId
from events.registry import REGISTRY
from projections.roster import NodeRows
from projections.zones import ZoneState

if TYPE_CHECKING:
    import duckdb

NODES = """
    SELECT
        number, version, state, liveness, boot_id, zone, pool, interval_s,
        registered_at IS NOT NULL AS is_registered, epoch_us(liveness_since) AS since_us
    FROM main.node
    WHERE version > $after
"""
LAST_FACTS = """
    SELECT node_id, max(seq) AS seq, arg_max(event_id, seq) AS event_id
    FROM main.fact
    WHERE seq > $after AND starts_with("type", $stem)
    GROUP BY node_id
"""
LAST_DATA = """
    SELECT node_id, arg_max("data", seq) AS "data"
    FROM main.fact
    WHERE seq > $after AND starts_with("type", $stem)
    GROUP BY node_id
"""
DATA_AT = """
    SELECT node_id, "data"
    FROM main.fact
    WHERE seq IN (SELECT unnest($seqs))
"""
IS_ABOUT_ZONES = """
    SELECT count(*)
    FROM main.fact
    WHERE seq > $after AND node_id IS NULL
"""
ZONES = """
    SELECT zone, cause_seq, is_silent, "count", members, epoch_us(held_until) AS held_until_us
    FROM fleet.zones
"""


class Registration(NamedTuple):
    """A node's last registration; `digest` is "" where only its data tell it."""

    node_id: NodeId
    seq: int
    digest: str


class Changes(NamedTuple):
    """What facts after a position in FLEET said. `lost` has the beat that a node's last `lost` knew of.

    `zones` are all zones where one of the facts was about a zone, else none.
    """

    nodes: NodeRows
    registrations: list[Registration]
    lost: dict[NodeId, int]
    zones: list[ZoneState]


def changes(cursor: duckdb.DuckDBPyConnection, *, after: int) -> Changes:
    """Return what facts after a position in FLEET said; raise StoreError where the tables were closed.

    Nodes are read first, so nothing that their state follows from is missing in the rest.
    """
    import duckdb  # noqa: PLC0415 (the process that calls this has it)

    try:
        return Changes(
            changed_nodes(cursor, after=after),
            last_registrations(cursor, after=after),
            last_evidence(cursor, after=after),
            zone_states(cursor, after=after),
        )
    except duckdb.Error as err:
        raise StoreError("", why=str(err)) from err


def changed_nodes(cursor: duckdb.DuckDBPyConnection, *, after: int) -> NodeRows:
    """Return the nodes that a record after a position in FLEET was about."""
    found: Any = cursor.execute(NODES, {"after": after}).to_arrow_table()
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


def last_registrations(cursor: duckdb.DuckDBPyConnection, *, after: int) -> list[Registration]:
    """Return the last registration of each node that registered after a position in FLEET.

    Our own agents and the gateway end a registration's id with its digest, which spares computing it.
    """
    parameters = {"after": after, "stem": _stem(Registered)}
    return [
        Registration(node_id, seq, _digest_in(event_id))
        for node_id, seq, event_id in cursor.execute(LAST_FACTS, parameters).fetchall()
    ]


def digests_at(cursor: duckdb.DuckDBPyConnection, seqs: list[int]) -> dict[NodeId, str]:
    """Return the digests of the registrations at some positions in FLEET, computed from what they say.

    Raises StoreError where the tables were closed.
    """
    import duckdb  # noqa: PLC0415 (as above)

    try:
        found = cursor.execute(DATA_AT, {"seqs": seqs}).fetchall()
    except duckdb.Error as err:
        raise StoreError("", why=str(err)) from err
    digests: dict[NodeId, str] = {}
    for node_id, data in found:
        try:
            digests[node_id] = payload_digest(data.encode())
        except UnreadableError:
            continue  # it was readable as a record: then it is none of ours to judge
    return digests


def last_evidence(cursor: duckdb.DuckDBPyConnection, *, after: int) -> dict[NodeId, int]:
    """Return which beat the last `lost` of each node knew of, for verdicts after a position in FLEET.

    A verdict that does not say it, or not in JSON that we write (any writer may put NaN into a member of its
    own), is missing.
    """
    parameters = {"after": after, "stem": _stem(Lost)}
    found: dict[NodeId, int] = {}
    for node_id, data in cursor.execute(LAST_DATA, parameters).fetchall():
        try:
            beat_seq = orjson.loads(data).get("beat_seq")
        except orjson.JSONDecodeError:
            continue
        if isinstance(beat_seq, int):
            found[node_id] = beat_seq
    return found


def zone_states(cursor: duckdb.DuckDBPyConnection, *, after: int) -> list[ZoneState]:
    """Return what all zones are where a fact after a position in FLEET was about one; else nothing."""
    if not cursor.execute(IS_ABOUT_ZONES, {"after": after}).fetchall()[0][0]:
        return []
    return [
        ZoneState(zone, version, is_silent, count or 0, members or 0, _seconds(held_until_us))
        for zone, version, is_silent, count, members, held_until_us in cursor.execute(ZONES).fetchall()
    ]


def _stem(model: type[Registered | Lost]) -> str:
    return f"{REGISTRY.by_model[model].stem}.v"


def _digest_in(event_id: str) -> str:
    digest = event_id.rpartition("/")[2]
    return digest if len(digest) == DIGITS and not digest.strip("0123456789abcdef") else ""


def _int64s(column: Any) -> np.ndarray[Any, np.dtype[np.int64]]:  # noqa: ANN401 (an Arrow column)
    filled: np.ndarray[Any, np.dtype[np.int64]] = column.fill_null(0).to_numpy().astype(np.int64)
    return filled


def _seconds(us: int | None) -> float | None:
    return None if us is None else us / 1_000_000
