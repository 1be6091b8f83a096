"""The agent as a process of its own, and as a task of `fleetfold up` (floor 4)."""

from __future__ import annotations

import asyncio
import functools
import logging
import signal
import socket
from typing import TYPE_CHECKING

from events.ids import node_id
from fleetfold import logs
from fleetfold.agent.loop import Agent, End, Machine
from fleetfold.agent.machine import Placement, boot_id, inventory, usage
from fleetfold.settings import DEFAULT_BROKER_PORT
from fleetfold.version import version

if TYPE_CHECKING:
    from fleetfold.settings import Settings

log = logging.getLogger(__name__)


def this_machine(settings: Settings, *, node: str | None, placement: Placement) -> Machine:
    """Return what an agent of this machine reads; its node id is the host name unless another is given."""
    return Machine(
        node_id=node_id(node or socket.gethostname()),
        boot_id=boot_id(),
        inventory=functools.partial(
            inventory, placement, interval_s=settings.liveness.interval_s, version=version()
        ),
        usage=usage,
        interval_s=settings.liveness.interval_s,
    )


def run(settings: Settings, *, node: str | None, placement: Placement) -> int:
    """Run the agent until it is stopped (0) or told that its node is gone (1)."""
    logs.configure()
    machine = this_machine(settings, node=node, placement=placement)
    return asyncio.run(
        _until_the_end(machine, settings.nats.url or f"nats://127.0.0.1:{DEFAULT_BROKER_PORT}")
    )


async def _until_the_end(machine: Machine, url: str) -> int:
    agent = Agent(machine)
    loop = asyncio.get_running_loop()
    for which in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(which, agent.stop)
    match await agent.run(url):
        case End.STOPPED:
            return 0
        case End.GONE:
            return 1
