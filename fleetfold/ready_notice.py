"""What a person is told between the start and the first answer, and then (floor 4)."""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from events.addresses import public_url
from fleetfold.addresses import DEFAULT_HTTP
from fleetfold.settings import DEFAULT_BROKER_PORT
from fleetfold.version import version

if TYPE_CHECKING:
    from fleetfold.core import Core
    from fleetfold.up import Plan

log = logging.getLogger(__name__)

LOOK_EVERY_S = 0.02
QUIET_S = 1.0
# A catch-up that is shorter is over before anybody reads about it.
TELL_EVERY_S = 5.0


async def caught_up(core: Core) -> None:
    """Wait until all that the log held at the start is folded; say how far that is where it takes time."""
    began = told = time.monotonic()
    while not core.is_ready():
        await asyncio.sleep(LOOK_EVERY_S)
        now = time.monotonic()
        if now - began < QUIET_S:
            continue
        done, total = core.folded()
        if sys.stderr.isatty():
            sys.stderr.write(f"\r\x1b[Kreading the log: {done:,} of {total:,} records")
            sys.stderr.flush()
        elif now - told >= TELL_EVERY_S:
            told = now
            log.info("reading the log: %s of %s records", f"{done:,}", f"{total:,}")
    if sys.stderr.isatty() and time.monotonic() - began >= QUIET_S:
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()


def text(plan: Plan, *, nats_url: str, api_url: str, root: Path) -> str:
    """Return where everything is and what to type next."""
    settings = plan.settings
    ours = ", embedded, this machine only" if plan.embeds_broker else ""
    access = "asks for the admin token" if settings.admin_token else "no token set: for this machine only"
    lines = [
        f"Fleetfold {version()} is up.",
        "",
        f"  page    {api_url}/",
        f"  API     {api_url}/fleet/v1/nodes ({access})",
        f"  broker  {public_url(nats_url)}{ours}",
        f"  data    {root}{' (gone at exit)' if settings.ephemeral else ''}",
        f"  SQL     {_sql(plan)}",
        f"  agent   {'speaks for this machine' if plan.runs_agent else 'none here'}",
        "",
        "Next, in another terminal:",
        *(f"  {command}" for command in _next(plan, nats_url=nats_url, api_url=api_url)),
        "",
        "Ctrl-C stops everything"
        + ("." if settings.ephemeral else "; the next start goes on where this one was."),
    ]
    return "\n".join(lines)


def _sql(plan: Plan) -> str:
    if plan.settings.sql.url is not None:
        return plan.settings.sql.url
    return "its replica starts now" if plan.runs_sql else "left out"


def _next(plan: Plan, *, nats_url: str, api_url: str) -> list[str]:
    """Return commands that work as they are typed, in the same folder and environment."""
    server = "" if api_url == f"http://{DEFAULT_HTTP}" else f" --server {api_url}"
    broker = (
        "" if nats_url.endswith(f"127.0.0.1:{DEFAULT_BROKER_PORT}") else f" --nats {public_url(nats_url)}"
    )
    commands = [
        f"fleetfold nodes{server}",
        f"fleetfold simulate --nodes 1000{broker}",
        f"fleetfold capacity{server}",
    ]
    if plan.runs_sql or plan.settings.sql.url is not None:
        commands.append(f'fleetfold sql "select state, count(*) from fleet.nodes group by state"{server}')
    return commands
