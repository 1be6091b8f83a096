"""The reference agent's life: register, beat, answer, say goodbye (floor 4).

registered   at the start, when the inventory changes, and when asked; repeated until it is acknowledged
beat         every interval at the node's own phase, without acknowledgement; none is kept for later,
             since a heartbeat of a minute ago says nothing about now
leaving      at an orderly stop
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import TYPE_CHECKING, Any

import orjson

from events.addresses import public_url
from events.asks import decode_ask
from events.ids import NodeId, token
from events.streams import FLEET_NAME
from events.subjects import ask_subject, beat_subject
from fleetfold.agent import messages
from fleetfold.agent.messages import FactMessage
from fleetfold.connection import connect

if TYPE_CHECKING:
    from nats.aio.client import Client
    from nats.aio.msg import Msg

log = logging.getLogger(__name__)

JITTER = 0.05
# Of the interval: enough that agents which share a phase part, little enough that three beats fit into every
# grace.
INVENTORY_EVERY_S = 60.0
# A card that is pulled or an address that changes is known within this time; reading it all costs about 5 ms.
ASKED_SPREAD_S = 2.0
# A service that lost its data asks everybody at once; the answers come spread over this time.
ACK_WITHIN_S = 4.0
GOODBYE_WITHIN_S = 2.0
BACK_OFF_S = (0.2, 30.0)


class End(Enum):
    """Why an agent stopped."""

    STOPPED = "stopped"
    GONE = "gone"


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What the agent reads: who it is, and two readings that may block for some milliseconds each."""

    node_id: NodeId
    boot_id: str
    inventory: Callable[[], dict[str, Any]]
    usage: Callable[[], dict[str, int | float]]
    interval_s: float


