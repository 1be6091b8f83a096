"""The HTTP application: native routes, one module per noun, the dialects and the web page (floor 3).

Layers from the outside in: HEAD, unexpected errors, the admin token, raw node paths, times, the dialects, the
framework.
Whoever made the `Service` owns what is in it; the application only owns the threads that its questions run
in.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from fastapi import FastAPI
from starlette.middleware import Middleware

from api import capacity, decisions, feed, metrics, nodes, problems, sql_forward, status, web_page, why
from api.answers import Answers
from api.auth import AdminToken
from api.dialects.mounted import mounted
from api.dialects.serving import DialectPaths
from api.routing import HeadAsGet, RawNodePaths

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from api.service import Service

API_VERSION = "1"
TITLE = "Fleetfold"
DESCRIPTION = """\
The inventory of a fleet of machines, folded from an immutable log.

- **Every answer says which state it speaks of** in `as_of`: the position `seq` in the log `epoch`, and for
  how long (`lag_ms`) the oldest record not in it has been waiting. The header `x-lag-ms` repeats the lag.
  `min_seq` waits up to 5 s for a position, then answers 504 with the position that was reached.
- **Errors** are RFC 9457 problems with a stable `code`. What cannot be read is 400, also where parameters do
  not validate; an unknown parameter names the nearest known one.
- **Lists** are `{"items", "next_cursor"}`. A cursor is opaque and belongs to the filters it was given for.
- **Changes** are a feed: a cursor is a position of the log, what comes `after` it is exclusive of it, and
  `next_cursor` goes on where a page ends. Gaps and another log are frames and problems, never silence.
- **Numbers** are exact: integers without a point, decimals with all digits. null is unknown, which is not 0.
  Times are RFC 3339 in UTC. Sizes are bytes, `cpu` cores, `gpu` devices.
- **Node ids** are any text. In a path they are one segment, percent-encoded: a `/` in an id is `%2F`.
- **The ETag** of a node is its `version`, the position of the last fact about it. Heartbeats do not move it.
- **Who may ask**: where an admin token is set, every route but `livez` and `readyz` wants
  `Authorization: Bearer`.
"""


def create_app(service: Service) -> FastAPI:
    """Return the application over a service; it starts and stops nothing but its own threads."""
    answers = Answers(service)
    changes = feed.Feed(answers)
    requests = metrics.Requests()
    dialects = mounted(answers, lambda: metrics.text(answers, requests))

    @asynccontextmanager
    async def own_threads(_app: FastAPI) -> AsyncIterator[None]:
        try:
            yield
        finally:
            changes.close()
            answers.close()

    app = FastAPI(
        title=TITLE,
        version=API_VERSION,
        description=DESCRIPTION,
        lifespan=own_threads,
        openapi_url=None,
        redirect_slashes=False,
        middleware=[
            Middleware(HeadAsGet),
            Middleware(problems.UnexpectedErrors),
            Middleware(AdminToken, token=service.admin_token),
            Middleware(RawNodePaths),
            Middleware(metrics.Timed, requests=requests),
            Middleware(DialectPaths, dialects=dialects),
        ],
    )
    problems.install(app)
    app.state.answers = answers
    app.state.feed = changes
    app.state.dialects = dialects
    for routes in (
        nodes.router(answers),
        why.router(answers),
        *decisions.routers(answers),
        capacity.router(answers),
        feed.router(answers, changes),
        sql_forward.router(service),
        status.router(answers),
        metrics.router(answers, requests),
    ):
        app.include_router(routes)
    app.include_router(web_page.router())
    return app
