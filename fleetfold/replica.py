"""The SQL replica as a process (floor 4): the same log folded into a file of its own, and SQL over it.

It is disposable. Its address space is bounded, a statement that cannot be ended ends it, and whoever started
it starts it again (`EXIT_OVERSTAYED` or a signal is its exit); what it holds is in the log.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
from typing import TYPE_CHECKING

import uvloop

from api.sql_app import SqlReplica
from api.sql_engine import LockedCursors
from api.sql_executor import SqlExecutor
from api.sql_guard import Guard
from api.sql_schema import relations_of
from api.sql_statement import SqlLimits
from api.sql_watchdog import EXIT_OVERSTAYED, Watchdog, arm_alarm, end_process
from consumers.deliveries import new_client
from consumers.following import StreamPlan
from consumers.projector import Projector
from events.streams import BEATS_NAME, FLEET_NAME
from fleetfold import logs
from fleetfold.address_space import begin_again_with_allocators, bound, is_worn
from fleetfold.connection import connect
from fleetfold.data_folder import DataFolder
from fleetfold.http_server import HttpServer
from fleetfold.interpreter import tune
from fleetfold.listener import bind, url_of
from fleetfold.readings import readings
from fleetfold.settings import secrets_of, token_of
from projections.positions import Positions
from projections.projection import Projection, ProjectionSettings
from projections.store import StoreSettings

if TYPE_CHECKING:
    import socket
    from pathlib import Path

    from nats.aio.client import Client

    from fleetfold.settings import Settings, SqlSettings

log = logging.getLogger(__name__)

NICE = 5
# Below the core and the broker on a machine that all share: an analyst may wait, a heartbeat may not.
LOOK_EVERY_S = 1.0
PLANS = (
    # Bigger batches than in the core: a lag of seconds is fine here, and each commit costs the same.
    StreamPlan(FLEET_NAME, batch=20_000, linger_s=0.5),
    StreamPlan(BEATS_NAME, batch=60_000, linger_s=1.0),
)


def run(settings: Settings, *, tell: Path | None) -> int:
    """Run until a signal says stop; the address is written into the file `tell` once it answers.

    With `tell` the process belongs to the one that started it, and ends with it.
    """
    begin_again_with_allocators()
    logs.configure(secrets=secrets_of(settings))
    with contextlib.ExitStack() as closing:
        folder = DataFolder(settings.data)
        folder.hold()
        closing.callback(folder.release)
        listener = bind(settings.http)
        closing.callback(listener.close)
        os.nice(NICE)
        bound(settings.sql.address_space_bytes)
        return uvloop.run(_until_stopped(settings, folder=folder, listener=listener, tell=tell))


def limits_of(settings: SqlSettings) -> SqlLimits:
    """Return the limits of statements as they are set."""
    return SqlLimits(
        timeout_s=settings.timeout_s,
        max_rows=settings.max_rows,
        default_rows=min(settings.max_rows, SqlLimits().default_rows),
        memory_bytes=settings.memory_bytes,
    )


CHECKPOINT_AT = "128MB"
THREADS = 2


def store_of(settings: SqlSettings) -> StoreSettings:
    """Return how a replica opens its tables.

    With the settings locked against statements, the pace of its writing can never be changed: it lies between
    that of a service and that for a log which is far ahead, as a new replica has it before it.
    """
    memory_limit = f"{settings.memory_bytes}B"
    return StoreSettings(memory_limit=memory_limit, threads=THREADS, checkpoint_at=CHECKPOINT_AT)


async def _until_stopped(
    settings: Settings, *, folder: DataFolder, listener: socket.socket, tell: Path | None
) -> int:
    assert settings.nats.url is not None, "the command line asked for it"
    url = settings.nats.url
    stop = asyncio.Event()
    for which in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(which, stop.set)

    async def connect_reader() -> Client:
        return await connect(url, name="fleetfold replica", nc=new_client())

    watchdog = Watchdog(end=end_process, arm=arm_alarm, parent=os.getppid() if tell is not None else None)
    watchdog.start()  # and never stopped: it also ends a process that a statement keeps from ending
    async with contextlib.AsyncExitStack() as closing:
        projection = await asyncio.to_thread(
            Projection.open, folder.tables, settings=ProjectionSettings(store=store_of(settings.sql))
        )
        closing.callback(projection.close)
        tune()
        projector = Projector(projection, connect_reader, plans=PLANS)
        closing.push_async_callback(projector.stop)
        await projector.start()
        replica = _sql(settings, projection, projector, watchdog, closing)
        server = HttpServer(replica.app(), listener)
        closing.push_async_callback(server.stop)
        closing.callback(replica.stop)
        await server.start()
        log.info("the SQL replica answers at %s", url_of(listener))
        if tell is not None:
            _tell(tell, url_of(listener))
        return await _ended(stop, projector)


async def _ended(stop: asyncio.Event, projector: Projector) -> int:
    """Return 0 when a signal says stop, EXIT_OVERSTAYED when the projector ended (out of memory, mostly)."""
    while not stop.is_set():
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LOOK_EVERY_S):
                await stop.wait()
        if not projector.is_running():
            log.error("the projector has ended: so does the process, to be started again")
            return EXIT_OVERSTAYED
    return 0


def _sql(
    settings: Settings,
    projection: Projection,
    projector: Projector,
    watchdog: Watchdog,
    closing: contextlib.AsyncExitStack,
) -> SqlReplica:
    limits = limits_of(settings.sql)
    cursor = LockedCursors(projection.cursor, limits=limits)
    with cursor() as connection:
        guard = Guard(relations_of(connection))
    closing.callback(guard.close)
    positions = Positions(projection)
    closing.callback(positions.close)
    executor = SqlExecutor(
        cursor,
        guard=guard,
        watchdog=watchdog,
        limits=limits,
        readings=lambda: readings(projector),
        end=end_process,
    )
    return SqlReplica(
        executor,
        cursor=cursor,
        readings=lambda: readings(projector),
        positions=positions,
        is_worn=lambda: is_worn(settings.sql.address_space_bytes),
        end=end_process,
        token=token_of(settings),
    )


def _tell(file: Path, url: str) -> None:
    """Write the address so that a reader sees the whole of it or nothing."""
    written = file.with_suffix(".new")
    written.write_text(json.dumps({"url": url}), encoding="utf-8")
    written.replace(file)
