"""The example programs that follow CHANGES, led through everything that can happen to them.

    python -m tests.support.examples node docs/examples/javascript/follow_changes.mjs

runs the same as the test of the Python one with any other program.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from nats.aio.client import Client

from events.facts import Cordoned, Retired, Uncordoned
from events.ids import node_id
from tests.support.announcing import bodies
from tests.support.broker import Broker
from tests.support.brokers import AnyBroker
from tests.support.processes import ROOT, environment, running
from tests.support.publishing import connected, js_api, nodes, publish_all, registrations
from tests.support.strategies import said
from tests.support.waiting import wait_until

FEW = nodes(4)


class Follower:
    """A run of a program, and what it said."""

    def __init__(self, command: list[str], *arguments: str, log: Path) -> None:
        self.said: list[dict[str, Any]] = []
        self._log = log.open("ab")
        self._process = subprocess.Popen(
            [*command, *arguments],
            cwd=ROOT,
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )
        self._listening = threading.Thread(target=self._listen, daemon=True)
        self._listening.start()

    def says(self, what: str, is_it: Callable[[dict[str, Any]], bool] = lambda _said: True) -> dict[str, Any]:
        """Wait until it says something."""
        found: list[dict[str, Any]] = []

        def looked() -> bool:
            found[:] = [said for said in self.said if said["what"] == what and is_it(said)]
            assert found or self._process.poll() is None, f"it ended; it said {self.said}"
            return bool(found)

        wait_until(looked, within_s=40, what=f"{what} among {self.said}")
        return found[0]

    def kill(self) -> None:
        """End it at once."""
        self._process.kill()
        self._process.wait(20)
        self._listening.join(20)
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._log.close()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.said.append(json.loads(line))


class Stage:
    """A broker, a service, and a program that follows; its runs share one file."""

    def __init__(self, nc: Client, broker: AnyBroker, api: str, command: list[str], folder: Path) -> None:
        self.nc, self.api, self._broker = nc, api, broker
        self._command, self._folder = command, folder
        self.file = folder / "known.json"

    @contextmanager
    def followed(self) -> Iterator[Follower]:
        """Run the program until it is killed at the end of the block."""
        follower = Follower(
            self._command, self._broker.url, self.api, str(self.file), log=self._folder / "follower.log"
        )
        try:
            yield follower
        finally:
            follower.kill()

    async def tell(self, *facts: tuple[str, bytes]) -> str:
        """Publish facts; return the cursor of the last announcement once it is there."""
        seq = await publish_all(self.nc, "FLEET", facts)
        epoch = (await js_api(self.nc, "STREAM.INFO.FLEET"))["created"]
        async with asyncio.timeout(30):
            while True:
                found = [json.loads(body)["id"] for _, body in await bodies(self.nc)]
                if found and found[-1].startswith(f"{epoch}/{seq}/"):
                    last: str = found[-1]
                    return last
                await asyncio.sleep(0.02)

    def known(self) -> dict[str, Any]:
        """What the program knows, from its file."""
        found: dict[str, Any] = json.loads(self.file.read_text())
        return found


async def lead(command: list[str], broker: AnyBroker, folder: Path) -> None:
    """Lead a program through a first start, a crash, a gap, another log and a stream that is made again."""
    with running(
        "serve", "--nats", broker.url, "--http", "127.0.0.1:0", "--data", "data", "--no-sql", cwd=folder
    ) as up:
        api = re.sub("/fleet/v1/nodes$", "", up.says(r"API +(http://\S+/fleet/v1/nodes)")[1])
        async with connected(broker.url) as nc:
            stage = Stage(nc, broker, api, command, folder)
            await _begins_and_goes_on(stage)
            await _meets_a_gap(stage)
            await _meets_another_log(stage)
            await _meets_another_stream(stage)


async def _begins_and_goes_on(stage: Stage) -> None:
    await stage.tell(*registrations(FEW))
    with stage.followed() as first:
        snapshot = first.says("snapshot")
        assert snapshot["nodes"] == dict.fromkeys(FEW, "pending")
        last = await stage.tell(said(Cordoned(owner="ops"), FEW[0]), said(Retired(), FEW[1]))
        await asyncio.to_thread(first.says, "change", lambda told: told["cursor"] == last)
    told = [change["cursor"] for change in first.said if change["what"] == "change"]
    last = await stage.tell(said(Uncordoned(), FEW[0]), said(Cordoned(owner="ops"), FEW[2]))
    with stage.followed() as second:
        await asyncio.to_thread(second.says, "change", lambda change: change["cursor"] == last)
    assert [one["what"] for one in second.said] == ["change"] * len(second.said)
    told += [change["cursor"] for change in second.said]
    whole = [json.loads(body)["id"] for _, body in await bodies(stage.nc)]
    assert told == whole[-len(told) :]
    assert len(told) == len(set(told)) == 2 + 3 + 2 + 2, told
    assert stage.known()["nodes"] == dict(
        zip(FEW, ["pending", "retired", "cordoned", "pending"], strict=True)
    )


async def _meets_a_gap(stage: Stage) -> None:
    await stage.tell(said(Cordoned(owner="ops"), FEW[3]))
    await stage.tell(said(Uncordoned(), FEW[3]))
    last = await stage.tell(said(Cordoned(owner="other"), FEW[0]))
    await js_api(stage.nc, "STREAM.PURGE.CHANGES", {"keep": 1})
    with stage.followed() as follower:
        await asyncio.to_thread(follower.says, "snapshot")
        await stage.tell(said(Uncordoned(), FEW[2]))
        await asyncio.to_thread(follower.says, "change", lambda change: change["node_id"] == FEW[2])
    assert follower.said[0]["what"] == "gap"
    assert follower.said[0]["last"] >= follower.said[0]["first"]
    assert stage.known()["nodes"][FEW[0]] == "cordoned", last


async def _meets_another_log(stage: Stage) -> None:
    with stage.followed() as follower:
        config = (await js_api(stage.nc, "STREAM.INFO.FLEET"))["config"]
        await js_api(stage.nc, "STREAM.DELETE.FLEET")
        await js_api(stage.nc, "STREAM.CREATE.FLEET", config)
        last = await stage.tell(*registrations([node_id("new")]), said(Cordoned(owner="ops"), node_id("new")))
        await asyncio.to_thread(follower.says, "epoch")
        await asyncio.to_thread(follower.says, "snapshot")
        wait_until(lambda: stage.known()["nodes"] == {"new": "cordoned"}, within_s=40, what="the new log")
    assert [one["what"] for one in follower.said[:2]] == ["epoch", "snapshot"]
    assert follower.said[0]["cursor"].split("/")[0] == last.split("/")[0]


async def _meets_another_stream(stage: Stage) -> None:
    with stage.followed() as follower:
        await js_api(stage.nc, "STREAM.DELETE.CHANGES")
        await asyncio.to_thread(follower.says, "snapshot")
        last = await stage.tell(said(Uncordoned(), node_id("new")))
        await asyncio.to_thread(follower.says, "change", lambda change: change["cursor"] == last)
    assert [one["what"] for one in follower.said][:1] == ["snapshot"]
    assert stage.known()["nodes"] == {"new": "pending"}


def main() -> None:
    """Lead the program that the arguments name."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        broker = Broker(folder / "broker").start()
        try:
            asyncio.run(lead(sys.argv[1:], broker, folder))
        finally:
            broker.kill()
    print("it begins, goes on after a crash, and meets a gap, another log and another stream as it should")


if __name__ == "__main__":
    os.chdir(ROOT)
    main()
