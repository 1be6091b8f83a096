"""The announcer: what the tables say was announced, into CHANGES, each once and in order (floor 3).

It runs beside the projector, in a thread with a loop and a connection of its own, and reads what was
committed. Where it goes on, it finds in CHANGES (`consumers.announcing`), so a rebuild, a crash at any moment
or a second announcer says nothing twice and leaves nothing out.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import nats.errors

from consumers.announcing import Place, ask_tables, find_place
from consumers.changes_stream import AppendRefusedError, append_changes, batches_of, changes_end
from consumers.ending import close
from consumers.loop_thread import LoopThread
from consumers.stream_api import NotAnsweredError
from events.announcements import encode
from events.errors import (
    BrokerUnavailableError,
    EpochChangedError,
    FleetfoldError,
    LogRewoundError,
    RefusedError,
    StoreError,
    StreamDriftError,
)
from events.streams import FLEET_NAME
from projections.change_queries import changes
from projections.projection import BEHIND

if TYPE_CHECKING:
    from nats.aio.client import Client

    from consumers.following import Connect
    from projections.applied import Applied
    from projections.latest import ChangesPage
    from projections.projection import Projection

log = logging.getLogger(__name__)

PAGE = 2_000
AGAIN_S = 0.25
# After a question that was not answered; and how long the second of two announcers lets the first one be.
REFUSED_AGAIN_S = 5.0
# After a stream that a person has to look at.
LOOK_EVERY_S = 5.0
# How soon a CHANGES that was made again is noticed while there is nothing to announce.
TRUSTED_S = 1.0
# For how long the end of CHANGES is believed to be where it was, before it is appended to.

BEHIND_TIMES = 9
# While facts are far ahead of the tables, announcing takes a tenth of its thread's time: folding them makes
# all that is late less so, and the two would take the processor from each other.

COUNTED = ("announced", "batches", "lost_races", "other_logs", "searches")

State = Literal["starting", "announcing", "waiting", "stopped"]


@dataclass(frozen=True, slots=True)
class AnnouncerStatus:
    """How announcing goes. `epoch` and `seq` are those of CHANGES (None: not known yet), `cursor` is the
    position up to which all is announced. `lag_ms` is for how long the oldest due announcement has waited, 0
    with none. `counts` of this process: `announced`, `batches`, `lost_races`, `other_logs`, `searches`.
    """

    state: State
    epoch: str
    seq: int | None
    cursor: str
    lag_ms: float
    counts: Mapping[str, int]
    last_error: str


class Announcer:
    """Announces between `start` and `stop`. All but these two may be called from any thread."""

    def __init__(self, projection: Projection, connect: Connect) -> None:
        self._projection, self._connect = projection, connect
        self._thread = LoopThread("announcer", self._main, ended=self._ended, failed=self._failed_for_good)
        self._wake: asyncio.Event | None = None
        self._unsubscribe: Callable[[], None] = lambda: None
        self._counts = Counter(dict.fromkeys(COUNTED, 0))
        self._place: Place | None = None
        self._shown: Place | None = None
        self._verified_at = 0.0
        self._due_since: float | None = None
        self._last_error, self._is_stopped = "", False
        self._is_behind = False

    async def start(self) -> None:
        """Begin to announce; returns at once, whether the broker is there or not."""
        self._thread.start()

    async def stop(self) -> None:
        """Stop announcing; what is being appended may or may not be. Twice is fine."""
        await self._thread.stop()

    def status(self) -> AnnouncerStatus:
        """Return how it goes now; costs microseconds."""
        shown, due_since = self._shown, self._due_since
        state: State = "announcing"
        if self._is_stopped or not self._thread.is_alive():
            state = "stopped"
        elif self._place is None:
            state = "starting" if shown is None and not self._last_error else "waiting"
        return AnnouncerStatus(
            state=state,
            epoch="" if shown is None else shown.epoch,
            seq=None if shown is None else shown.last_seq,
            cursor="" if shown is None else str(shown.cursor),
            lag_ms=0.0 if due_since is None else 1000 * (time.monotonic() - due_since),
            counts=dict(self._counts),
            last_error=self._last_error,
        )

    def _failed_for_good(self, err: Exception) -> None:
        """Say so: nothing more is announced, nothing is lost either."""
        log.error("the announcer stopped", exc_info=err, extra={"place": str(self._place)})
        self._last_error, self._is_stopped = f"internal error: {type(err).__name__}", True

    async def _main(self) -> None:
        self._wake = asyncio.Event()
        self._unsubscribe = self._projection.subscribe(self._committed)
        await self._work()

    async def _ended(self) -> None:
        self._unsubscribe()

    async def _work(self) -> None:
        while True:
            try:
                nc = await self._connect()
            except (nats.errors.Error, OSError, TimeoutError, BrokerUnavailableError) as err:
                self._failed(BrokerUnavailableError("announcing", why=str(err)))
                await asyncio.sleep(AGAIN_S)
                continue
            try:
                while not nc.is_closed:
                    worked_s = time.thread_time()
                    pause_s = await self._step(nc)
                    if self._is_behind:
                        pause_s = max(pause_s, BEHIND_TIMES * (time.thread_time() - worked_s))
                    await asyncio.sleep(pause_s)
            finally:
                await close(nc)

    async def _step(self, nc: Client) -> float:
        """Find the place, or announce a page; return how many seconds to let pass before the next step."""
        try:
            if not nc.is_connected:
                raise NotAnsweredError("CONNECT.BROKER", why="not connected")
            if self._place is None:
                return await self._search(nc)
            await self._announce(nc, self._place)
        except AppendRefusedError as err:
            self._counts["lost_races"] += err.is_lost_race
            self._place = None
            if not err.is_lost_race:
                self._failed(err)
            return AGAIN_S
        except (
            NotAnsweredError, BrokerUnavailableError, StoreError, EpochChangedError, LogRewoundError,
            nats.errors.Error,
        ) as err:  # fmt: skip
            # The broker or the tables are away, or the tables are not yet those of the log that is there.
            self._place = None
            self._failed(err)
            return AGAIN_S
        except (StreamDriftError, RefusedError) as err:
            self._place, self._is_stopped = None, True
            self._failed(err)
            return REFUSED_AGAIN_S
        return 0.0

    async def _search(self, nc: Client) -> float:
        self._counts["searches"] += 1
        self._due_since = self._due_since or time.monotonic()
        place, is_other_log = await find_place(nc, self._projection)
        self._counts["other_logs"] += is_other_log
        self._last_error, self._is_stopped = "", False
        if place is None:
            await self._committed_or(AGAIN_S)
            return 0.0
        self._place = self._shown = place
        self._verified_at = time.monotonic()
        log.info("announcing goes on", extra={"after": str(place.cursor), "changes_seq": place.last_seq})
        return 0.0

    async def _announce(self, nc: Client, place: Place) -> None:
        """Announce what is due, a page at most, or wait until something is."""
        assert self._wake is not None, "made with the loop"
        self._wake.clear()
        page = self._page(place)
        if page is None:
            self._place = None
            return
        if page.reached.epoch and page.reached.seq >= place.cursor.seq:
            place = await self._append(nc, place, page)
            if not page.is_last:
                return
        # Else the tables are folded anew and are not there yet: nothing is due.
        if not self._wake.is_set():
            self._due_since = None
        if not await self._committed_or(LOOK_EVERY_S) and not await self._is_still(nc, place):
            self._place = None

    async def _append(self, nc: Client, place: Place, page: ChangesPage) -> Place:
        """Append a page; return the place after it. Raises AppendRefusedError."""
        is_old = time.monotonic() - self._verified_at > TRUSTED_S
        if page.changes and is_old and not await self._is_still(nc, place):
            raise AppendRefusedError(f"{place.last_seq} is its end no more", is_lost_race=True)
        for batch in batches_of([encode(announcement) for announcement in page.changes]):
            last_seq = await append_changes(nc, batch, last_seq=place.last_seq)
            self._verified_at = time.monotonic()
            self._counts["announced"] += len(batch)
            self._counts["batches"] += 1
            place = replace(place, last_seq=last_seq, cursor=batch[-1].cursor, number=None)
            self._place = self._shown = place
        place = replace(place, cursor=page.after, number=page.number)
        self._place = self._shown = place
        return place

    def _page(self, place: Place) -> ChangesPage | None:
        """Return what comes after a place; None where the tables are others than it was found in."""
        page = self._projection.latest.page(after=place.cursor, number=place.number) or ask_tables(
            self._projection,
            lambda cursor: changes(cursor, after=place.cursor, number=place.number, limit=PAGE),
        )
        is_same = page.reached.epoch in (place.cursor.epoch, "")
        return page if is_same and self._projection.openings == place.openings else None

    async def _is_still(self, nc: Client, place: Place) -> bool:
        """Say whether CHANGES ends where we left it."""
        found = await changes_end(nc)
        self._verified_at = time.monotonic()
        return (found.epoch, found.last_seq) == (place.epoch, place.last_seq)

    async def _committed_or(self, within_s: float) -> bool:
        """Wait until something was committed that may be announced; say False where nothing was in time."""
        assert self._wake is not None, "made with the loop"
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._wake.wait(), within_s)
        return self._wake.is_set()

    def _committed(self, applied: Applied) -> None:
        """Called by the writer thread after each commit."""
        if applied.stream != FLEET_NAME:
            return
        self._is_behind = applied.pending > BEHIND
        if not (applied.announcements or self._place is None):
            return
        if self._due_since is None:
            self._due_since = time.monotonic()
        self._thread.call_soon_set(self._wake)

    def _failed(self, err: FleetfoldError | nats.errors.Error) -> None:
        if str(err) != self._last_error:
            log.warning("announcing waits", extra={"why": str(err), "code": getattr(err, "code", "nats")})
        self._last_error = str(err)
