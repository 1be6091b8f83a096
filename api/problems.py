"""Problems: every answer that is not the one asked for, as RFC 9457 `application/problem+json` (floor 3).

A problem has `type`, `title`, `status`, `detail`, `instance` and a stable `code`, which is what programs
compare; some have members of their own (`parameter`, `nearest`, `node`, `error_id`, …). The codes are
listed once, in `KINDS`.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import uuid4

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from api.json_text import dumps
from api.sql_errors import OWN_PROBLEMS as SQL_PROBLEMS
from events.append import APPEND_REFUSED
from events.errors import (
    BrokerUnavailableError,
    ConflictError,
    FleetfoldError,
    InvalidNodeIdError,
    InvalidSubjectError,
    OversizedError,
    RefusedError,
    StoreError,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

MEDIA_TYPE = "application/problem+json"
TYPE_PREFIX = "urn:fleetfold:problem:"
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Kind:
    """One sort of problem: its stable code, the HTTP status and a title that never changes."""

    code: str
    status: int
    title: str


INVALID_PARAMETER = Kind("invalid_parameter", 400, "A parameter cannot be read")
UNKNOWN_PARAMETER = Kind("unknown_parameter", 400, "A parameter is not known here")
INVALID_CURSOR = Kind("invalid_cursor", 400, "The cursor is not one of ours")
INVALID_NODE_ID = Kind("invalid_node_id", 400, "The text cannot be a node id")
INVALID_BODY = Kind("invalid_body", 400, "The body cannot be read")
TOO_MANY_NODES = Kind("too_many_nodes", 400, "The selection is too large for one request")
REFUSED = Kind("refused", 409, "The request is not allowed")
UNAUTHORIZED = Kind("unauthorized", 401, "A token is needed")
UNKNOWN_ROUTE = Kind("unknown_route", 404, "There is no such route")
UNKNOWN_NODE = Kind("unknown_node", 404, "There is no such node")
METHOD_NOT_ALLOWED = Kind("method_not_allowed", 405, "The route does not answer to this method")
VERSION_CONFLICT = Kind("version_conflict", 409, "The node changed after it was read")
NODE_RETIRED = Kind("node_retired", 410, "The node is retired")
OVERSIZED = Kind("oversized", 413, "The request is too large")
INTERNAL = Kind("internal", 500, "Something went wrong here")
EPOCH_CHANGED = Kind("epoch_changed", 410, "The log is another one")
NOT_READY = Kind("not_ready", 503, "The service is not ready yet")
BROKER_UNAVAILABLE = Kind("broker_unavailable", 503, "The broker does not answer")
STORE_UNAVAILABLE = Kind("store_unavailable", 503, "The tables cannot be read at the moment")
POSITION_NOT_REACHED = Kind("position_not_reached", 504, "The position was not reached in time")
REQUEST_REFUSED = Kind("http_error", 400, "The request cannot be served")

KINDS = (
    INVALID_PARAMETER, UNKNOWN_PARAMETER, INVALID_CURSOR, INVALID_NODE_ID, INVALID_BODY,
    TOO_MANY_NODES, REFUSED,
    UNAUTHORIZED, UNKNOWN_ROUTE, UNKNOWN_NODE, METHOD_NOT_ALLOWED, VERSION_CONFLICT, NODE_RETIRED,
    EPOCH_CHANGED,
    OVERSIZED, INTERNAL, NOT_READY, BROKER_UNAVAILABLE, STORE_UNAVAILABLE, POSITION_NOT_REACHED,
    REQUEST_REFUSED, *(Kind(err.code, err.status, err.title) for err in SQL_PROBLEMS),
)  # fmt: skip

_KIND_OF_ERROR: tuple[tuple[type[FleetfoldError], Kind], ...] = (
    (InvalidNodeIdError, INVALID_NODE_ID),
    (InvalidSubjectError, INVALID_NODE_ID),
    (ConflictError, VERSION_CONFLICT),
    (RefusedError, REFUSED),
    (OversizedError, OVERSIZED),
    (BrokerUnavailableError, BROKER_UNAVAILABLE),
)
_PRIVATE_DETAIL: tuple[tuple[type[FleetfoldError], Kind, str], ...] = (
    (StoreError, STORE_UNAVAILABLE, "the tables are being opened or rebuilt: retry"),
)  # the message of such an error may name a path, which is for the log only


class ProblemError(FleetfoldError):
    """An answer that a route gives instead of the one asked for."""

    code = "problem"

    def __init__(
        self,
        kind: Kind,
        detail: str,
        *,
        members: Mapping[str, object] | None = None,
        headers: Mapping[str, str] | None = None,
        status: int | None = None,
    ) -> None:
        self.kind, self.detail = kind, detail
        self.status = status or kind.status
        self.members, self.headers = dict(members or {}), dict(headers or {})
        super().__init__(f"{kind.code}: {detail}")

    def body(self, *, instance: str) -> dict[str, object]:
        """Return the members of the problem; `instance` is the path asked for."""
        return {
            "type": TYPE_PREFIX + self.kind.code,
            "title": self.kind.title,
            "status": self.status,
            "detail": self.detail,
            "instance": instance,
            "code": self.kind.code,
            **self.members,
        }


def problem_of(err: Exception) -> ProblemError:
    """Return the problem that an error is for the caller; the unforeseen is logged under an error id."""
    if isinstance(err, ProblemError):
        return err
    if isinstance(err, RefusedError) and err.reason == APPEND_REFUSED:
        return ProblemError(BROKER_UNAVAILABLE, f"{err}: look at its log, it may be full")
    for error_type, kind in _KIND_OF_ERROR:
        if isinstance(err, error_type):
            return ProblemError(kind, str(err))
    for error_type, kind, detail in _PRIVATE_DETAIL:
        if isinstance(err, error_type):
            _LOG.warning("an answer was not possible: %s", err)
            return ProblemError(kind, detail, headers={"Retry-After": "1"})
    error_id = uuid4().hex[:16]
    _LOG.error("unexpected error %s", error_id, exc_info=err)
    return ProblemError(
        INTERNAL,
        f"the log of the service tells more under the error id {error_id}",
        members={"error_id": error_id},
    )


def response(problem: ProblemError, *, instance: str) -> Response:
    """Return a problem as an HTTP answer."""
    return Response(
        dumps(problem.body(instance=instance)),
        status_code=problem.status,
        media_type=MEDIA_TYPE,
        headers=problem.headers,
    )


def install(app: FastAPI) -> None:
    """Make every error of the application a problem, its own and the framework's."""

    @app.exception_handler(FleetfoldError)
    async def ours(request: Request, err: Exception) -> Response:
        return response(problem_of(err), instance=_instance(request.scope))

    @app.exception_handler(RequestValidationError)
    async def unread(request: Request, err: Exception) -> Response:
        assert isinstance(err, RequestValidationError), (
            "the framework hands each error to the handler of its type"
        )
        return response(unreadable(err.errors()), instance=_instance(request.scope))

    @app.exception_handler(HTTPException)
    async def framework(request: Request, err: Exception) -> Response:
        assert isinstance(err, HTTPException), "the framework hands each error to the handler of its type"
        return response(_of_http(err, request), instance=_instance(request.scope))


