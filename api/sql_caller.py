"""Whoever asks SQL over HTTP: the body that is sent, and that the caller went away (floor 3).

The core, which hands on, and the replica, which answers, both listen like this.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from api.sql_errors import SqlOversizedError
from api.sql_request import MAX_BODY_BYTES

if TYPE_CHECKING:
    from starlette.requests import Request


async def body_of(request: Request) -> bytes:
    """Return the whole body; raise SqlOversizedError as soon as it is longer than any that is read."""
    parts, size_bytes = [], 0
    async for part in request.stream():
        size_bytes += len(part)
        if size_bytes > MAX_BODY_BYTES:
            raise SqlOversizedError(f"the body is longer than {MAX_BODY_BYTES} bytes")
        parts.append(part)
    return b"".join(parts)


async def gone(request: Request) -> None:
    """Return when the caller has closed the connection; never, where the server does not tell."""
    if (await request.receive())["type"] != "http.disconnect":
        await asyncio.Event().wait()
