"""A roster filled by hand: one line says what facts and heartbeats made of a node."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from projections.roster import BeatRows, NodeRows, Roster
from projections.silence import LivenessRules


@dataclass(frozen=True, kw_only=True)
class Told:
    """A node; `spoke` None never beat, and `liveness` None is one that no fact was about."""

    liveness: str | None = "alive"
    state: str = "ready"
    boot_id: str | None = "b1"
    zone: str | None = None
    pool: str | None = None
    interval_s: float | None = None
    is_registered: bool = True
    registered: str = ""
    spoke: float | None = None
    beat_boot: str = "b1"
    beat_seq: int = 1
    digest: str | None = None
    version: int = 1


def rostered(*told: Told, rules: LivenessRules | None = None, since: float = 0.0) -> Roster:
    """Return a roster of these nodes, numbered in their order; clocks that run began at `since`."""
    roster = Roster(rules or LivenessRules())
    roster.hold(len(told))
    beat(roster, {number: one for number, one in enumerate(told) if one.spoke is not None})
    know(roster, {number: one for number, one in enumerate(told) if one.liveness is not None}, since=since)
    return roster


def beat(roster: Roster, told: dict[int, Told]) -> None:
    """Let nodes beat."""
    roster.take_beats(
        BeatRows(
            numbers=np.array([*told], np.int64),
            beat_seqs=np.array([one.beat_seq for one in told.values()], np.int64),
            spoke=np.array([one.spoke or 0.0 for one in told.values()]),
            boot_ids=[one.beat_boot for one in told.values()],
            digests=[one.digest for one in told.values()],
        )
    )


def know(roster: Roster, told: dict[int, Told], *, since: float) -> None:
    """Let facts say what nodes are."""
    nodes = list(told.values())
    rows = NodeRows(
        numbers=np.array([*told], np.int64),
        versions=np.array([one.version for one in nodes], np.int64),
        states=[one.state for one in nodes],
        livenesses=[one.liveness or "pending" for one in nodes],
        boot_ids=[one.boot_id for one in nodes],
        zones=[one.zone for one in nodes],
        pools=[one.pool for one in nodes],
        intervals_s=[one.interval_s for one in nodes],
        is_registered=np.array([one.is_registered for one in nodes], bool),
        since_us=np.zeros(len(nodes), np.int64),
    )
    roster.take_nodes(rows, since=np.full(len(nodes), since))
    for number, one in told.items():
        if one.registered:
            roster.registered(number, one.registered, seq=one.version)
