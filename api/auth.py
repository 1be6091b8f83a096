"""Who may ask: one admin token for the native routes (floor 3).

With a token set, every route below `/fleet/v1` but `livez` and `readyz` asks for `Authorization: Bearer
<token>`, also the ones that do not exist. The web page at `/` is served without, since it holds no data.
Dialects have their own rules.
"""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING

from api.problems import UNAUTHORIZED, ProblemError, response

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

NATIVE_PREFIX = "/fleet/v1"
OPEN_PATHS = frozenset({f"{NATIVE_PREFIX}/livez", f"{NATIVE_PREFIX}/readyz"})
_REALM = 'Bearer realm="fleetfold"'


class AdminToken:
    """A layer that answers 401 in place of the application where the token is missing or another one."""

    def __init__(self, app: ASGIApp, *, token: str) -> None:
        self._app = app
        self._token = token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not _asks(scope["path"]) or not self._token:
            await self._app(scope, receive, send)
            return
        problem = self._refusal(scope)
        if problem is None:
            await self._app(scope, receive, send)
        else:
            await response(problem, instance=scope["path"])(scope, receive, send)

    def _refusal(self, scope: Scope) -> ProblemError | None:
        given = [value for name, value in scope["headers"] if name == b"authorization"]
        if len(given) != 1:
            return ProblemError(
                UNAUTHORIZED,
                "send the admin token as Authorization: Bearer …",
                headers={"WWW-Authenticate": _REALM},
            )
        scheme, _, token = given[0].partition(b" ")
        is_right = hmac.compare_digest(token.strip(b" "), self._token)  # in constant time, whatever was sent
        if scheme.lower() == b"bearer" and is_right:
            return None
        return ProblemError(
            UNAUTHORIZED,
            "the token is not the admin token of this service",
            headers={"WWW-Authenticate": f'{_REALM}, error="invalid_token"'},
        )


def _asks(path: str) -> bool:
    return (path == NATIVE_PREFIX or path.startswith(NATIVE_PREFIX + "/")) and path not in OPEN_PATHS
