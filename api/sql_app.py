"""The web application of the SQL replica: `POST /sql`, `GET /sql/schema`, `/status`, `/livez` (floor 3).

It answers the core, which forwards, or an analyst directly, under the same paths. A statement whose caller
goes away is stopped. Problems are RFC 9457, as everywhere; every answer says how far behind its data is
(`x-lag-ms`).
"""

from __future__ import annotations

import asyncio
import hmac
import logging
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pyarrow as pa
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from api.json_text import dumps
from api.read_streams import MIN_SEQ_WITHIN
from api.sql_caller import body_of, gone
from api.sql_errors import (
    SqlBusyError,
    SqlCancelledError,
    SqlInternalError,
    SqlMemoryError,
    SqlParameterError,
    SqlPositionError,
    SqlProblemError,
    SqlRouteError,
    SqlUnauthorizedError,
    SqlUnavailableError,
)
from api.sql_formats import Format, chosen
from api.sql_position import as_of
from api.sql_request import statement_of
from api.sql_schema import schema_of
from api.sql_statement import Call
from events.streams import FLEET_NAME

if TYPE_CHECKING:
    import duckdb

    from api.service import StreamReading
    from api.sql_executor import SqlExecutor
    from api.sql_statement import SqlResult, Statement
    from projections.positions import Positions

_LOG = logging.getLogger(__name__)

PREFIX = "/fleet/v1"
# As in the core, so that a client asks either; `api.auth` says it there, and a test compares the two, since
# that module would bring a framework in that this process has no use for.
PROBLEM = "application/problem+json"
END_AFTER_S = 0.2
# Between an answer and the end of a process that has to begin anew: long enough for the answer to leave.


