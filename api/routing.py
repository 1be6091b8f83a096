"""How routes read a request: node ids in paths, no parameter that nobody reads, HEAD as GET (floor 3).

A node id may hold any text, also `/`, `.` and `%`. In a path it is one segment, percent-encoded; only the
raw path can tell an encoded `/` from a separating one, so below `/fleet/v1/nodes/` routes are matched on
the raw path.
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote_to_bytes

from fastapi import APIRouter, Request, Response
from fastapi.dependencies.utils import get_flat_params
from fastapi.params import Cookie, Header, Path
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException

from api.auth import NATIVE_PREFIX
from api.models import Problem
from api.problems import INVALID_NODE_ID, INVALID_PARAMETER, UNKNOWN_PARAMETER, ProblemError
from events.ids import NodeId, node_id

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

RAW_PREFIX = f"{NATIVE_PREFIX}/nodes/"
MAX_QUERY_BYTES = 16_384
MAX_BODY_BYTES = 2**20
# A selection that names a thousand nodes by ids of 250 bytes fits, whatever of them is escaped.
IS_HEAD = "fleetfold.is_head"
"""In the scope of a request that was made as HEAD."""


class RawNodePaths:
    """A layer that matches routes about one node on the path as it was sent, still percent-encoded."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"].startswith(RAW_PREFIX) and scope.get("raw_path"):
            scope = {**scope, "path": scope["raw_path"].decode("latin-1")}
        await self._app(scope, receive, send)


class HeadAsGet:
    """A layer that answers HEAD as the layers below answer GET, without the body; they see a GET.

    Where the body would never end, a route looks whether it `IS_HEAD`.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self._app(scope, receive, send)
            return

        async def without_body(message: Message) -> None:
            if message["type"] == "http.response.body":
                message = {**message, "body": b""}
            await send(message)

        await self._app({**scope, "method": "GET", IS_HEAD: True}, receive, without_body)


def node_in_path(segment: str) -> NodeId:
    """Return the node id behind one raw segment of a path; raise invalid_node_id where there is none."""
    try:
        text = unquote_to_bytes(segment.encode("latin-1")).decode()
    except UnicodeDecodeError as err:
        raise ProblemError(INVALID_NODE_ID, "its bytes are not UTF-8") from err
    return node_id(text)


def native_router(*, tag: str) -> APIRouter:
    """Return a router for routes below `/fleet/v1` that are read strictly and answer errors as problems."""
    return APIRouter(
        prefix=NATIVE_PREFIX, tags=[tag], route_class=StrictRoute, responses={"default": {"model": Problem}}
    )


class StrictRoute(APIRoute):
    """A route that refuses query parameters it does not declare, and two values where it takes one."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the framework's handler behind the check."""
        handle = super().get_route_handler()
        fields = get_flat_params(self.dependant)
        declared = [field for field in fields if not _is_elsewhere(field.field_info)]
        known = sorted(field.alias for field in declared)
        repeatable = {field.alias for field in declared if _is_list(field.field_info.annotation)}

        async def strict(request: Request) -> Response:
            query: bytes = request.scope["query_string"]
            if query:
                check_names(query, known=known, repeatable=repeatable)
            return await handle(Request(request.scope, _bounded(request.receive)))

        return strict


def _bounded(receive: Receive) -> Receive:
    """Return where a body comes from, up to its limit: the framework reads it whole before it looks at it."""
    seen_bytes = 0

    async def bounded() -> Message:
        nonlocal seen_bytes
        message = await receive()
        seen_bytes += len(message.get("body", b""))
        if seen_bytes > MAX_BODY_BYTES:
            raise HTTPException(413, f"the body is longer than {MAX_BODY_BYTES} bytes")
        return message

    return bounded


def check_names(query: bytes, *, known: list[str], repeatable: set[str]) -> None:
    """Raise a problem for a query string with an unknown parameter, or one given twice that is taken once."""
    if len(query) > MAX_QUERY_BYTES:
        raise ProblemError(
            INVALID_PARAMETER, f"the query has {len(query)} bytes, the limit is {MAX_QUERY_BYTES}"
        )
    seen = set()
    for name, _ in parse_qsl(query.decode("latin-1"), keep_blank_values=True):
        if name not in known:
            raise _unknown(name, known)
        if name in seen and name not in repeatable:
            raise ProblemError(
                INVALID_PARAMETER, f"{name} is given more than once", members={"parameter": name}
            )
        seen.add(name)


def _unknown(name: str, known: list[str]) -> ProblemError:
    nearest = get_close_matches(name, known, n=1, cutoff=0.0)
    hint = f"did you mean {nearest[0]}" if nearest else "this route takes none"
    return ProblemError(
        UNKNOWN_PARAMETER,
        f"{name[:80]} is not a parameter of this route: {hint}",
        members={"parameter": name[:80], "nearest": nearest[0] if nearest else None, "known": known},
    )


def _is_elsewhere(info: object) -> bool:
    """Say whether a parameter is read from elsewhere than the query; those of a model are plain fields."""
    return isinstance(info, Path | Header | Cookie)


def _is_list(annotation: object) -> bool:
    return getattr(annotation, "__origin__", None) is list
