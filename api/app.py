"""The HTTP application: native routes, one module per noun, and the web page (floor 3).

Layers from the outside in: unexpected errors, the admin token, raw node paths, the framework. Everything
that is opened belongs to whoever made the `Service`; the application only owns the threads that its
questions run in.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from fastapi import APIRouter, FastAPI
from starlette.middleware import Middleware

from api import capacity, metrics, nodes, problems, status, web_page
from api.answers import Answers
from api.auth import NATIVE_PREFIX, AdminToken
from api.models import Problem
from api.routing import RawNodePaths, StrictRoute

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from api.service import Service

TITLE = "Fleetfold"
DESCRIPTION = """The inventory of a fleet of machines, folded from an immutable log."""


def create_app(service: Service) -> FastAPI:
    """Return the application over a service; it starts and stops nothing but its own threads."""
    answers = Answers(service)

    @asynccontextmanager
    async def threads(_app: FastAPI) -> AsyncIterator[None]:
        try:
            yield
        finally:
            answers.questions.close()

    app = FastAPI(
        title=TITLE,
        version=service.version,
        description=DESCRIPTION,
        lifespan=threads,
        openapi_url=None,
        middleware=[
            Middleware(problems.UnexpectedErrors),
            Middleware(AdminToken, token=service.admin_token),
            Middleware(RawNodePaths),
        ],
    )
    problems.install(app)
    app.state.answers = answers
    native = APIRouter(
        prefix=NATIVE_PREFIX, route_class=StrictRoute, responses={"default": {"model": Problem}}
    )
    for routes in (
        nodes.router(answers),
        capacity.router(answers),
        status.router(answers),
        metrics.router(answers),
    ):
        native.include_router(routes)
    app.include_router(native)
    app.include_router(web_page.router())
    return app
