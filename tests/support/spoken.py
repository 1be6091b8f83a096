"""Requests in a dialect, as its agents make them: no media types are asserted, since each has its own."""

from __future__ import annotations

import json
from typing import Any

from starlette.types import ASGIApp

from tests.support.asgi import Got, ask, strict_json


async def speak(
    app: ASGIApp,
    method: str,
    target: str,
    body: object = None,
    *,
    token: str | None = None,
    raw: bytes | None = None,
    headers: dict[str, str] | None = None,
) -> Got:
    """Send a body as JSON (None: no body, `raw`: as it is) and return the whole answer."""
    given = {"content-type": "application/json", **(headers or {})}
    if token is not None:
        given["authorization"] = f"Bearer {token}"
    sent = raw if raw is not None else b"" if body is None else json.dumps(body).encode()
    return await ask(app, target, method=method, headers=given, body=sent)


def told(got: Got) -> Any:  # noqa: ANN401
    """What an answer says, parsed strictly, whatever its media type."""
    return strict_json(got.body)
