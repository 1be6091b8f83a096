"""Append facts about a node as its state allows, and answer once they are folded (floor 3).

Whatever writes through the API does it here: operators' actions, allocations, the dialects. What to append is
decided on the newest folded state and appended under exactly that version, so two writers never lose an
update: the slower one decides again on what the faster one made of the node.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from uuid import uuid4
from weakref import WeakValueDictionary

from api.problems import BROKER_UNAVAILABLE, ProblemError
from events.append import APPENDED_BEFORE, append_all
from events.envelope import FactEvent, new_event
from events.errors import BrokerUnavailableError, ConflictError, RefusedError

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
    """The sequences of the facts in FLEET (none where nothing had to change), the node before and after.

    `is_repeated` says that the same request was done before the node was read, so that it did nothing now;
    `seqs` are then those of before, where they are known.
    """

    seqs: tuple[StreamSeq, ...]
    before: NodeState | None
    state: NodeState | None
    is_repeated: bool = False


class _Queue:
    """Who writes about one node in this process: one at a time."""

    def __init__(self) -> None:
        self.turn = asyncio.Lock()
        self.unanswered_at = 0.0
        # When the broker last left somebody here without an answer, on the monotonic clock.


class Writer:
    """Appends facts for one part of the API, named by `source` (a URI reference such as `/api`)."""

    def __init__(self, answers: Answers, *, source: str) -> None:
        self._answers, self._source = answers, source
        self._queues: WeakValueDictionary[NodeId, _Queue] = WeakValueDictionary()

    async def write(
        self, node_id: NodeId, decide: Decide, *, expect: int | None = None, event_id: str = ""
    ) -> Written:
        """Decide, append, and return once the facts are folded: what is read afterwards has them.

        `expect` is the version that the caller has read (`If-Match`): any other one is a ConflictError.
        `event_id` makes the broker drop the same request within its window: the first fact has it, those of
        the others end in `-2`, `-3`, …: a request is known again whatever of it is still to be done. Raises
        what `decide` raises, ConflictError, OversizedError, BrokerUnavailableError where nobody knows whether
        the facts are stored (doing it again is safe where `decide` looks at the state), and
        position_not_reached where they are stored but not folded within the bound.
        """
        queue = self._queues.setdefault(node_id, _Queue())
        waits_since = time.monotonic()
        async with queue.turn:
            if queue.unanswered_at > waits_since:
                # Else the last of a hundred callers is told after a hundred time-outs what the first one saw.
                raise BrokerUnavailableError(
                    f"writing about {node_id}", why="nor to others before in the queue"
                )
            try:
                return await self._write(node_id, decide, expect, event_id)
            except BrokerUnavailableError:
                queue.unanswered_at = time.monotonic()
                raise

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
            except RefusedError as err:
                if err.reason != APPENDED_BEFORE or not event_id:
                    raise
                return Written((), before, before, is_repeated=True)
            await self._answers.reached(seqs[-1])
            is_repeated = seqs[-1] <= version
            return Written(tuple(seqs), before, self._answers.projection.node(node_id), is_repeated)
        raise AssertionError("the last attempt returns or raises")

    def _events(self, node_id: NodeId, facts: Sequence[FactData], event_id: str) -> list[FactEvent]:
        stem, now = event_id or uuid4().hex, datetime.now(UTC)
        ids = [stem if n == 1 else f"{stem}-{n}" for n in range(1, len(facts) + 1)]
        return [
            new_event(data, about=node_id, source=self._source, event_id=one, time=now)
            for data, one in zip(facts, ids, strict=True)
        ]
