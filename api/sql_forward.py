"""`POST /sql` and `GET /sql/schema` of the core: handed on to the SQL replica (floor 3).

No statement is looked at here, let alone run, and answers come back as they are. A caller who goes away takes
the statement along; while the replica is away, a problem says why and when to come again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import StreamingResponse

from api.auth import NATIVE_PREFIX
from api.problems import Kind, ProblemError
from api.routing import native_router
from api.sql_caller import body_of, gone
from api.sql_errors import SqlOversizedError, SqlProblemError, SqlUnavailableError

if TYPE_CHECKING:
    import httpx

    from api.service import Replica, Service

CONNECT_WITHIN_S = 2.0
ANSWER_WITHIN_S = 300.0
# Above what a statement may wait and run: eight before it, two at a time, thirty seconds each. Only a replica
# that hangs takes longer, and its keeper ends it sooner.

_SENT_ON = ("accept", "content-type")
_HANDED_BACK = (
    "content-type",
    "content-length",
    "retry-after",
    "x-row-count",
    "x-as-of",
    "x-lag-ms",
    "x-truncated-by",
)
_BODY: dict[str, Any] = {
    "required": True,
    "content": {
        "application/json": {
            "schema": {
                "type": "object",
                "required": ["sql"],
                "additionalProperties": False,
                "properties": {
                    "sql": {"type": "string", "description": "one SELECT over the views of schema fleet"},
                    "params": {
                        "anyOf": [{"type": "array"}, {"type": "object"}],
                        "description": "values for ? and $1 (a list) or for $name (an object)",
                    },
                    "max_rows": {"type": "integer", "minimum": 1},
                    "timeout_s": {"type": "number", "exclusiveMinimum": 0},
                },
            }
        },
        "text/plain": {"schema": {"type": "string", "description": "the statement itself"}},
    },
}
_ANSWER: dict[str, Any] = {
    "type": "object",
    "required": ["columns", "rows", "row_count", "truncated", "elapsed_ms", "as_of"],
    "properties": {
        "columns": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"name": {"type": "string"}, "type": {"type": "string"}},
            },
        },
        "rows": {"type": "array", "items": {"type": "array"}},
        "row_count": {"type": "integer"},
        "truncated": {
            "type": "boolean",
            "description": "true: there are more rows, `truncation` says how to go on",
        },
        "elapsed_ms": {"type": "integer"},
        "as_of": {"type": "object"},
    },
}
_BINARY = {"schema": {"type": "string", "format": "binary"}}
_FORMS: dict[str, Any] = {
    "description": "The rows, in the form that `Accept` asks for",
    "content": {
        "application/json": {"schema": _ANSWER},
        "text/csv": {"schema": {"type": "string"}},
        "application/vnd.apache.arrow.stream": _BINARY,
        "application/vnd.apache.parquet": _BINARY,
    },
}


def router(service: Service) -> APIRouter:
    """Return the routes `sql` and `sql/schema`."""
    routes = native_router(tag="sql")
    forward = Forward(service)

    @routes.post(
        "/sql",
        summary="Ask one read-only SELECT over the views of schema fleet",
        responses={200: _FORMS},
        openapi_extra={"requestBody": _BODY},
    )
    async def ask(request: Request, min_seq: Annotated[int | None, Query(ge=0)] = None) -> Response:
        """Answer with the rows of a statement, as the SQL replica has folded them."""
        query = {} if min_seq is None else {"min_seq": str(min_seq)}
        return await forward.post("/sql", request, query=query)

    @routes.get("/sql/schema", summary="What can be asked in SQL: views, columns, macros, functions, limits")
    async def schema(request: Request) -> Response:
        """Answer with what the SQL replica serves."""
        return await forward.get("/sql/schema", request)

    return routes


class Forward:
    """Sends requests on to the replica that the service knows at that moment."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._clients: dict[str, httpx.AsyncClient] = {}

    async def get(self, path: str, request: Request) -> Response:
        """Send a question without a body on, and its answer back."""
        return await self._send("GET", path, request, query={}, body=b"")

    async def post(self, path: str, request: Request, *, query: dict[str, str]) -> Response:
        """Send a question with its body on, and its answer back."""
        try:
            body = await body_of(request)
        except SqlOversizedError as err:
            raise _problem(err, None) from err
        return await self._send("POST", path, request, query=query, body=body)

    async def _send(
        self, method: str, path: str, request: Request, *, query: dict[str, str], body: bytes
    ) -> Response:
        import httpx  # noqa: PLC0415  0.2 s, not on the way to the first answer

        replica = self._service.replica()
        if replica.url is None:
            raise _problem(SqlUnavailableError(replica.reason or "there is no SQL replica"), replica)
        headers = {name: request.headers[name] for name in _SENT_ON if name in request.headers}
        if self._service.admin_token:
            headers["authorization"] = f"Bearer {self._service.admin_token}"
        client, base = self._client(replica.url)
        asked = client.build_request(
            method, f"{base}{NATIVE_PREFIX}{path}", params=query, headers=headers, content=body or None
        )
        answering = asyncio.create_task(client.send(asked, stream=True))
        leaving = asyncio.create_task(gone(request))
        try:
            await asyncio.wait({answering, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if not answering.done():
                return Response(status_code=499)  # nobody reads it; the replica sees its caller go
            answer = answering.result()
        except (httpx.TransportError, httpx.InvalidURL) as err:
            raise _problem(SqlUnavailableError(_why(err)), self._service.replica()) from err
        finally:
            leaving.cancel()
            answering.cancel()
        if answer.status_code == httpx.codes.UNAUTHORIZED:
            await answer.aclose()
            raise _problem(
                SqlUnavailableError("the SQL replica has another token than this service"), replica
            )
        return StreamingResponse(
            _content(answer),
            status_code=answer.status_code,
            headers={name: answer.headers[name] for name in _HANDED_BACK if name in answer.headers},
        )

    def _client(self, url: str) -> tuple[httpx.AsyncClient, str]:
        """Return a client for a replica, and what its addresses begin with.

        No connection is kept between two requests: each ends its own, which is how the replica learns that a
        caller has gone, and nothing is left to close.
        """
        import httpx  # noqa: PLC0415  loaded by the caller

        socket = url.removeprefix("unix:") if url.startswith("unix:") else None
        if url not in self._clients:
            self._clients.clear()  # one replica at a time; started anew, it has another address
            self._clients[url] = httpx.AsyncClient(
                transport=httpx.AsyncHTTPTransport(
                    uds=socket,
                    verify=url.startswith("https:"),
                    limits=httpx.Limits(max_keepalive_connections=0),
                ),
                timeout=httpx.Timeout(ANSWER_WITHIN_S, connect=CONNECT_WITHIN_S),
                trust_env=False,
            )
        return self._clients[url], "http://replica" if socket else url.rstrip("/")


async def _content(answer: httpx.Response) -> AsyncIterator[bytes]:
    try:
        async for part in answer.aiter_raw():
            yield part
    finally:
        await answer.aclose()


def _why(err: Exception) -> str:
    import httpx  # noqa: PLC0415  loaded by the caller

    match err:
        case httpx.ConnectError() | httpx.ConnectTimeout():
            return "the SQL replica cannot be reached: retry"
        case httpx.ReadTimeout():
            return f"the SQL replica did not answer within {ANSWER_WITHIN_S:g} s"
        case _:
            return (
                "the SQL replica ended while it answered and is started again: narrow the statement, or retry"
            )


def _problem(err: SqlProblemError, replica: Replica | None) -> ProblemError:
    """Return an error of SQL as a problem of the API, with the replica's lag as far as it is known."""
    lag_ms = None if replica is None or replica.lag_ms is None else round(replica.lag_ms)
    headers = {} if err.retry_after_s is None else {"Retry-After": str(err.retry_after_s)}
    if lag_ms is not None:
        headers["x-lag-ms"] = str(lag_ms)
    return ProblemError(
        Kind(err.code, err.status, err.title),
        err.detail,
        members={**err.members, "lag_ms": lag_ms},
        headers=headers,
    )
