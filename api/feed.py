"""The feed of changes: a page of them, and all of them as they come (floor 3).

It is answered from the tables, which hold every announcement of the log, and not from CHANGES, which forgets
after 30 days: so a position is never too old, and is the same in every process that folds the log.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Annotated, NamedTuple

import orjson
from fastapi import Header, Query, Request, Response
from starlette.responses import StreamingResponse

from api import feed_frames
from api.answers import Answer, Answers, answer
from api.feed_frames import Frame, Selection, caught_up_frame, epoch_frame, fits, heartbeat, in_order
from api.feed_models import ChangesAnswer
from api.feed_tail import Tail
from api.parameters import ChangesParameters, FollowParameters
from api.problems import EPOCH_CHANGED, INVALID_CURSOR, NOT_READY, ProblemError
from api.routing import IS_HEAD, native_router
from events.change_cursor import ChangeCursor, parse_cursor
from events.errors import StoreError
from events.ids import node_id
from events.streams import FLEET_NAME
from projections.change_queries import changes

if TYPE_CHECKING:
    from fastapi import APIRouter

    from projections.latest import ChangesPage

EVENT_STREAM = "text/event-stream"
HEARTBEAT_S = 15.0
# Below the idle limits of usual proxies (30 to 60 s).
FOLDING_S = 0.25
# How soon tables are looked at again that are folded anew.
PAGE = 500
CHUNK_FRAMES = 100
# What is handed over at once: some tens of kilobytes.
START, NOW = "start", ("now", "latest")


class Step(NamedTuple):
    """What the tables have after a position; `is_last`: there is no more, `waits`: they cannot say yet."""

    frames: list[Frame]
    position: ChangeCursor
    is_last: bool = False
    waits: bool = False


class Feed:
    """Who follows the changes, over one tail of them; `close` ends their streams."""

    def __init__(self, answers: Answers) -> None:
        self._answers = answers
        self.tail = Tail(answers.projection, answers.questions)
        self.heartbeat_s = HEARTBEAT_S
        self.fallbacks = 0
        """How often somebody who followed live was too slow for that."""

    def close(self) -> None:
        """End all streams; twice is fine."""
        self.tail.close()

    async def follow(self, position: ChangeCursor, selection: Selection) -> AsyncIterator[bytes]:
        """Yield server-sent events from a position on, until the reader leaves or the feed is closed."""
        tail, is_live = self.tail, False
        yield feed_frames.RETRY
        with tail.joined():
            while not tail.is_closed:
                grown = tail.grown
                frames = tail.since(position)
                if frames is not None:
                    step = Step(frames, max(position, tail.end), is_last=True)
                else:
                    step = await _step(self._answers, position, selection)
                    if is_live and not step.is_last:
                        is_live = False
                        self.fallbacks += 1
                position = step.position
                async for chunk in _chunks(step.frames, selection):
                    yield chunk
                if step.is_last and not is_live:
                    yield caught_up_frame(position, self._answers.as_of().members()).event
                    is_live = True
                if not (step.is_last or step.waits):
                    continue
                try:
                    await asyncio.wait_for(grown.wait(), FOLDING_S if step.waits else self.heartbeat_s)
                except TimeoutError:
                    if not step.waits:
                        yield heartbeat(position)


async def page(answers: Answers, asked: ChangesParameters) -> Answer:
    """Answer what was announced after a position; raise epoch_changed for one of another log."""
    await answers.reached(asked.min_seq)
    after, selection = position_of(answers, asked.after), selection_of(asked)
    if after.epoch == _epoch(answers):
        if after.epoch and _is_rewound(answers, after):
            raise _changed(answers, "rewound", after)
        await answers.reached(after.seq)
    as_of = answers.as_of()
    found = await _asked(answers, after, selection, limit=asked.limit)
    if found.reached.epoch != after.epoch:
        if found.reached.epoch:
            raise _changed(answers, "epoch", after)
        if after.seq:
            raise ProblemError(NOT_READY, "the log is being folded anew: retry", headers={"Retry-After": "1"})
    items = [orjson.Fragment(frame.body) for frame in _frames(found, after)]
    cursor = str(found.after) if found.after.epoch else None
    is_last = found.is_last or not found.reached.epoch
    return answer({"items": items, "next_cursor": cursor, "caught_up": is_last}, as_of)


def position_of(answers: Answers, text: str | None) -> ChangeCursor:
    """Return the position that a text names, "" as epoch before anything is known; raise invalid_cursor."""
    now = answers.projection.cursors().get(FLEET_NAME)
    if text in NOW:
        return ChangeCursor("", 0) if now is None else ChangeCursor(now.epoch, now.seq)
    if text in (None, "", START):
        return ChangeCursor(answers.as_of().epoch, 0)
    try:
        return parse_cursor(text)
    except ValueError as err:
        raise ProblemError(
            INVALID_CURSOR,
            f"{err}: take the cursor of a frame or a page, {START!r}, or {NOW[0]!r}",
            members={"parameter": "after"},
        ) from err


def router(answers: Answers, feed: Feed) -> APIRouter:
    """Return the routes below `changes`."""
    routes = native_router(tag="changes")

    @routes.get(
        "/changes", response_model=ChangesAnswer, summary="What changed after a position, oldest first"
    )
    async def get_changes(asked: Annotated[ChangesParameters, Query()]) -> Response:
        return (await page(answers, asked)).http()

    @routes.get(
        "/changes/stream",
        response_class=Response,
        responses={200: {"content": {EVENT_STREAM: {"schema": {"type": "string"}}}}},
        summary="What changes, as it does: server-sent events from a position on",
    )
    async def get_stream(
        request: Request,
        asked: Annotated[FollowParameters, Query()],
        last_event_id: Annotated[
            str | None, Header(description="the position after which a client goes on; wins over `after`")
        ] = None,
    ) -> Response:
        position, selection = position_of(answers, last_event_id or asked.after), selection_of(asked)
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        if request.scope.get(IS_HEAD):
            return Response(media_type=EVENT_STREAM, headers=headers)
        return StreamingResponse(feed.follow(position, selection), media_type=EVENT_STREAM, headers=headers)

    return routes


def selection_of(asked: FollowParameters) -> Selection:
    """Return what is selected; raise InvalidNodeIdError for what cannot be a node."""
    return Selection(tuple(node_id(text) for text in asked.node), tuple(asked.kind))


async def _step(answers: Answers, position: ChangeCursor, selection: Selection) -> Step:
    """Read on in the tables from a position."""
    if not position.epoch:
        epoch = _epoch(answers)
        return Step([], ChangeCursor(epoch, 0), waits=not epoch)
    if _is_rewound(answers, position):
        after = ChangeCursor(position.epoch, answers.positions.seq(FLEET_NAME))
        return Step([epoch_frame("rewound", before=position, after=after)], after)
    try:
        found = await _asked(answers, position, selection, limit=PAGE)
    except StoreError:
        return Step([], position, waits=True)
    epoch = found.reached.epoch
    if epoch and epoch != position.epoch:
        after = ChangeCursor(epoch, 0)
        return Step([epoch_frame("epoch", before=position, after=after)], after)
    if not epoch or found.reached.seq < position.seq:
        return Step([], position, waits=True)
    return Step(_frames(found, position), found.after, is_last=found.is_last)


async def _asked(answers: Answers, after: ChangeCursor, selection: Selection, *, limit: int) -> ChangesPage:
    return await answers.questions.ask(
        lambda cursor: changes(cursor, after=after, limit=limit, nodes=selection.nodes, kinds=selection.kinds)
    )


def _epoch(answers: Answers) -> str:
    """Return the epoch of the log that is folded, "" before any of it is."""
    now = answers.projection.cursors().get(FLEET_NAME)
    return "" if now is None else now.epoch


def _is_rewound(answers: Answers, position: ChangeCursor) -> bool:
    """Say whether the log is known to end before a position of its own epoch."""
    now = answers.projection.cursors().get(FLEET_NAME)
    reading = answers.service.readings().get(FLEET_NAME)
    if now is None or reading is None or reading.state != "reading" or reading.head is None:
        return False
    return now.epoch == position.epoch and reading.head <= now.seq < position.seq


def _changed(answers: Answers, change: str, position: ChangeCursor) -> ProblemError:
    epoch = _epoch(answers)
    after = ChangeCursor(epoch, answers.positions.seq(FLEET_NAME) if change == "rewound" else 0)
    said = "ends before it: it went back" if change == "rewound" else "is another one"
    return ProblemError(
        EPOCH_CHANGED,
        f"{position} is a position of the log created at {position.epoch}; the log {said}: "
        f"take a snapshot and go on after {after}",
        members={
            "change": change,
            "known": position.epoch,
            "found": epoch,
            "after": str(after),
            "snapshot": feed_frames.SNAPSHOT,
        },
    )


def _frames(found: ChangesPage, after: ChangeCursor) -> list[Frame]:
    return in_order(after.epoch, found.changes, found.holes, after=after)


async def _chunks(frames: list[Frame], selection: Selection) -> AsyncIterator[bytes]:
    wanted = [frame.event for frame in frames if fits(frame, selection)]
    for begin in range(0, len(wanted), CHUNK_FRAMES):
        yield b"".join(wanted[begin : begin + CHUNK_FRAMES])
