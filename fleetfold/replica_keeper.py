"""The SQL replica as a child of ours (floor 4): started, asked how it is, started again, stopped.

Its memory is bounded by itself, and it ends itself when a statement cannot be ended; what is left to do here
is to start it again, at once the first time, and to stop asking it while it is away.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from api.service import Replica
from fleetfold.address_space import ALLOCATORS
from fleetfold.child import Child

if TYPE_CHECKING:
    import httpx

log = logging.getLogger(__name__)

ASK_EVERY_S = 1.0
ANSWER_WITHIN_S = 5.0
STRIKES = 6
# A replica that catches up with a long log may be slow to answer for some seconds; after half a minute it
# hangs.
STOP_WITHIN_S = 5.0
RESTART_AFTER_S = (0.1, 10.0)
STABLE_AFTER_S = 30.0


class ReplicaKeeper:
    """One replica over a folder. It listens on a free port of this machine and tells it by a file."""

    def __init__(self, *, nats_url: str, folder: Path, token: str) -> None:
        self._folder = folder
        self._told = folder / "listening.json"
        self._child = Child(
            [
                sys.executable,
                "-m",
                "fleetfold",
                "replica",
                "--data",
                str(folder),
                "--http",
                "127.0.0.1:0",
                "--tell",
                str(self._told),
            ]
        )
        # The address is not an argument, since everybody may read those.
        self._environ = {**ALLOCATORS, "FLEETFOLD_NATS__URL": nats_url}
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._is_stopping = False
        self._restarts = 0
        self._now = Replica(state="starting", reason="it starts")

    def now(self) -> Replica:
        """Return what is known of it; costs nothing."""
        return self._now

    def start(self) -> None:
        """Start it without waiting for it; called by the main thread only."""
        self._folder.mkdir(parents=True, exist_ok=True)
        self._told.unlink(missing_ok=True)
        self._child.start(environ=self._environ)

    async def watch(self) -> None:
        """Ask how it is, and start it again whenever it ends. Runs as a task of the main thread's loop."""
        import httpx  # noqa: PLC0415 - 0.2 s, not on the way to the first answer

        pause_s = RESTART_AFTER_S[0]
        async with httpx.AsyncClient(
            timeout=ANSWER_WITHIN_S, trust_env=False, headers=self._headers
        ) as client:
            while True:
                since = time.monotonic()
                asking = asyncio.create_task(self._keep_asking(client))
                try:
                    code = await self._child.ended()
                finally:
                    asking.cancel()
                    await asyncio.gather(asking, return_exceptions=True)
                if self._is_stopping:
                    return
                self._restarts += 1
                if time.monotonic() - since > STABLE_AFTER_S:
                    pause_s = RESTART_AFTER_S[0]
                why = f"it ended (exit code {code}) and is started again"
                self._now = Replica(state="away", reason=why, restarts=self._restarts)
                log.warning(
                    "the SQL replica ended (exit code %s); it is started again in %.1f s", code, pause_s
                )
                await asyncio.sleep(pause_s)
                pause_s = min(pause_s * 2, RESTART_AFTER_S[1])
                self.start()

    async def stop(self) -> None:
        """End it in order. Stopping twice is fine."""
        self._is_stopping = True
        self._now = Replica(state="off", reason="the service stops", restarts=self._restarts)
        await self._child.stop(patience_s=STOP_WITHIN_S)

    def kill(self) -> None:
        """End it at once."""
        self._child.kill()

    async def _keep_asking(self, client: httpx.AsyncClient) -> None:
        strikes = 0
        while True:
            url = self._url()
            if url is not None:
                found = await self._ask(client, url)
                strikes = 0 if found is not None else strikes + 1
                if found is not None:
                    self._now = found
                elif strikes < STRIKES:
                    self._now = Replica(
                        state="away", reason="it does not answer now", restarts=self._restarts
                    )
                else:
                    log.error("the SQL replica has not answered %d times: it is ended", strikes)
                    self._child.kill()
                    return
            await asyncio.sleep(ASK_EVERY_S if url is not None else ASK_EVERY_S / 10)

    async def _ask(self, client: httpx.AsyncClient, url: str) -> Replica | None:
        import httpx  # noqa: PLC0415 - loaded above

        try:
            answer = await client.get(f"{url}/fleet/v1/status")
            if not answer.is_success:
                return None
            return _described(answer.json(), url=url, restarts=self._restarts)
        except (httpx.TransportError, ValueError):
            return None

    def _url(self) -> str | None:
        try:
            return str(json.loads(self._told.read_text(encoding="utf-8"))["url"])
        except (OSError, ValueError, KeyError):
            return None


def _described(answer: dict[str, Any], *, url: str, restarts: int) -> Replica:
    lag_ms = answer.get("lag_ms")
    return Replica(state="ready", url=url, lag_ms=lag_ms, restarts=restarts)
