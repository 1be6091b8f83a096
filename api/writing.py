"""Append facts about a node as its state allows, and answer once they are folded (floor 3).

Whatever writes through the API does it here: operators' actions, allocations, the dialects. What to append is
decided on the newest folded state and appended under exactly that version, so two writers never lose an
update: the slower one decides again on what the faster one made of the node.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from uuid import uuid4
from weakref import WeakValueDictionary

from api.problems import BROKER_UNAVAILABLE, ProblemError
from events.append import append_all
from events.envelope import FactEvent, new_event
from events.errors import ConflictError

if TYPE_CHECKING:
    from api.answers import Answers
    from events.facts import FactData
    from events.ids import NodeId, StreamSeq
    from projections.state import NodeState

ATTEMPTS = 16
# Each lost attempt means that another writer's fact about this very node came in between.

Decide = Callable[["NodeState | None"], "Sequence[FactData]"]
"""What to append to a node as it is; nothing where it already is as wished. Raises where that is refused.

It is called again for each attempt, so it must not do anything but decide.
"""


@dataclass(frozen=True, slots=True)
class Written:
    """The sequences of the facts in FLEET (none where nothing had to change), the node before and after."""

    seqs: tuple[StreamSeq, ...]
    before: NodeState | None
    state: NodeState | None


class Writer:
    """Appends facts for one part of the API, named by `source` (a URI reference such as `/api`)."""

    def __init__(self, answers: Answers, *, source: str) -> None:
        self._answers, self._source = answers, source
        self._locks: WeakValueDictionary[NodeId, asyncio.Lock] = WeakValueDictionary()

    async def write(
        self, node_id: NodeId, decide: Decide, *, expect: int | None = None, event_id: str = ""
    ) -> Written:
        """Decide, append, and return once the facts are folded: what is read afterwards has them.

        `expect` is the version that the caller has read (`If-Match`): any other one is a ConflictError.
        `event_id` makes the broker drop the same event within its window; with several facts, `-1`, `-2`, …
        follow it. Raises what `decide` raises, ConflictError, OversizedError, BrokerUnavailableError where
        nobody knows whether the facts are stored (doing it again is safe where `decide` looks at the state),
        and position_not_reached where they are stored but not folded within the bound.
        """
        lock = self._locks.setdefault(node_id, asyncio.Lock())
        async with lock:
            return await self._write(node_id, decide, expect, event_id)

    async def _write(self, node_id: NodeId, decide: Decide, expect: int | None, event_id: str) -> Written:
        connection = self._answers.service.nc
        if connection is None:
            raise ProblemError(BROKER_UNAVAILABLE, "this service has no connection to a broker to write with")
        unread = 0  # the last record about a node of which nothing could be folded
        for attempt in range(1, ATTEMPTS + 1):
            before = self._answers.projection.node(node_id)
            version = max(before.version if before else 0, unread)
            if expect is not None and expect != version:
                raise ConflictError(node_id, expected=expect, found=version)
            events = self._events(node_id, decide(before), event_id)
            if not events:
                return Written((), before, before)
            try:
                seqs = await append_all(connection, events, expect={node_id: version})
            except ConflictError as err:
                if attempt == ATTEMPTS or not err.found:
                    raise
                await self._answers.reached(err.found)
                unread = err.found
                continue
            await self._answers.reached(seqs[-1])
            return Written(tuple(seqs), before, self._answers.projection.node(node_id))
        raise AssertionError("the last attempt returns or raises")

    def _events(self, node_id: NodeId, facts: Sequence[FactData], event_id: str) -> list[FactEvent]:
        stem, time = event_id or uuid4().hex, datetime.now(UTC)
        ids = [stem] if len(facts) == 1 else [f"{stem}-{n}" for n in range(1, len(facts) + 1)]
        return [
            new_event(data, about=node_id, source=self._source, event_id=one, time=time)
            for data, one in zip(facts, ids, strict=True)
        ]
