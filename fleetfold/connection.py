"""A connection to the broker that outlives every outage, and says each outage once (floor 4)."""

from __future__ import annotations

import asyncio
import logging
import math
import random
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from events.addresses import public_url
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


async def connect(
    url: str,
    *,
    name: str,
    on_closed: Callback | None = None,
    nc: Client | None = None,
    inbox_prefix: str = "_INBOX",
) -> Client:
    """Connect, however long that takes; the connection then reconnects for ever.

    It still closes for good when the broker refuses it (authorisation expired, protocol error): `on_closed`
    says so. `name` is what the broker's monitoring shows; `nc` is a client to connect, not connected yet.
    Replies come to subjects that begin with `inbox_prefix`, which a broker may allow to this client alone.
    """
    if nc is None:
        from nats.aio.client import Client  # noqa: PLC0415 - 0.1 s, and not every command connects

        nc = Client()
    outages = _Outages(nc, url, name=name)
    await nc.connect(
        url,
        name=name,
        error_cb=outages.failed,
        disconnected_cb=outages.lost,
        reconnected_cb=outages.back,
        closed_cb=on_closed,
        max_reconnect_attempts=-1,
        reconnect_time_wait=random.uniform(*RECONNECT_WAIT_S),  # type: ignore[arg-type] # any number does
        connect_timeout=CONNECT_WITHIN_S,
        ping_interval=PING_EVERY_S,
        max_outstanding_pings=1,
        inbox_prefix=inbox_prefix,
    )
    outages.is_down = False
    return nc


class _Outages:
    """Says each outage of a connection once, whichever of the client's callbacks hears of it first."""

    def __init__(self, nc: Client, url: str, *, name: str) -> None:
        self._nc, self._url, self._name = nc, url, name
        self.is_down = False

    async def failed(self, err: Exception) -> None:
        """Hear that an attempt, or something else, failed."""
        if not self.is_down:
            self.is_down = True
            log.warning(
                "%s: the broker at %s does not answer (%s), trying again until it does",
                self._name,
                public_url(self._url),
                _why(err),
            )

    async def lost(self) -> None:
        """Hear that the connection ended."""
        if not (self.is_down or self._nc.is_closed):
            self.is_down = True
            log.warning("%s: the connection to the broker at %s is lost", self._name, public_url(self._url))

    async def back(self) -> None:
        """Hear that the connection stands again."""
        self.is_down = False
        log.info("%s: connected to the broker at %s again", self._name, public_url(self._url))


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
