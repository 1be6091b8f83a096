"""Requests to an application without a socket: the path goes in as it is written, percent signs and all."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote_to_bytes

from starlette.types import ASGIApp, Message


def _no_constant(text: str) -> float:
    raise ValueError(f"{text} is not JSON")


def _no_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    names = [name for name, _ in pairs]
    if len(set(names)) != len(names):
        raise ValueError(f"a member stands twice in {names}")
    return dict(pairs)


def strict_json(body: bytes) -> Any:  # noqa: ANN401
    """Return what a JSON text says; raise ValueError for NaN, a repeated member or no UTF-8."""
    return json.loads(body.decode(), parse_constant=_no_constant, object_pairs_hook=_no_repeats)


@dataclass(frozen=True)
class Got:
    """An answer. Names of headers are in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:  # noqa: ANN401
        """The body, parsed strictly; a problem's media type is checked on the way."""
        media_type = self.headers["content-type"]
        wanted = "application/json" if self.status < 400 else "application/problem+json"
        assert media_type == wanted, f"{self.status} with {media_type}: {self.body[:200]!r}"
        return strict_json(self.body)


async def ask(
    app: ASGIApp,
    target: str,
    *,
    method: str = "GET",
    headers: dict[str, str] | None = None,
    body: bytes = b"",
) -> Got:
    """Ask for a request target (`/path?query`, percent-encoded by the caller) and return the whole answer."""
    raw_path, _, query = target.partition("?")
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": unquote_to_bytes(raw_path).decode("utf-8", "replace"),
        "raw_path": raw_path.encode("latin-1"),
        "query_string": query.encode("latin-1"),
        "root_path": "",
        "headers": [(name.lower().encode(), value.encode()) for name, value in (headers or {}).items()],
        "server": ("127.0.0.1", 80),
        "client": ("127.0.0.1", 1),
    }
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    await app(scope, receive, send)
    start = sent[0]
    return Got(
        status=start["status"],
        headers={name.decode().lower(): value.decode() for name, value in start["headers"]},
        body=b"".join(message.get("body", b"") for message in sent[1:]),
    )
