"""The SQL replica as a process (floor 4): the same log folded into a file of its own, and SQL over it.

It is disposable. Its address space is bounded, a statement that cannot be ended ends it, and whoever started
it starts it again; what it holds is in the log.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import resource
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import uvloop

from api.positions import Positions
from api.sql_app import SqlReplica
from api.sql_engine import LockedCursors
from api.sql_executor import SqlExecutor, SqlLimits
from api.sql_guard import Guard
from api.sql_schema import relations_of
from api.sql_watchdog import Watchdog, arm_alarm, end_process
from consumers.deliveries import new_client
from consumers.following import StreamPlan
from consumers.projector import Projector
from events.streams import BEATS_NAME, FLEET_NAME
from fleetfold import logs
from fleetfold.connection import connect
from fleetfold.data_folder import DataFolder
from fleetfold.http_server import HttpServer
from fleetfold.listener import bind, url_of
from fleetfold.readings import readings
from fleetfold.settings import secrets_of, token_of
from projections.projection import Projection

if TYPE_CHECKING:
    import socket

    from nats.aio.client import Client

    from fleetfold.settings import Settings

log = logging.getLogger(__name__)

ADDRESS_SPACE_BYTES = 6 * 1024**3
# DuckDB's own limit does not hold for every function: a list of 10^9 elements took 8 GB of a process limited
# to 1 GB. With this bound it fails with a clean error. Above what an idle replica reserves (2 GB with threads
# and their stacks).
WORN_AT = 0.85
# Of the address space: what fragmentation has used up is given back by a new process only.
PLANS = (
    # Bigger batches than in the core: a lag of seconds is fine here, and each commit costs the same.
    StreamPlan(FLEET_NAME, batch=20_000, linger_s=0.5),
    StreamPlan(BEATS_NAME, batch=60_000, linger_s=1.0),
)


def run(settings: Settings, *, tell: Path | None) -> int:
    """Run until a signal says stop; the address is written into the file `tell` once it answers."""
    logs.configure(secrets=secrets_of(settings))
    with contextlib.ExitStack() as closing:
        folder = DataFolder(settings.data)
        folder.hold()
        closing.callback(folder.release)
        listener = bind(settings.http)
        closing.callback(listener.close)
        resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE_BYTES, ADDRESS_SPACE_BYTES))
        return uvloop.run(_until_stopped(settings, folder=folder, listener=listener, tell=tell))


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

    async with contextlib.AsyncExitStack() as closing:
        projection = await asyncio.to_thread(Projection.open, folder.tables)
        closing.callback(projection.close)
        projector = Projector(projection, connect_reader, plans=PLANS)
        closing.push_async_callback(projector.stop)
        await projector.start()
        server = HttpServer(_sql(settings, projection, projector, closing).app(), listener)
        closing.push_async_callback(server.stop)
        await server.start()
        log.info("the SQL replica answers at %s", url_of(listener))
        if tell is not None:
            _tell(tell, url_of(listener))
        await stop.wait()
    return 0


def _sql(
    settings: Settings, projection: Projection, projector: Projector, closing: contextlib.AsyncExitStack
) -> SqlReplica:
    limits = SqlLimits()
    cursor = LockedCursors(projection.cursor, limits=limits)
    with cursor() as connection:
        guard = Guard(relations_of(connection))
    closing.callback(guard.close)
    watchdog = Watchdog(end=end_process, arm=arm_alarm, parent=os.getppid())
    watchdog.start()
    closing.callback(watchdog.stop)
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
        positions=Positions(projection),
        is_worn=_is_worn,
        end=end_process,
        token=token_of(settings),
    )


def _is_worn() -> bool:
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    except (OSError, ValueError):
        return False  # another system than Linux: the limit alone has to do
    return pages * resource.getpagesize() > WORN_AT * ADDRESS_SPACE_BYTES


def _tell(file: Path, url: str) -> None:
    """Write the address so that a reader sees the whole of it or nothing."""
    written = file.with_suffix(".new")
    written.write_text(json.dumps({"url": url}), encoding="utf-8")
    written.replace(file)
