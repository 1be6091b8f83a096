"""`fleetfold up` and `fleetfold serve`: everything started in order, watched, and ended in order (floor 4).

Start: the data folder is held, the API's port is taken, the broker is launched; the heavy modules are
imported while it starts. Then the core. What is not needed for the first answer (FastStream, the SQL replica,
the agent) comes after it. End: agent (it says goodbye), API, projector, replica, broker. A second Ctrl-C ends
everything at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shutil
import signal
import tempfile
from collections.abc import Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fleetfold import ready_notice
from fleetfold.broker import EmbeddedBroker
from fleetfold.data_folder import DataFolder
from fleetfold.listener import bind, url_of
from fleetfold.settings import DEFAULT_BROKER_PORT, Settings, secrets_of, token_of

if TYPE_CHECKING:
    import socket

    from api.service import Replica
    from fleetfold.agent.loop import Agent, End
    from fleetfold.core import Core
    from fleetfold.replica_keeper import ReplicaKeeper

log = logging.getLogger(__name__)

FORCED = 130
AGENT_WITHIN_S = 4.0
# A goodbye takes two seconds at most; whoever waits longer waits for a broker that is gone.


@dataclass(frozen=True, slots=True)
class Plan:
    """What runs in and below this process."""

    settings: Settings
    embeds_broker: bool
    runs_agent: bool
    runs_sql: bool
    node: str | None


def run(plan: Plan) -> int:
    """Run until a signal says stop (0) or a part fails for good (1). Called on the main thread."""
    with contextlib.ExitStack() as closing:
        settings = plan.settings
        root = settings.data
        if settings.ephemeral:
            root = Path(tempfile.mkdtemp(prefix="fleetfold-"))
            closing.callback(shutil.rmtree, root, ignore_errors=True)
        folder = DataFolder(root)
        folder.hold()
        closing.callback(folder.release)
        listener = bind(settings.http)
        closing.callback(listener.close)
        broker = None
        if plan.embeds_broker:
            broker = EmbeddedBroker(folder.broker, port=None if settings.ephemeral else DEFAULT_BROKER_PORT)
            broker.launch()
            closing.callback(broker.kill)
        try:
            import uvloop  # noqa: PLC0415 - the broker starts meanwhile

            from fleetfold import logs  # noqa: PLC0415

            logs.configure(secrets=secrets_of(settings))
            supervisor = _Supervisor(plan, folder=folder, listener=listener, broker=broker)
            return uvloop.run(supervisor.run())
        except KeyboardInterrupt:  # before the loop had taken the signals
            return FORCED


class _Supervisor:
    """The parts of one run, from the first to the last."""

    def __init__(
        self, plan: Plan, *, folder: DataFolder, listener: socket.socket, broker: EmbeddedBroker | None
    ) -> None:
        self._plan, self._folder, self._listener, self._broker = plan, folder, listener, broker
        self._stop = asyncio.Event()
        self._failure = ""
        self._watched: list[asyncio.Task[None]] = []
        self._core: Core | None = None
        self._replica: ReplicaKeeper | None = None
        self._agent: Agent | None = None
        self._speaking: asyncio.Task[End] | None = None

    async def run(self) -> int:
        """Start, wait for the end, stop; return the exit code."""
        loop = asyncio.get_running_loop()
        for which in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(which, self._on_signal)
        starting = asyncio.create_task(self._start())
        stopping = asyncio.create_task(self._stop.wait())
        try:
            await asyncio.wait([starting, stopping], return_when=asyncio.FIRST_COMPLETED)
            if starting.done():
                starting.result()
            await stopping
        finally:
            for task in (starting, stopping):
                task.cancel()
            await asyncio.gather(starting, stopping, return_exceptions=True)
            await self._end()
        if self._failure:
            log.error("everything was stopped because %s", self._failure)
        return 1 if self._failure else 0

    async def _start(self) -> None:
        from fleetfold.core import Core  # noqa: PLC0415 - 0.8 s, in which the broker starts

        settings = self._plan.settings
        if self._broker is not None:
            nats_url = await self._broker.ready()
            self._watch(self._broker.watch(), "broker")
        else:
            assert settings.nats.url is not None, "without a broker of our own there is another"
            nats_url = settings.nats.url
        self._core = Core(
            settings,
            nats_url=nats_url,
            tables=self._folder.tables,
            secrets=self._folder.secrets,
            listener=self._listener,
            replica=self._replica_now,
        )
        await self._core.start()
        self._watch(self._core.watch(), "core")
        await ready_notice.caught_up(self._core)
        print(
            ready_notice.text(
                self._plan, nats_url=nats_url, api_url=url_of(self._listener), root=self._folder.root
            ),
            flush=True,
        )
        await self._core.answer_on_nats()
        if self._plan.runs_sql:
            self._start_replica(nats_url)
        if self._plan.runs_agent:
            self._start_agent(nats_url)

    def _start_replica(self, nats_url: str) -> None:
        from fleetfold.replica_keeper import ReplicaKeeper  # noqa: PLC0415 - not on the way to the first answer

        self._replica = ReplicaKeeper(
            nats_url=nats_url, folder=self._folder.replica, token=token_of(self._plan.settings)
        )
        self._replica.start()
        self._watch(self._replica.watch(), "SQL replica")

    def _start_agent(self, nats_url: str) -> None:
        from fleetfold.agent.loop import Agent  # noqa: PLC0415 - not on the way to the first answer
        from fleetfold.agent.machine import Placement  # noqa: PLC0415
        from fleetfold.agent.process import this_machine  # noqa: PLC0415

        machine = this_machine(self._plan.settings, node=self._plan.node, placement=Placement())
        self._agent = Agent(machine)
        self._speaking = asyncio.create_task(self._agent.run(nats_url), name="agent")
        self._speaking.add_done_callback(_tell_failure)

    def _replica_now(self) -> Replica:
        from api.service import Replica  # noqa: PLC0415 - loaded long before this is called

        url = self._plan.settings.sql.url
        if self._replica is not None:
            return self._replica.now()
        if url is not None:
            return Replica(state="ready", url=url)
        return Replica(reason="SQL was left out with --no-sql" if not self._plan.runs_sql else "it starts")

    def _watch(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Run a part that ends with everything else; its end before that ends everything."""

        def ended(task: asyncio.Task[None]) -> None:
            if self._stop.is_set() or task.cancelled():
                return
            err = task.exception()
            if err is not None:
                log.error("the part %r failed", name, exc_info=err)
            self._failure = f"the part {name!r} ended by itself"
            self._stop.set()

        task = asyncio.create_task(work, name=name)
        task.add_done_callback(ended)
        self._watched.append(task)

    def _on_signal(self) -> None:
        if not self._stop.is_set():
            log.info("stopping; a second Ctrl-C ends everything at once")
            self._stop.set()
            return
        for part in (self._broker, self._replica):
            if part is not None:
                part.kill()
        os._exit(FORCED)

    async def _end(self) -> None:
        """Stop what was started, in order; a part that fails to stop does not keep the others."""
        self._stop.set()
        for name, stop in (
            ("agent", self._end_agent),
            ("core", self._core.stop if self._core is not None else None),
            ("SQL replica", self._replica.stop if self._replica is not None else None),
            ("broker", self._broker.stop if self._broker is not None else None),
        ):
            try:
                if stop is not None:
                    await stop()
            except Exception:
                log.exception("the part %r did not stop in order", name)
        for task in self._watched:
            task.cancel()
        await asyncio.gather(*self._watched, return_exceptions=True)

    async def _end_agent(self) -> None:
        if self._agent is not None and self._speaking is not None:
            self._agent.stop()
            await asyncio.wait([self._speaking], timeout=AGENT_WITHIN_S)


def _tell_failure(speaking: asyncio.Task[End]) -> None:
    """Say that the agent failed; the rest goes on, and this node falls silent."""
    if not speaking.cancelled() and (err := speaking.exception()) is not None:
        log.error("the agent of this machine failed", exc_info=err)
