"""How verdicts on silence fold (floor 2, pure). They write `verdict` alone; `settled` ends a count of flips.

A verdict is about one boot. One about another boot than the node's, or about a retired node, changes nothing.
"""

from __future__ import annotations

from typing import Any

from events.codec import Recorded
from events.facts import Alive, Lost, Settled
from projections.effect import effective_at, provisional, unchanged
from projections.parts import Verdict, made
from projections.state import NodeState

ALIVE = "alive"
LOST = "lost"
VERDICT = NodeState._fields.index("verdict")


def alive(state: NodeState | None, fact: Recorded, data: Alive) -> NodeState:
    """Fold a verdict `alive`. A node heard of before it registered becomes a provisional one."""
    return _judged(provisional(fact) if state is None else state, fact, ALIVE, data.boot_id or None)


def lost(state: NodeState | None, fact: Recorded, data: Lost) -> NodeState | None:
    """Fold a verdict `lost`, which creates no node."""
    return None if state is None else _judged(state, fact, LOST, data.boot_id or None)


def settled(state: NodeState | None, fact: Recorded, data: Settled) -> NodeState | None:
    """Fold the verdict that a flapping node has settled; one that flipped again since goes on flapping."""
    if state is None:
        return None
    flips = state.flips
    if flips is None or flips.since is None or flips.last_seq != data.last_flip_seq:
        return unchanged(state, fact)
    return state._replace(version=fact.seq, changed_at=effective_at(state, fact), flips=None)


def _judged(state: NodeState, fact: Recorded, word: str, about: str | None) -> NodeState:
    if state.retired_at is not None:
        return unchanged(state, fact)
    standing = state.standing_verdict
    if state.boot_id is not None:
        if about is not None and about != state.boot_id:
            return unchanged(state, fact)
        about = state.boot_id
    elif word == LOST and standing is not None:
        if about is not None and standing.boot_id is not None and about != standing.boot_id:
            return unchanged(state, fact)
        about = standing.boot_id
    if standing is not None and standing.word == word and standing.boot_id == about:
        return unchanged(state, fact)
    at = effective_at(state, fact)
    verdict = made(Verdict, (word, about, at, fact.seq))
    fields: tuple[Any, ...] = state
    return made(NodeState, (fields[0], fact.seq, at, *fields[3:VERDICT], verdict, *fields[VERDICT + 1 :]))
