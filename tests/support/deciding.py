"""Requests that write, as JSON."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

from tests.support.asgi import Got
from tests.support.serving import Serving

JSON = {"content-type": "application/json"}


async def send(
    served: Serving,
    method: str,
    path: str,
    body: object = None,
    *,
    headers: dict[str, str] | None = None,
) -> Got:
    """Ask below `/fleet/v1` with a JSON body."""
    payload = b"" if body is None else json.dumps(body).encode()
    return await served.ask(method, f"/fleet/v1{path}", headers={**JSON, **(headers or {})}, body=payload)


async def act(served: Serving, node: str, action: str, **said: Any) -> Got:  # noqa: ANN401 (members of the body)
    """Do something with a node, for a reason."""
    told = {"action": action, "reason": "test", **said}
    return await send(served, "POST", f"/nodes/{quote(node, safe='')}/actions", told)


async def register(served: Serving, *nodes: str, **said: Any) -> None:  # noqa: ANN401 (members of the report)
    """Let nodes register; they are folded then."""
    for node in nodes:
        told = {"boot_id": "b1", "seq": 1, **said}
        await served.publish(f"fleet.v1.agent.{node}.registered", json.dumps(told).encode())
