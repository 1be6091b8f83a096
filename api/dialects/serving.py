"""Serve the dialects beside the native routes: find whose path it is, read, call, answer (floor 3).

A layer over the application. It matches on the path as it was sent, segment by segment, so a `/` inside an id
is `%2F`. Whatever goes wrong is answered in the envelope of the dialect whose path it is.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, unquote_to_bytes
from uuid import uuid4

from starlette.responses import Response

from api.dialects.calls import Asked, Call, Dialect, Reply
from api.dialects.refusal import Refusal, refusal_of
from api.json_text import dumps
from events.streams import MAX_RECORD_BYTES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from starlette.types import ASGIApp, Receive, Scope, Send

MAX_BODY_BYTES = MAX_RECORD_BYTES
# What a fact of the log can hold; the largest real registration is a few KiB.
_PLAIN_ID = re.compile(r"[A-Za-z0-9_-]{1,128}")


class DialectPaths:
    """The layer: answers the paths of dialects, hands on every other."""

    def __init__(self, app: ASGIApp, *, dialects: Sequence[Dialect]) -> None:
        self._app = app
        self._owners = sorted(
            ((tuple(prefix.split("/")[1:]), dialect) for dialect in dialects for prefix in dialect.prefixes),
            key=lambda owner: -len(owner[0]),
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        dialect = None
        if scope["type"] == "http":
            segments = _segments(scope)
            dialect = self._owner(segments)
        if dialect is None:
            await self._app(scope, receive, send)
            return
        asked = _asked(scope)
        try:
            reply = await _answered(dialect, asked, segments, scope, receive)
        except Exception as err:  # noqa: BLE001 (the outermost place of a dialect: logged, or a refusal)
            reply = dialect.refuse(refusal_of(err), asked)
        headers = {**dialect.beside(asked), **reply.headers}
        await _response(reply, headers)(scope, receive, send)

    def _owner(self, segments: Sequence[bytes]) -> Dialect | None:
        for prefix, dialect in self._owners:
            if len(segments) >= len(prefix) and all(
                segment == part.encode() for segment, part in zip(segments, prefix, strict=False)
            ):
                return dialect
        return None


async def _answered(
    dialect: Dialect, asked: Asked, segments: Sequence[bytes], scope: Scope, receive: Receive
) -> Reply:
    call, values = _matched(dialect, asked, segments)
    scope["route"] = call
    asked = _with_values(asked, values)
    dialect.allow(asked, call)
    return await call.does(replace(asked, body=await _body(receive)))


def _matched(dialect: Dialect, asked: Asked, segments: Sequence[bytes]) -> tuple[Call, Mapping[str, bytes]]:
    found = [(call, values) for call in dialect.calls if (values := _values(call.path, segments)) is not None]
    # A path that is written out comes before one with a value in its place.
    fewest = min((len(values) for _, values in found), default=0)
    allowed = []
    for call, values in found:
        if len(values) == fewest:
            if call.method == asked.method:
                return call, values
            allowed.append(call.method)
    if allowed:
        names = sorted({*allowed, *(["HEAD"] if "GET" in allowed else [])})
        raise Refusal(
            "method_not_allowed",
            f"{asked.path} does not answer to {asked.method}",
            headers={"Allow": ", ".join(names)},
        )
    raise Refusal("unknown_route", f"{asked.method} {asked.path} is not a route")


def _values(template: str, segments: Sequence[bytes]) -> dict[str, bytes] | None:
    parts = template.split("/")[1:]
    if len(parts) != len(segments):
        return None
    values = {}
    for part, segment in zip(parts, segments, strict=True):
        if part.startswith("{"):
            if not segment:
                return None
            values[part[1:-1]] = segment
        elif part.encode() != segment:
            return None
    return values


def _with_values(asked: Asked, values: Mapping[str, bytes]) -> Asked:
    try:
        texts = {name: value.decode() for name, value in values.items()}
    except UnicodeDecodeError as err:
        raise Refusal("malformed", "the path is not UTF-8") from err
    return replace(asked, values=texts)


def _segments(scope: Scope) -> list[bytes]:
    raw: bytes = scope.get("raw_path") or scope["path"].encode()
    return [unquote_to_bytes(segment) for segment in raw.split(b"/")[1:]]


def _asked(scope: Scope) -> Asked:
    raw: bytes = scope.get("raw_path") or scope["path"].encode()
    pairs = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
    headers: dict[str, str] = {}
    for name, value in scope["headers"]:
        headers.setdefault(name.decode("latin-1").lower(), value.decode("latin-1"))
    said = headers.get("x-request-id", "")
    return Asked(
        method=scope["method"],
        path=raw.decode("ascii", "replace"),
        values={},
        query=dict(reversed(pairs)),
        headers=headers,
        body=b"",
        request_id=said if _PLAIN_ID.fullmatch(said) else f"req_{uuid4().hex}",
    )


async def _body(receive: Receive) -> bytes:
    """Return the body; raise Refusal for one above the limit, without reading on."""
    chunks, size = [], 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            break
        chunk = message.get("body", b"")
        size += len(chunk)
        if size > MAX_BODY_BYTES:
            raise Refusal("oversized", f"the limit is {MAX_BODY_BYTES} bytes")
        chunks.append(chunk)
        if not message.get("more_body", False):
            break
    return b"".join(chunks)


def _response(reply: Reply, headers: Mapping[str, str]) -> Response:
    if reply.text is not None:
        return Response(reply.text, reply.status, media_type=reply.media_type, headers=dict(headers))
    if reply.body is None:
        return Response(status_code=reply.status, headers=dict(headers))
    return Response(dumps(reply.body), reply.status, media_type=reply.media_type, headers=dict(headers))
