"""Where a dialect meets the log and the projection (floor 3): facts in, beats in, nodes out.

An answer follows what it tells of: a fact is in FLEET and folded, a beat in BEATS and folded, and a node that
has just begun to beat was judged alive where somebody judges. Facts go in under the version of the node that
they were decided on, so writers that meet lose nothing.
"""

from __future__ import annotations

import asyncio
import time
from datetime import timedelta
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from api.dialects.refusal import Refusal
from api.dialects.registration import Report, is_of, registration
from api.problems import BROKER_UNAVAILABLE, POSITION_NOT_REACHED, ProblemError
from api.read_streams import MIN_SEQ_WITHIN
from api.writing import Writer, Written
from events.codec import encode_json
from events.errors import BrokerUnavailableError, InvalidNodeIdError, RefusedError
from events.facts import FactData
from events.ids import NodeId, node_id
from events.jetstream import ATTEMPT_S, PAUSE_S, NoAnswerError, connected, error_code, request
from events.streams import BEATS_NAME, FLEET_NAME
from events.subjects import beat_subject
from projections.directory import NodeFilter
from projections.state import NodeState

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from decimal import Decimal

    from api.answers import Answers
    from projections.heartbeats import Heartbeat

BEAT_WITHIN_S = 5.0
# As long as an append may take.
BEAT_ATTEMPTS = 4
# Another gateway's beat of the same node took the sequence: rare, since a node has one agent.
VERDICT_WITHIN = timedelta(seconds=3)
# The evaluator says `alive` within 0.3 s of a commit, and in a second on a machine that is busy starting. A
# node whose verdict is held up for longer is answered as it is.
NOBODY_JUDGES = "off"
UNHEARD = frozenset({"pending", "lost"})


class Gateway:
    """One dialect's way in and out. `interval_s` is how often its agents beat, None where they never do."""

    def __init__(self, answers: Answers, *, dialect: str, interval_s: float | None) -> None:
        self.answers, self.dialect, self.interval_s = answers, dialect, interval_s
        self._writer = Writer(answers, source=f"/dialects/{dialect}")
        self._beating: WeakValueDictionary[NodeId, asyncio.Lock] = WeakValueDictionary()

    def node_id(self, native_id: str) -> NodeId:
        """Return the node id behind a native one; raise Refusal (invalid) where it cannot be one."""
        try:
            return node_id(f"{self.dialect}:{native_id}")
        except InvalidNodeIdError as err:
            raise Refusal("invalid", err.why) from err

    def find(self, native_id: str) -> NodeState | None:
        """Return a node that is there for this dialect, None where it is not, or is retired."""
        try:
            state = self.answers.projection.node(self.node_id(native_id))
        except Refusal:
            return None
        return state if is_of(state, self.dialect) else None

    def heartbeat(self, state: NodeState) -> Heartbeat | None:
        """Return what the heartbeats of a node's standing boot say, None where it has none yet."""
        beat = self.answers.projection.heartbeat(state.node_id)
        return beat if beat is not None and beat.boot_id == state.boot_id else None

    async def all(self) -> list[NodeState]:
        """Return every node of this dialect that is not retired, by node id, all of one moment."""
        found = NodeFilter(dialect=self.dialect)
        limit = 2**31
        return await self.answers.questions.work(
            lambda: [
                state
                for state in self.answers.projection.nodes(found, limit=limit)
                if is_of(state, self.dialect)
            ]
        )

    def registration(
        self,
        state: NodeState | None,
        report: Report,
        *,
        begins_anew: bool = False,
        begins_anew_when_lost: bool = False,
    ) -> list[FactData]:
        """Return the fact that a report is for a node as it is, none where it says nothing new."""
        return registration(
            state,
            report,
            dialect=self.dialect,
            interval_s=self.interval_s,
            begins_anew=begins_anew,
            begins_anew_when_lost=begins_anew_when_lost,
        )

    async def write(
        self, native_id: str, decide: Callable[[NodeState | None], Sequence[FactData]]
    ) -> Written:
        """Append what `decide` makes of the node as it is, folded when this returns; see `api.writing`."""
        return await self._writer.write(self.node_id(native_id), decide)

    async def beat(self, state: NodeState, *, used: Mapping[str, Decimal | None] | None = None) -> NodeState:
        """Publish a heartbeat for a node's standing boot; return the node once it is folded and judged.

        `used` are measured amounts by resource, None for one that is unknown. Raises BrokerUnavailableError.
        """
        boot_id = state.boot_id
        assert boot_id is not None, "only a registered node beats"
        lock = self._beating.setdefault(state.node_id, asyncio.Lock())
        projection = self.answers.projection
        async with lock:
            for _ in range(BEAT_ATTEMPTS):
                last = projection.heartbeat(state.node_id)
                seq = last.last_seq + 1 if last is not None and last.boot_id == boot_id else 1
                position = await self._publish(
                    state.node_id, encode_json({"boot_id": boot_id, "seq": seq, "used": dict(used or {})})
                )
                await self._folded(position)
                taken = projection.heartbeat(state.node_id)
                if taken is None or taken.beat_seq >= position:
                    break
        await self._judged(state.node_id)
        return projection.node(state.node_id) or state

    async def _publish(self, node: NodeId, payload: bytes) -> int:
        connection = self.answers.service.nc
        if connection is None:
            raise ProblemError(BROKER_UNAVAILABLE, "this service has no connection to a broker to write with")
        subject, deadline = beat_subject(node), time.monotonic() + BEAT_WITHIN_S
        doing = f"publishing {subject}"
        while True:
            await connected(connection, doing=doing, deadline=deadline)
            left_s = max(deadline - time.monotonic(), 0.001)
            try:
                answer = await request(connection, subject, payload, timeout_s=min(ATTEMPT_S, left_s))
            except NoAnswerError as err:
                if time.monotonic() + PAUSE_S >= deadline:
                    raise BrokerUnavailableError(doing, why=err.why) from err
                await asyncio.sleep(PAUSE_S)
                continue
            if error_code(answer):
                said = answer["error"].get("description", "no reason given")
                raise RefusedError("publish_refused", f"the broker refuses {subject}: {said}")
            return int(answer["seq"])

    async def _folded(self, position: int) -> None:
        found = await self.answers.positions.wait_for(BEATS_NAME, position, within=MIN_SEQ_WITHIN)
        if found < position:
            raise ProblemError(
                POSITION_NOT_REACHED,
                f"BEATS is folded up to {found}, the beat is stored at {position}: retry",
            )

    async def _judged(self, node: NodeId) -> None:
        """Wait for the verdict on a node that has just spoken, where somebody judges; not for ever."""
        positions, deadline = self.answers.positions, time.monotonic() + VERDICT_WITHIN.total_seconds()
        while self.answers.service.liveness_mode() != NOBODY_JUDGES:
            seq = positions.seq(FLEET_NAME)
            state = self.answers.projection.node(node)
            left_s = deadline - time.monotonic()
            is_awaited = state is not None and state.retired_at is None and state.liveness in UNHEARD
            if not is_awaited or left_s <= 0:
                return
            await positions.wait_for(FLEET_NAME, seq + 1, within=timedelta(seconds=left_s))
