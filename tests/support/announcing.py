"""An announcer at work on a projection, what CHANGES holds, and what it has to hold."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nats.aio.client import Client

from consumers.announcer import Announcer
from consumers.following import StreamPlan
from consumers.projector import PLANS, Projector
from events.announcements import encode
from events.change_cursor import ChangeCursor
from events.stream_admin import ensure_streams
from projections.change_queries import changes, reached
from projections.projection import Projection
from tests.support.projecting import at_work
from tests.support.publishing import connect, connected, head, js_api, stream_reached

NO_LIMIT = 1_000_000


@asynccontextmanager
async def announcing(url: str, projection: Projection) -> AsyncIterator[Announcer]:
    """Announce what a projection comes to for the length of a block."""
    announcer = Announcer(projection, lambda: connect(url))
    await announcer.start()
    try:
        yield announcer
    finally:
        await announcer.stop()


@dataclass
class Announced:
    """A log on its way through one projection into CHANGES."""

    nc: Client
    projection: Projection
    projector: Projector
    announcer: Announcer
    url: str
    sent: list[int] = field(default_factory=list)

    async def all_told(self, *, timeout_s: float = 20) -> list[dict[str, Any]]:
        """Wait until all of the log is folded and announced; return what CHANGES holds."""
        assert await self.projector.wait_for("FLEET", await head(self.nc, "FLEET"), timeout_s=timeout_s)
        await told_up_to(self.nc, due(self.projection), timeout_s=timeout_s)
        return await messages(self.nc)


@asynccontextmanager
async def all_at_work(
    url: str, folder: Path, *, plans: tuple[StreamPlan, ...] = PLANS
) -> AsyncIterator[Announced]:
    """Fold a log and announce it for the length of a block."""
    projection = Projection.open(folder / "tables.duckdb")
    try:
        async with connected(url) as nc:
            await ensure_streams(nc)
            async with (
                at_work(url, projection, plans=plans) as projector,
                announcing(url, projection) as announcer,
            ):
                yield Announced(nc, projection, projector, announcer, url)
    finally:
        projection.close()


def due(projection: Projection) -> list[str]:
    """The ids of all that a projection has to announce, in order."""
    return [json.loads(payload)["id"] for payload in due_payloads(projection)]


def due_payloads(projection: Projection) -> list[bytes]:
    """The bodies of all that a projection has to announce, in order."""
    with closing(projection.cursor()) as cursor:
        epoch = reached(cursor).epoch
        page = changes(cursor, after=ChangeCursor(epoch, 0), limit=NO_LIMIT)
    assert page.is_last
    return [encode(announcement).payload for announcement in page.changes]


async def told_up_to(nc: Client, ids: list[str], *, timeout_s: float = 20) -> None:
    """Wait until the last of some announcements is the last of CHANGES."""
    if not ids:
        return
    async with asyncio.timeout(timeout_s):
        while await last_id(nc) != ids[-1]:  # noqa: ASYNC110 (a stream tells nobody that it grew)
            await asyncio.sleep(0.01)


async def last_id(nc: Client) -> str | None:
    """The id of the last message of CHANGES, None with none."""
    reply = await nc.request("$JS.API.STREAM.MSG.GET.CHANGES", b'{"last_by_subj":">"}', timeout=5)
    answer = json.loads(reply.data)
    if "message" not in answer:
        return None
    body = base64.b64decode(answer["message"]["data"])
    found: str | None = json.loads(body).get("id") if b'"id"' in body else None
    return found


async def bodies(nc: Client) -> list[tuple[str, bytes]]:
    """Every message of CHANGES as it is stored: subject and body."""
    state = (await js_api(nc, "STREAM.INFO.CHANGES"))["state"]
    found = []
    for seq in range(max(1, state["first_seq"]), state["last_seq"] + 1):
        message = (await js_api(nc, "STREAM.MSG.GET.CHANGES", {"seq": seq}))["message"]
        found.append((message["subject"], base64.b64decode(message["data"])))
    return found


async def messages(nc: Client) -> list[dict[str, Any]]:
    """Every event of CHANGES."""
    return [json.loads(body) for _, body in await bodies(nc)]


async def changes_reached(nc: Client, seq: int, *, timeout_s: float = 20) -> None:
    """Wait until CHANGES has so many messages, or had."""
    await stream_reached(nc, "CHANGES", seq, timeout_s=timeout_s)