class SqlReplica:
    """Answers statements, a few at a time.

    `cursor` gives a new cursor of the tables, `readings` how the reading of the streams goes, `is_worn`
    whether the process has so little address space left that it should begin anew, which `end` does. `token`
    of "" asks nobody.
    """

    def __init__(
        self,
        executor: SqlExecutor,
        *,
        cursor: Callable[[], duckdb.DuckDBPyConnection],
        readings: Callable[[], Mapping[str, StreamReading]],
        positions: Positions,
        is_worn: Callable[[], bool],
        end: Callable[[str], None],
        token: str = "",
    ) -> None:
        self._executor, self._cursor, self._readings = executor, cursor, readings
        self._positions, self._is_worn, self._end, self._token = positions, is_worn, end, token
        self._limits = executor.limits
        self._threads = ThreadPoolExecutor(self._limits.running, thread_name_prefix="sql")
        self._free = asyncio.Semaphore(self._limits.running)
        self._calls: set[Call] = set()
        self._is_ending = False

    def app(self) -> Starlette:
        """Return the ASGI application."""
        return Starlette(
            routes=[
                Route(f"{PREFIX}/sql", self._sql, methods=["POST"]),
                Route(f"{PREFIX}/sql/schema", self._schema, methods=["GET"]),
                Route(f"{PREFIX}/status", self._status, methods=["GET"]),
                Route(f"{PREFIX}/livez", self._livez, methods=["GET"]),
            ],
            exception_handlers={
                SqlProblemError: self._problem,
                404: self._no_route,
                405: self._no_route,
                Exception: self._unforeseen,
            },
        )

    def stop(self) -> None:
        """Stop what runs and take nothing more; stopping twice is fine."""
        self._is_ending = True
        for call in self._calls:
            call.cancel()
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _sql(self, request: Request) -> Response:
        self._authorize(request)
        form = chosen(request.headers.get("accept", ""))
        body = await body_of(request)
        statement = statement_of(
            body, content_type=request.headers.get("content-type", ""), limits=self._limits
        )
        await self._reached(_min_seq(request))
        if self._is_ending:
            raise SqlUnavailableError("the replica is about to begin anew: retry")
        if len(self._calls) >= self._limits.running + self._limits.waiting:
            raise SqlBusyError(running=self._limits.running, waiting=len(self._calls) - self._limits.running)
        call = Call()
        self._calls.add(call)
        try:
            result, content = await self._unless_gone(request, statement, form, call)
        finally:
            self._calls.discard(call)
            self._look_at_ourselves()
        return Response(content, media_type=form.media_type, headers=_headers(result))

    async def _reached(self, min_seq: int) -> None:
        """Wait until FLEET is folded up to a position; raise SqlPositionError after the bound."""
        if self._positions.seq(FLEET_NAME) < min_seq:
            reached = await self._positions.wait_for(FLEET_NAME, min_seq, within=MIN_SEQ_WITHIN)
            if reached < min_seq:
                raise SqlPositionError(min_seq=min_seq, reached=reached)

    async def _unless_gone(
        self, request: Request, statement: Statement, form: Format, call: Call
    ) -> tuple[SqlResult, bytes]:
        """Return the answer to a statement; stop the statement where its caller goes away."""
        work = asyncio.create_task(self._in_turn(statement, form, call))
        leaving = asyncio.create_task(gone(request))
        try:
            await asyncio.wait({work, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                call.cancel()
            return await work
        finally:
            leaving.cancel()

    async def _in_turn(self, statement: Statement, form: Format, call: Call) -> tuple[SqlResult, bytes]:
        async with self._free:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._threads, self._answer, statement, form, call)

    def _answer(self, statement: Statement, form: Format, call: Call) -> tuple[SqlResult, bytes]:
        if call.is_cancelled:
            raise SqlCancelledError("nobody waits for the answer")
        result = self._executor.run(statement, call)
        try:
            return result, form.write(result)
        except (MemoryError, pa.ArrowMemoryError) as err:
            raise SqlMemoryError(self._limits.memory_bytes) from err

    def _look_at_ourselves(self) -> None:
        """Begin anew where memory is worn out, once nothing runs any more."""
        if self._is_ending or self._calls or not self._is_worn():
            return
        self._is_ending = True
        asyncio.get_running_loop().call_later(END_AFTER_S, self._end, "its address space is used up")

    async def _schema(self, request: Request) -> Response:
        self._authorize(request)
        return _json(await asyncio.to_thread(self._read_schema))

    def _read_schema(self) -> dict[str, Any]:
        with self._cursor() as connection:
            return {
                **schema_of(connection, limits=self._limits),
                "as_of": as_of(connection, self._readings(), now=datetime.now(UTC)),
            }

    async def _status(self, request: Request) -> Response:
        self._authorize(request)
        return _json(await asyncio.to_thread(self._read_status))

    def _read_status(self) -> dict[str, Any]:
        readings = self._readings()
        with self._cursor() as connection:
            position = as_of(connection, readings, now=datetime.now(UTC))
        return {
            "as_of": position,
            "lag_ms": position["lag_ms"],
            "running": min(len(self._calls), self._limits.running),
            "waiting": max(0, len(self._calls) - self._limits.running),
            "streams": {
                name: {
                    "head": reading.head,
                    "pending": reading.pending,
                    "lag_ms": reading.lag_ms,
                    "state": reading.state,
                }
                for name, reading in readings.items()
            },
        }

    async def _livez(self, _request: Request) -> Response:
        return _json({"live": True})

    def _authorize(self, request: Request) -> None:
        given = request.headers.get("authorization", "")
        if self._token and not hmac.compare_digest(given.encode(), f"Bearer {self._token}".encode()):
            raise SqlUnauthorizedError("send Authorization: Bearer with the token of this replica")

    async def _problem(self, request: Request, err: Exception) -> Response:
        assert isinstance(err, SqlProblemError), "the framework hands each error to the handler of its type"
        known = [reading.lag_ms for reading in self._readings().values() if reading.lag_ms is not None]
        lag_ms = round(max(known)) if known else None
        headers = {} if lag_ms is None else {"x-lag-ms": str(lag_ms)}
        if err.retry_after_s is not None:
            headers["retry-after"] = str(err.retry_after_s)
        if isinstance(err, SqlUnauthorizedError):
            headers["www-authenticate"] = "Bearer"
        body = {**err.body(), "instance": request.url.path, "lag_ms": lag_ms}
        return Response(dumps(body), status_code=err.status, media_type=PROBLEM, headers=headers)

    async def _unforeseen(self, request: Request, err: Exception) -> Response:
        """Answer for an error that nothing below made an answer of; the server logs it."""
        if isinstance(err, MemoryError):
            return await self._problem(request, SqlMemoryError(self._limits.memory_bytes))
        error_id = uuid4().hex[:16]
        _LOG.error("unexpected error %s", error_id)
        return await self._problem(request, SqlInternalError(error_id))

    async def _no_route(self, request: Request, _err: Exception) -> Response:
        known = f"POST {PREFIX}/sql, GET {PREFIX}/sql/schema, GET {PREFIX}/status and GET {PREFIX}/livez"
        return await self._problem(request, SqlRouteError(f"a replica answers {known}"))


def _min_seq(request: Request) -> int:
    query = request.query_params
    unknown = [name for name in query if name != "min_seq"]
    if unknown:
        raise SqlParameterError(f"{unknown[0][:80]} is not a parameter here: there is min_seq")
    text = query.get("min_seq", "")
    if text and not (text.isascii() and text.isdecimal() and len(text) <= 18):
        raise SqlParameterError("min_seq is a position in FLEET: a whole number")
    return int(text or 0)


def _headers(result: SqlResult) -> dict[str, str]:
    headers = {"x-row-count": str(result.table.num_rows), "x-as-of": dumps(result.as_of).decode()}
    if result.as_of["lag_ms"] is not None:
        headers["x-lag-ms"] = str(result.as_of["lag_ms"])
    if result.truncated_by:
        headers["x-truncated-by"] = result.truncated_by
    return headers


def _json(members: Mapping[str, Any]) -> Response:
    return Response(dumps(members), media_type="application/json")
