"""The web page: three static files that ask the same routes as everybody (floor 3).

Served without a token, since it holds no data; what it asks for needs one where a token is set.
"""

from __future__ import annotations

from importlib.resources import files

from fastapi import APIRouter, Response

_KINDS = {"index.html": "text/html", "page.css": "text/css", "page.js": "text/javascript"}
_FILES = {name: files("api").joinpath("page", name).read_bytes() for name in _KINDS}
_HEADERS = {
    "Cache-Control": "no-cache",
    "X-Content-Type-Options": "nosniff",
    # The page loads nothing from elsewhere, and a node's name can never become a script.
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
}


def router() -> APIRouter:
    """Return the routes `/` and `/page/…`, which the API's description leaves out."""
    routes = APIRouter(include_in_schema=False)

    @routes.get("/")
    async def page() -> Response:
        return _serve("index.html")

    @routes.get("/page/page.css")
    async def style() -> Response:
        return _serve("page.css")

    @routes.get("/page/page.js")
    async def script() -> Response:
        return _serve("page.js")

    return routes


def _serve(name: str) -> Response:
    return Response(_FILES[name], media_type=_KINDS[name], headers=_HEADERS)
