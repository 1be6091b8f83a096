"""Keep the state of every node by following CHANGES with a durable consumer: a whole service to start from.

    python docs/examples/follow_changes.py nats://127.0.0.1:4222 http://127.0.0.1:8470 state.json

What it knows and how far it is are one file, written at once, so it may be killed at any moment. It needs
`nats-py` alone. Each line that it prints is what a real service would act upon.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
import urllib.request
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import nats
import nats.errors
from nats.aio.msg import Msg
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy
from nats.js.client import JetStreamContext
from nats.js.errors import NotFoundError

STREAM = "CHANGES"
DURABLE = os.environ.get("DURABLE", "example-python")
AT_ONCE = 200
MARGIN = timedelta(minutes=5)
# A fact is announced within a second of being stored: long after a snapshot, none before it is to come.


class Known:
    """What the service knows: each node's state, the position in the log, and the one in the stream."""

    def __init__(self, file: Path) -> None:
        found = json.loads(file.read_text()) if file.exists() else {}
        self._file = file
        self.nodes: dict[str, str] = found.get("nodes", {})
        self.cursor: str = found.get("cursor", "")
        self.stream: str = found.get("stream", "")
        self.seq: int = found.get("seq", 0)

    @property
    def epoch(self) -> str:
        """The life of the log that the cursor belongs to."""
        return self.cursor.split("/")[0]

    def save(self) -> None:
        """Write all of it or nothing."""
        told = {"nodes": self.nodes, "cursor": self.cursor, "stream": self.stream, "seq": self.seq}
        beside = self._file.with_suffix(".new")
        beside.write_text(json.dumps(told))
        beside.replace(self._file)

    def includes(self, cursor: str) -> bool:
        """Say whether a change of the same log is part of it already."""
        return position(cursor) <= position(self.cursor)


def position(cursor: str) -> tuple[int, int]:
    """Return what orders the cursors of one log: `<epoch>/<seq>/<n>`, without `n` after all of a fact."""
    _, seq, *n = cursor.split("/")
    return int(seq), int(n[0]) if n else 2**31


def say(what: str, **more: object) -> None:
    """Act: here, print."""
    print(json.dumps({"what": what, **more}), flush=True)


def read_nodes(api: str) -> tuple[dict[str, str], dict[str, Any]]:
    """Return every node's state, retired ones too, and the `as_of` that all of it includes at least.

    Later pages may be newer than the first one. That does no harm: what made them newer comes again.
    """
    nodes: dict[str, str] = {}
    first: dict[str, Any] = {}
    more = ""
    while True:
        url = f"{api}/fleet/v1/nodes?include_retired=true&limit=1000{more}"
        with urllib.request.urlopen(url, timeout=30) as answer:
            page = json.load(answer)
        first = first or page["as_of"]
        nodes |= {node["id"]: node["state"] for node in page["items"]}
        if page["next_cursor"] is None:
            return nodes, first
        more = f"&cursor={page['next_cursor']}"


async def take_snapshot(known: Known, api: str, *, epoch: str = "") -> datetime:
    """Know what is now, of the log of an epoch where one is named; return as of when."""
    while True:
        nodes, as_of = await asyncio.to_thread(read_nodes, api)
        if as_of["epoch"] == epoch or (as_of["epoch"] and not epoch):
            break
        await asyncio.sleep(0.2)  # the API folds another log still, or none
    known.nodes, known.cursor = nodes, f"{as_of['epoch']}/{as_of['seq']}"
    say("snapshot", cursor=known.cursor, nodes=nodes)
    return datetime.fromisoformat(as_of["time"])


async def created(js: JetStreamContext) -> str:
    """Return when the stream was created: one that was made again is another one."""
    return str((await js.stream_info(STREAM)).created)


async def begin(js: JetStreamContext, known: Known, api: str) -> None:
    """Take a snapshot, and follow from shortly before it."""
    since = min(await take_snapshot(known, api), datetime.now(UTC)) - MARGIN
    with contextlib.suppress(NotFoundError):  # it is the first time, or went with its stream
        await js.delete_consumer(STREAM, DURABLE)
    known.stream, known.seq = await created(js), 0
    config = ConsumerConfig(
        durable_name=DURABLE,
        ack_policy=AckPolicy.EXPLICIT,
        deliver_policy=DeliverPolicy.BY_START_TIME,
        opt_start_time=since.isoformat(),  # type: ignore[arg-type]  # it goes over the wire as it is
    )
    await js.add_consumer(STREAM, config)
    known.save()


async def handle(message: Msg, known: Known, api: str) -> None:
    """Handle one message, once: what came again changes nothing."""
    seq = message.metadata.sequence.stream
    if seq <= known.seq:
        await message.ack()  # handled before; its acknowledgement was lost
        return
    if known.seq and seq != known.seq + 1:
        say("gap", first=known.seq + 1, last=seq - 1)  # they expired before we came
        await take_snapshot(known, api)
    change = json.loads(message.data)["data"]
    if change["kind"] == "log":
        if change["before"]["epoch"] == known.epoch:
            say("epoch", detail=change["detail"], cursor=change["cursor"])
            await take_snapshot(known, api, epoch=change["after"]["epoch"])
    elif change["cursor"].startswith(f"{known.epoch}/") and not known.includes(change["cursor"]):
        if change["kind"] == "state":
            known.nodes[change["node_id"]] = change["after"]["state"]
        known.cursor = change["cursor"]
        say("change", **{name: change[name] for name in ("cursor", "node_id", "kind", "detail", "after")})
    known.seq = seq
    known.save()
    await message.ack()


async def follow(js: JetStreamContext, known: Known, api: str) -> None:
    """Follow one life of the stream; return when it was made again."""
    if known.stream != await created(js):
        await begin(js, known, api)
    pulling = await js.pull_subscribe_bind(consumer=DURABLE, stream=STREAM)
    while True:
        try:
            messages = await pulling.fetch(AT_ONCE, timeout=1)
        except nats.errors.TimeoutError:
            if known.stream != await created(js):
                return
            continue
        for message in messages:
            await handle(message, known, api)


async def main(url: str, api: str, file: str) -> None:
    """Connect, and follow for ever."""
    nc = await nats.connect(url, max_reconnect_attempts=-1)
    while True:
        try:
            await follow(nc.jetstream(), Known(Path(file)), api)
        except (nats.errors.Error, OSError) as err:
            print(f"again in a second: {err!r}", file=sys.stderr)
            await asyncio.sleep(1)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:4]))