class Agent:
    """One agent of one machine. `run` returns when it is stopped or told that the node is gone."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._seq = 0
        self._inventory: dict[str, Any] = {}
        self._digest = ""
        self._is_registered = False
        self._asked = asyncio.Event()
        self._ended: asyncio.Future[tuple[End, str]] | None = None
        self.beats = self.registrations = 0

    @property
    def digest(self) -> str:
        """Return the digest of the inventory that was registered last, "" before the first."""
        return self._digest

    async def run(self, url: str) -> End:
        """Speak for the machine through the broker at `url` until the end, through every outage."""
        self._ended = asyncio.get_running_loop().create_future()
        pause_s = BACK_OFF_S[0]
        while True:
            since = time.monotonic()
            end = await self._session(url)
            if end is not None:
                return end
            if time.monotonic() - since > BACK_OFF_S[1]:
                pause_s = BACK_OFF_S[0]
            log.warning("the broker closed the connection for good: a new one in %.1f s", pause_s)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause_s * random.uniform(0.5, 1)):
                    return (await asyncio.shield(self._ended))[0]
            pause_s = min(pause_s * 2, BACK_OFF_S[1])

    def stop(self) -> None:
        """Ask the agent to say goodbye and to return from `run`."""
        self._finish(End.STOPPED, "")

    async def _session(self, url: str) -> End | None:
        """Work on one connection; None when the broker closed it for good."""
        assert self._ended is not None, "a session belongs to a run"
        machine = self._machine
        closed = asyncio.Event()

        async def on_closed() -> None:
            closed.set()

        connecting: asyncio.Future[Client] = asyncio.ensure_future(
            connect(
                url,
                name=f"agent {machine.node_id}",
                on_closed=on_closed,
                inbox_prefix=f"_INBOX_{token(machine.node_id)}",
            )
        )
        ended: asyncio.Future[Any] = self._ended
        await asyncio.wait([connecting, ended], return_when=asyncio.FIRST_COMPLETED)
        if not connecting.done():
            connecting.cancel()
            await asyncio.gather(connecting, return_exceptions=True)
            return self._ended.result()[0]
        nc = connecting.result()
        log.info("node %s speaks through %s", machine.node_id, public_url(url))
        await nc.subscribe(ask_subject(machine.node_id), cb=self._on_ask)
        work: list[asyncio.Future[Any]] = [
            asyncio.ensure_future(each)
            for each in (self._keep_registered(nc), self._keep_beating(nc), closed.wait())
        ]
        try:
            await asyncio.wait([*work, ended], return_when=asyncio.FIRST_COMPLETED)
            for task in work:
                if task.done():
                    task.result()  # an error of ours ends the agent, and is not hidden
        finally:
            for task in work:
                task.cancel()
            await asyncio.gather(*work, return_exceptions=True)
        if closed.is_set():
            return None
        end, why = self._ended.result()
        if end is End.STOPPED:
            await self._say_goodbye(nc)
        else:
            log.error("node %s is no longer part of the fleet%s: the agent stops", machine.node_id, why)
        await nc.close()
        return end

    async def _keep_registered(self, nc: Client) -> None:
        """Register when there is something to say: at the start, when something changed, when asked."""
        while True:
            found = await asyncio.to_thread(self._machine.inventory)
            digest = messages.digest_of(found)
            if digest != self._digest:
                self._inventory, self._digest, self._is_registered = found, digest, False
            if not self._is_registered:
                await self._register(nc)
                self._is_registered = True
            if await _within(self._asked.wait(), INVENTORY_EVERY_S):
                await asyncio.sleep(random.uniform(0, min(ASKED_SPREAD_S, self._machine.interval_s)))
                self._asked.clear()
                self._is_registered = False

    async def _register(self, nc: Client) -> None:
        machine = self._machine
        self._seq += 1
        said = messages.registration(
            machine.node_id,
            boot_id=machine.boot_id,
            seq=self._seq,
            at=datetime.now(UTC),
            inventory=self._inventory,
            digest=self._digest,
        )
        await self._publish(nc, said)
        self.registrations += 1
        log.info("node %s registered (inventory %s)", machine.node_id, self._digest)

    async def _publish(self, nc: Client, said: FactMessage) -> None:
        """Publish a fact until the broker says that it is stored."""
        import nats.errors  # noqa: PLC0415 - loaded by the connection already

        headers = {"Nats-Msg-Id": said.message_id, "Nats-Expected-Stream": FLEET_NAME}
        pause_s = BACK_OFF_S[0]
        while True:
            why = "not connected"
            try:
                if nc.is_connected:
                    reply = await nc.request(
                        said.subject, said.payload, timeout=ACK_WITHIN_S, headers=headers
                    )
                    answer = orjson.loads(reply.data)
                    if "error" not in answer:
                        return
                    why = answer["error"].get("description", "refused")
            except (nats.errors.Error, orjson.JSONDecodeError, OSError) as err:
                why = str(err) or type(err).__name__
            log.warning("%s is not stored yet (%s): again in %.1f s", said.subject, why, pause_s)
            await asyncio.sleep(pause_s * random.uniform(0.5, 1))
            pause_s = min(pause_s * 2, BACK_OFF_S[1])

    async def _keep_beating(self, nc: Client) -> None:
        machine = self._machine
        subject = beat_subject(machine.node_id)
        await asyncio.to_thread(machine.usage)  # the first reading of the CPU has nothing to compare with
        due = time.monotonic() + messages.phase(machine.node_id) * machine.interval_s
        while True:
            jitter_s = random.uniform(-JITTER, JITTER) * machine.interval_s
            await asyncio.sleep(max(0.0, due + jitter_s - time.monotonic()))
            used = await asyncio.to_thread(machine.usage)
            self._seq += 1
            if nc.is_connected:
                await nc.publish(
                    subject,
                    messages.beat(
                        boot_id=machine.boot_id,
                        seq=self._seq,
                        at=datetime.now(UTC),
                        digest=self._digest,
                        used=used,
                    ),
                )
                self.beats += 1
            due += machine.interval_s
            behind_s = time.monotonic() - due
            if behind_s > 0:  # this machine slept: the beats in between are missed, not made up for
                due += (behind_s // machine.interval_s + 1) * machine.interval_s

    async def _on_ask(self, msg: Msg) -> None:
        ask = decode_ask(msg.data)
        if ask is None:
            log.debug("a question that this agent does not know: %r", msg.data[:80])
            return
        match ask.word:
            case "register":
                log.warning(
                    "asked to register as %s again: %s",
                    self._machine.node_id,
                    ask.reason or "no reason given",
                )
                self._asked.set()
            case "gone":
                self._finish(End.GONE, f" ({ask.reason})" if ask.reason else "")
            case "probe":
                if msg.reply:
                    machine = self._machine
                    await msg.respond(
                        messages.self_portrait(
                            machine.node_id,
                            boot_id=machine.boot_id,
                            seq=self._seq,
                            at=datetime.now(UTC),
                            digest=self._digest,
                        )
                    )

    async def _say_goodbye(self, nc: Client) -> None:
        self._seq += 1
        machine = self._machine
        said = messages.goodbye(
            machine.node_id, boot_id=machine.boot_id, seq=self._seq, at=datetime.now(UTC), cause="shutdown"
        )
        if not await _within(self._publish(nc, said), GOODBYE_WITHIN_S):
            log.warning("node %s left without a goodbye: the broker did not answer", machine.node_id)

    def _finish(self, end: End, why: str) -> None:
        if self._ended is not None and not self._ended.done():
            self._ended.set_result((end, why))


async def _within(work: Coroutine[Any, Any, object], seconds: float) -> bool:
    """Tell whether the work ended within the time; it is cancelled where it did not."""
    try:
        async with asyncio.timeout(seconds):
            await work
    except TimeoutError:
        return False
    return True
