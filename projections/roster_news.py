"""What facts said of nodes, as an evaluator takes it over, and the last of it in memory (floor 2, pure).

An evaluator judges up to fifty times a second, and each question to the tables costs some 4 ms however little
is new. What is not in here, because it is older, came by the thousands or is about a zone, is in the tables
(`projections.roster_tables`), which say the same.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

import numpy as np
import orjson

from events.digest import DIGITS
from events.facts import Lost, Registered
from events.ids import NodeId
from events.moments import to_us
from events.registry import REGISTRY
from projections.fold import FactsFolded
from projections.roster import NodeRows
from projections.rows import NodeRow
from projections.zones import ZoneState

MOST_AT_ONCE = 2_000
# Facts of one batch. Larger ones are a backlog, of which the tables tell a thousand at the price of one.
MOST_BATCHES = 16
# At 25 ms a commit these are 0.4 s; between two rounds of an evaluator pass 0.2 s at most.

STEMS = {
    "registered": f"{REGISTRY.by_model[Registered].stem}.v",
    "lost": f"{REGISTRY.by_model[Lost].stem}.v",
}
"""How the types of facts begin that say more than a node's state does."""


class Registration(NamedTuple):
    """A node's last registration; `digest` is "" where only its data tell it."""

    seq: int
    digest: str


class Changes(NamedTuple):
    """What facts after a position in FLEET said, of each node the last.

    `lost` has the beat that a node's last `lost` knew of. `zones` are all zones where one of the facts was
    about a zone, else none.
    """

    nodes: NodeRows
    registrations: dict[NodeId, Registration]
    lost: dict[NodeId, int]
    zones: list[ZoneState]


class _Node(NamedTuple):
    """What facts made of a node, as the members of `NodeRows`."""

    version: int
    state: str
    liveness: str
    boot_id: str | None
    zone: str | None
    pool: str | None
    interval_s: float | None
    is_registered: bool
    since_us: int


class _Batch(NamedTuple):
    """What the facts after one position in FLEET up to another said, of each node the last."""

    after: int
    reached: int
    nodes: dict[NodeId, _Node]
    registrations: dict[NodeId, Registration]
    lost: dict[NodeId, int]


class RosterNews:
    """The last batches of one opening of the tables.

    Only the writer adds, by putting another tuple in the place of the one before; so anybody may read at any
    time without a lock.
    """

    def __init__(self) -> None:
        self._batches: tuple[_Batch, ...] = ()

    def add(self, folded: FactsFolded, *, after: int, reached: int) -> None:
        """Take a committed batch: what followed one position, up to another."""
        if len(folded.facts) > MOST_AT_ONCE or any(fact.node_id is None for fact in folded.facts):
            self._batches = ()
            return
        registrations: dict[NodeId, Registration] = {}
        lost: dict[NodeId, int] = {}
        for fact in folded.facts:
            assert fact.node_id is not None, f"{fact.subject} is about a node"
            if fact.type.startswith(STEMS["registered"]):
                registrations[fact.node_id] = Registration(fact.seq, digest_in(fact.event_id))
            elif fact.type.startswith(STEMS["lost"]) and (beat_seq := beat_known(fact.data)) is not None:
                lost[fact.node_id] = beat_seq
        nodes = {row.node_id: _node(row) for row in folded.nodes}
        batch = _Batch(after, reached, nodes, registrations, lost)
        self._batches = (*self._batches[1 - MOST_BATCHES :], batch)

    def since(self, after: int, *, until: int, number_of: Callable[[NodeId], int | None]) -> Changes | None:
        """Return what the facts after one position said, up to another or beyond.

        None where the tables have to be asked.
        """
        batches = self._batches
        first = next((at for at, batch in enumerate(batches) if batch.after == after), None)
        if first is None or batches[-1].reached < until:
            return None
        nodes: dict[NodeId, _Node] = {}
        registrations: dict[NodeId, Registration] = {}
        lost: dict[NodeId, int] = {}
        for batch in batches[first:]:
            nodes |= batch.nodes
            registrations |= batch.registrations
            lost |= batch.lost
        numbers = [number_of(node_id) for node_id in nodes]
        if None in numbers:
            return None
        return Changes(_rows(numbers, nodes.values()), registrations, lost, [])


def beat_known(data: str) -> int | None:
    """Return which beat a verdict knew of; None where it does not say, or not in JSON that we write.

    Any writer may put NaN into a member of its own.
    """
    try:
        beat_seq = orjson.loads(data).get("beat_seq")
    except orjson.JSONDecodeError:
        return None
    return beat_seq if isinstance(beat_seq, int) else None


def digest_in(event_id: str) -> str:
    """Return the digest that ends a registration's id, "" where none does."""
    digest = event_id.rpartition("/")[2]
    return digest if len(digest) == DIGITS and not digest.strip("0123456789abcdef") else ""


def _node(row: NodeRow) -> _Node:
    since_us = 0 if row.liveness_since is None else to_us(row.liveness_since)
    return _Node(
        row.version, row.state, row.liveness, row.boot_id, row.zone, row.pool, row.interval_s,
        row.registered_at is not None, since_us,
    )  # fmt: skip


def _rows(numbers: Sequence[int | None], nodes: Collection[_Node]) -> NodeRows:
    columns = list(zip(*nodes, strict=True)) or [()] * len(_Node._fields)
    versions, states, livenesses, boot_ids, zones, pools, intervals_s, is_registered, since_us = columns
    return NodeRows(
        numbers=np.array(numbers, dtype=np.int64),
        versions=np.array(versions, dtype=np.int64),
        states=states,
        livenesses=livenesses,
        boot_ids=boot_ids,
        zones=zones,
        pools=pools,
        intervals_s=intervals_s,
        is_registered=np.array(is_registered, dtype=bool),
        since_us=np.array(since_us, dtype=np.int64),
    )
