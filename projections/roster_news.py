"""What facts said of nodes, as an evaluator takes it over, and the last of it in memory (floor 2, pure).

An evaluator looks twenty times a second, and each question to the tables costs milliseconds however little is
new. What is not in here, because it is older, came by the thousands or is about a zone, is in the tables
(`projections.roster_tables`), which say the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
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
from projections.rows import FactRow, NodeRow
from projections.zones import ZoneState

MOST_AT_ONCE = 2_000
# Facts of one batch. Larger ones are a backlog, in which nobody is judged.
MOST_BATCHES = 16
# Half a second of a busy hour, more than an evaluator lets pass between two looks.

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


class _Batch(NamedTuple):
    """The facts after one position in FLEET up to another, and what they made of nodes."""

    after: int
    reached: int
    nodes: Sequence[NodeRow]
    facts: Sequence[FactRow]


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
        batch = _Batch(after, reached, folded.nodes, folded.facts)
        self._batches = (*self._batches[1 - MOST_BATCHES :], batch)

    def since(self, after: int, *, until: int, number_of: Callable[[NodeId], int | None]) -> Changes | None:
        """Return what the facts after a position said, up to another or beyond; None where the tables have to
        be asked.
        """
        batches = self._batches
        first = next((at for at, batch in enumerate(batches) if batch.after == after), None)
        if first is None or batches[-1].reached < until:
            return None
        news = batches[first:]
        nodes = {row.node_id: row for batch in news for row in batch.nodes}
        numbers = [number_of(node_id) for node_id in nodes]
        if None in numbers:
            return None
        registrations: dict[NodeId, Registration] = {}
        lost: dict[NodeId, int] = {}
        for fact in (fact for batch in news for fact in batch.facts):
            assert fact.node_id is not None, "not taken"
            if fact.type.startswith(STEMS["registered"]):
                registrations[fact.node_id] = Registration(fact.seq, digest_in(fact.event_id))
            elif fact.type.startswith(STEMS["lost"]) and (beat_seq := beat_known(fact.data)) is not None:
                lost[fact.node_id] = beat_seq
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


def _rows(numbers: Sequence[int | None], nodes: Iterable[NodeRow]) -> NodeRows:
    rows = list(nodes)
    return NodeRows(
        numbers=np.array(numbers, dtype=np.int64),
        versions=np.array([row.version for row in rows], dtype=np.int64),
        states=[row.state for row in rows],
        livenesses=[row.liveness for row in rows],
        boot_ids=[row.boot_id for row in rows],
        zones=[row.zone for row in rows],
        pools=[row.pool for row in rows],
        intervals_s=[row.interval_s for row in rows],
        is_registered=np.array([row.registered_at is not None for row in rows], dtype=bool),
        since_us=np.array(
            [0 if row.liveness_since is None else to_us(row.liveness_since) for row in rows], dtype=np.int64
        ),
    )