def unreadable(errors: Sequence[Mapping[str, object]]) -> ProblemError:
    """Return the problem of parameters or a body that do not validate: 400, each fault with its place.

    `errors` are as pydantic lists them. What the caller sent is not repeated, since it may be long or secret.
    """
    faults = []
    for error in errors:
        place = error.get("loc")
        parts = [str(part) for part in place] if isinstance(place, (list, tuple)) else []
        where, name = (parts[0], ".".join(parts[1:])) if parts else ("", "")
        if error.get("type") == "json_invalid":
            name, detail = "", f"the body is not JSON: something is wrong at character {name}"
        elif parts == ["body"]:
            detail = "the body is a JSON object, sent with Content-Type: application/json"
        else:
            detail = str(error.get("msg", "")).removeprefix("Value error, ")
        faults.append({"in": where, "parameter": name, "detail": detail})
    first = faults[0] if faults else {"in": "", "parameter": "", "detail": "it cannot be read"}
    kind = INVALID_BODY if first["in"] == "body" else INVALID_PARAMETER
    said = f"{first['parameter']}: {first['detail']}" if first["parameter"] else first["detail"]
    return ProblemError(kind, said, members={"errors": faults})


def _of_http(err: HTTPException, request: Request) -> ProblemError:
    path = _instance(request.scope)
    match err.status_code:
        case 400:
            return ProblemError(INVALID_BODY, "the body is not JSON in UTF-8, or is nested too deep")
        case 413:
            return ProblemError(OVERSIZED, str(err.detail))
        case 404:
            hint = ": a / inside a node id is written %2F" if "/nodes/" in path else ""
            detail = f"{request.method} {path} is not a route{hint}"
            # At a path of nobody, whoever speaks the dialect Fuse behind a wrong prefix reads its own words.
            words = {"error": {"code": "route_not_found", "message": f"no such route: {path[:200]}"}}
            return ProblemError(UNKNOWN_ROUTE, detail, members={} if path.startswith("/fleet") else words)
        case 405:
            return ProblemError(
                METHOD_NOT_ALLOWED,
                f"{path} does not answer to {request.method}",
                headers={name: _with_head(value) for name, value in (err.headers or {}).items()},
            )
        case status:
            return ProblemError(
                REQUEST_REFUSED, str(err.detail), status=status, headers=dict(err.headers or {})
            )


def _with_head(allowed: str) -> str:
    """Return the methods of a route with HEAD, which `routing.HeadAsGet` answers where there is GET."""
    return f"{allowed}, HEAD" if "GET" in allowed and "HEAD" not in allowed else allowed


def _instance(scope: Scope) -> str:
    raw: bytes = scope.get("raw_path") or scope["path"].encode()
    return raw.decode("ascii", "replace")


class UnexpectedErrors:
    """The outermost layer: an error that nothing below made an answer of becomes a 500 with an error id."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        has_started = False

        async def watched(message: Message) -> None:
            nonlocal has_started
            has_started = has_started or message["type"] == "http.response.start"
            await send(message)

        try:
            await self._app(scope, receive, watched)
        except Exception as err:
            if has_started:
                raise  # half an answer is out: only cutting the connection tells the caller
            await response(problem_of(err), instance=_instance(scope))(scope, receive, send)
