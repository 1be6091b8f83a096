"""A connection to the broker that outlives every outage, and says each outage once (floor 4)."""

from __future__ import annotations

import asyncio
import logging
import math
import random
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit

from events.errors import BrokerUnavailableError

if TYPE_CHECKING:
    from nats.aio.client import Client

log = logging.getLogger(__name__)

PING_EVERY_S = 5
# With one outstanding ping a dead link is noticed within ten seconds; the library's own values take four
# minutes.
CONNECT_WITHIN_S = 4
RECONNECT_WAIT_S = (0.1, 1.0)
# Each client waits its own time between two attempts, so that a fleet does not come back in one instant.

Callback = Callable[[], Awaitable[None]]


def public_url(url: str) -> str:
    """Return a broker's address without the name and password in it."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


async def connect(
    url: str,
    *,
    name: str,
    on_closed: Callback | None = None,
    nc: Client | None = None,
) -> Client:
    """Connect, however long that takes; the connection then reconnects for ever.

    It still closes for good when the broker refuses it (authorisation expired, protocol error): `on_closed`
    says so. `name` is what the broker's monitoring shows; `nc` is a client to connect, not connected yet.
    """
    if nc is None:
        from nats.aio.client import Client  # noqa: PLC0415 - 0.1 s, and the command line needs `public_url` only

        nc = Client()
    is_down = False

    async def failed(err: Exception) -> None:
        nonlocal is_down
        if not is_down:
            is_down = True
            log.warning(
                "%s: the broker at %s does not answer (%s), trying again until it does",
                name,
                public_url(url),
                _why(err),
            )

    async def lost() -> None:
        nonlocal is_down
        if not (is_down or nc.is_closed):
            is_down = True
            log.warning("%s: the connection to the broker at %s is lost", name, public_url(url))

    async def back() -> None:
        nonlocal is_down
        is_down = False
        log.info("%s: connected to the broker at %s again", name, public_url(url))

    await nc.connect(
        url,
        name=name,
        error_cb=failed,
        disconnected_cb=lost,
        reconnected_cb=back,
        closed_cb=on_closed,
        max_reconnect_attempts=-1,
        reconnect_time_wait=random.uniform(*RECONNECT_WAIT_S),  # type: ignore[arg-type] # any number does
        connect_timeout=CONNECT_WITHIN_S,
        ping_interval=PING_EVERY_S,
        max_outstanding_pings=1,
    )
    is_down = False
    return nc


async def connect_once(url: str, *, name: str, within_s: float) -> Client:
    """Connect for one short task, at once or not at all; raise BrokerUnavailableError where it fails."""
    import nats  # noqa: PLC0415 - as above
    import nats.errors  # noqa: PLC0415

    reason = "no answer"

    async def failed(err: Exception) -> None:
        nonlocal reason
        reason = _why(err)

    try:
        async with asyncio.timeout(within_s):
            return await nats.connect(
                url,
                name=name,
                error_cb=failed,
                allow_reconnect=False,
                max_reconnect_attempts=1,
                reconnect_time_wait=0,
                connect_timeout=math.ceil(within_s),
            )
    except (nats.errors.Error, OSError, TimeoutError) as err:
        raise BrokerUnavailableError(f"connecting to {public_url(url)}", why=reason) from err


def _why(err: Exception) -> str:
    return str(err) or type(err).__name__
