"""The OpenAPI document of a dialect, made of its calls (floor 3, pure): with every status that can come."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from api.dialects.calls import JSON, Call, Dialect, Shown

if TYPE_CHECKING:
    from collections.abc import Iterator

DESCRIPTION = """\
What this service answers at the paths of the dialect `{name}`, besides its native routes. What is the
dialect's own and what was added is told in `docs/dialects/{name}.md`.
"""


def document(dialect: Dialect, *, version: str) -> dict[str, Any]:
    """Return the OpenAPI 3.1 document of a dialect."""
    paths: dict[str, dict[str, Any]] = {}
    for call in dialect.calls:
        paths.setdefault(call.path, {})[call.method.lower()] = _operation(dialect, call)
    made: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {
            "title": dialect.title,
            "version": version,
            "description": DESCRIPTION.format(name=dialect.name),
        },
        "paths": paths,
    }
    if dialect.security is not None:
        made["components"] = {"securitySchemes": {"token": dialect.security}}
    return made


def _operation(dialect: Dialect, call: Call) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": _operation_id(call),
        "summary": call.summary,
        "responses": {
            str(status): _response(shown)
            for status, shown in sorted({**_refusals(dialect, call), **call.answers}.items())
        },
    }
    parameters = [*_path_parameters(call), *_query_parameters(call)]
    if parameters:
        operation["parameters"] = parameters
    if call.takes is not None:
        operation["requestBody"] = {"required": call.needs_body, "content": {JSON: {"schema": call.takes}}}
    if dialect.security is not None and not call.is_open:
        operation["security"] = [{"token": []}]
    return operation


def _refusals(dialect: Dialect, call: Call) -> dict[int, Shown]:
    return dict.fromkeys((*dialect.may_always_come, *call.refusals), dialect.refused_as)


def _response(shown: Shown) -> dict[str, Any]:
    if shown.schema is None:
        return {"description": shown.meaning}
    return {"description": shown.meaning, "content": {shown.media_type: {"schema": shown.schema}}}


def _path_parameters(call: Call) -> Iterator[dict[str, Any]]:
    for part in call.path.split("/"):
        if part.startswith("{"):
            schema = {"type": "string", "minLength": 1}
            yield {"name": part[1:-1], "in": "path", "required": True, "schema": schema}


def _query_parameters(call: Call) -> Iterator[dict[str, Any]]:
    for name, schema in call.query.items():
        yield {"name": name, "in": "query", "required": False, "schema": schema}


def _operation_id(call: Call) -> str:
    parts = [part.strip("{}") for part in call.path.split("/") if part]
    return "_".join([call.method.lower(), *parts]).replace("-", "_").replace(".", "_")
