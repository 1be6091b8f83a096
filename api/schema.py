"""The OpenAPI and AsyncAPI documents, made from the routes and committed under `docs/schema/` (floor 3).

    python -m api.schema docs/schema      writes them, a test compares them

The native routes have openapi.json, the questions over NATS asyncapi.json, a dialect openapi.<dialect>.json.

FastStream documents questions and published messages; what it leaves out of a document (replies, parameters
of addresses, the questions of `nats.micro`) is added here.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from faststream import FastStream
from faststream.nats import NatsBroker
from faststream.specification import AsyncAPI
from pydantic.json_schema import models_json_schema

from api.answers import Answers
from api.app import API_VERSION, DESCRIPTION, TITLE, create_app
from api.auth import OPEN_PATHS
from api.capacity_models import CapacityAnswer
from api.change_models import BulkAnswer, ChangedNodeAnswer
from api.dialects.document import document as dialect_document
from api.feed_models import ChangesAnswer
from api.models import Problem
from api.nats_questions import subscribe
from api.node_models import NodeAnswer, NodeAtAnswer, NodesAnswer
from api.problems import KINDS, MEDIA_TYPE
from api.service import Service
from api.status_models import StatusAnswer
from api.stream_messages import PARAMETERS, declare
from api.why_models import WhyAnswer
from events.subjects import API_PREFIX
from projections.projection import Projection

if TYPE_CHECKING:
    from pydantic import BaseModel

Document = dict[str, Any]

ANSWER = "answer"
"""Before the names of answers' shapes: a resource in an answer is not one in a registration."""

REPLIES: dict[str, tuple[type[BaseModel], ...]] = {
    "nodes": (NodesAnswer,),
    "node": (NodeAnswer, NodeAtAnswer),
    "why": (WhyAnswer,),
    "capacity": (CapacityAnswer,),
    "changes": (ChangesAnswer,),
    "status": (StatusAnswer,),
    "action": (ChangedNodeAnswer,),
    "actions": (BulkAnswer,),
    "patch": (ChangedNodeAnswer,),
    "allocate": (ChangedNodeAnswer,),
    "release": (ChangedNodeAnswer,),
}


def openapi_document(service: Service) -> Document:
    """Return the OpenAPI document of the application over a service, which is asked nothing."""
    document = create_app(service).openapi()
    components = document["components"]
    components["securitySchemes"] = {
        "adminToken": {
            "type": "http",
            "scheme": "bearer",
            "description": "asked for where an admin token is set",
        }
    }
    components["schemas"]["Problem"]["properties"]["code"]["enum"] = [kind.code for kind in KINDS]
    for path, operations in document["paths"].items():
        for operation in operations.values():
            responses = operation["responses"]
            responses.pop("422", None)  # the framework's own: what does not validate is a 400 problem here
            if "default" in responses:
                problem = responses["default"]["content"].pop("application/json")
                responses["default"] = {"description": "A problem", "content": {MEDIA_TYPE: problem}}
            if path not in OPEN_PATHS:
                operation["security"] = [{"adminToken": []}]
    for unused in ("HTTPValidationError", "ValidationError"):
        components["schemas"].pop(unused, None)
    return document


def asyncapi_document(service: Service) -> Document:
    """Return the AsyncAPI 3.0 document: questions and their replies, and what the streams carry."""
    broker = NatsBroker()
    subscribe(broker, Answers(service), limit_bytes=lambda: 0)
    declare(broker)
    app = FastStream(
        broker,
        specification=AsyncAPI(
            title=TITLE, version=API_VERSION, description=DESCRIPTION, schema_version="3.0.0"
        ),
    )
    document: Document = json.loads(app.schema.to_specification().to_json())
    document["servers"] = {"broker": {"host": "127.0.0.1:4222", "protocol": "nats"}}
    for channel in document["channels"].values():
        channel["servers"] = [{"$ref": "#/servers/broker"}]
        _name_parameters(channel)
    for message in document["components"]["messages"].values():
        message.pop("correlationId", None)  # FastStream's own header, which nobody has to send
    for question, models in REPLIES.items():
        _add_reply(document, f"{API_PREFIX}.{question}", models)
    return document


def documents() -> dict[str, str]:
    """Return each file of `docs/schema/` with its text."""
    with tempfile.TemporaryDirectory() as folder:
        projection = Projection.open(Path(folder) / "tables.duckdb")
        try:
            service = Service(projection=projection, readings=dict, version="", nats_url="")
            made = {"openapi.json": openapi_document(service), "asyncapi.json": asyncapi_document(service)}
            for dialect in create_app(service).state.dialects:
                made[f"openapi.{dialect.name}.json"] = dialect_document(dialect, version=API_VERSION)
        finally:
            projection.close()
    return {name: json.dumps(document, indent=2, sort_keys=True) + "\n" for name, document in made.items()}


def write(folder: Path) -> None:
    """Write the documents into a folder."""
    for name, text in documents().items():
        (folder / name).write_text(text, encoding="utf-8")


def _name_parameters(channel: Document) -> None:
    found = {
        name: {"description": text}
        for name, text in PARAMETERS.items()
        if f"{{{name}}}" in channel["address"]
    }
    if found:
        channel["parameters"] = found
    binding = channel["bindings"]["nats"]
    for name in found:
        binding["subject"] = binding["subject"].replace(f"{{{name}}}", "*")


def _add_reply(document: Document, question: str, models: tuple[type[BaseModel], ...]) -> None:
    """Document what a question is answered with: on the inbox that the request names."""
    components = document["components"]
    wanted: list[type[BaseModel]] = [*models, Problem]
    _, schemas = models_json_schema(
        [(model, "serialization") for model in wanted],
        ref_template=f"#/components/schemas/{ANSWER}.{{model}}",
    )
    components["schemas"] |= {f"{ANSWER}.{name}": shape for name, shape in schemas["$defs"].items()}
    channel = f"{question}.reply"
    for model in wanted:
        components["messages"][f"{channel}:{model.__name__}"] = {
            "title": model.__name__,
            "contentType": "application/json",
            "payload": {"$ref": f"#/components/schemas/{ANSWER}.{model.__name__}"},
        }
    document["channels"][channel] = {
        "address": None,
        "servers": [{"$ref": "#/servers/broker"}],
        "messages": {
            model.__name__: {"$ref": f"#/components/messages/{channel}:{model.__name__}"} for model in wanted
        },
    }
    operation = document["operations"][question]
    operation["reply"] = {
        "address": {"location": "$message.header#/reply"},
        "channel": {"$ref": f"#/channels/{channel}"},
        "messages": [{"$ref": f"#/channels/{channel}/messages/{model.__name__}"} for model in wanted],
    }


if __name__ == "__main__":
    write(Path(sys.argv[1]))
