"""The OpenAPI and AsyncAPI documents: committed as they are made, and valid."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.openapi.models import OpenAPI

from api import schema
from api.nats_routes import QUESTIONS
from api.problems import KINDS
from events.registry import REGISTRY
from events.subjects import API_PREFIX

FOLDER = Path(__file__).parents[2] / "docs" / "schema"
DOCUMENTS = ("asyncapi.json", "openapi.json")


@pytest.fixture(scope="module")
def made() -> dict[str, str]:
    return schema.documents()


@pytest.mark.parametrize("name", DOCUMENTS)
def test_the_committed_document_is_the_one_that_the_routes_make(made: dict[str, str], name: str) -> None:
    assert (FOLDER / name).read_text(encoding="utf-8") == made[name], "run python -m api.schema docs/schema"


@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_reference_in_a_document_leads_somewhere(made: dict[str, str], name: str) -> None:
    document = json.loads(made[name])

    references = list(_references(document))

    assert references
    for reference in references:
        found = document
        for part in reference.removeprefix("#/").split("/"):
            found = found[part.replace("~1", "/").replace("~0", "~")]


def test_the_openapi_document_is_valid(made: dict[str, str]) -> None:
    document = json.loads(made["openapi.json"])

    OpenAPI.model_validate(document)
    assert document["openapi"].startswith("3.1")
    operations = [
        (path, operation)
        for path, operations in document["paths"].items()
        for operation in operations.values()
    ]
    ids = [operation["operationId"] for _, operation in operations]
    assert len(set(ids)) == len(ids)
    for path, operation in operations:
        named = {one["name"] for one in operation.get("parameters", []) if one["in"] == "path"}
        assert named == set(re.findall(r"\{(\w+)\}", path))
        assert "422" not in operation["responses"]
        assert list(operation["responses"]["default"]["content"]) == ["application/problem+json"]


def test_the_openapi_document_names_every_code_and_who_may_ask(made: dict[str, str]) -> None:
    document = json.loads(made["openapi.json"])

    assert document["components"]["schemas"]["Problem"]["properties"]["code"]["enum"] == [
        k.code for k in KINDS
    ]
    assert "security" not in document["paths"]["/fleet/v1/livez"]["get"]
    assert document["paths"]["/fleet/v1/nodes"]["get"]["security"] == [{"adminToken": []}]


def test_the_asyncapi_document_has_every_question_with_its_replies(made: dict[str, str]) -> None:
    document = json.loads(made["asyncapi.json"])

    assert document["asyncapi"] == "3.0.0"
    for question in QUESTIONS:
        operation = document["operations"][f"{API_PREFIX}.{question}"]
        assert operation["action"] == "receive"
        assert document["channels"][f"{API_PREFIX}.{question}"]["address"] == f"{API_PREFIX}.{question}"
        assert operation["reply"]["messages"][-1]["$ref"].endswith("/Problem")


def test_the_asyncapi_document_has_every_message_of_the_streams(made: dict[str, str]) -> None:
    document = json.loads(made["asyncapi.json"])
    addresses = {channel["address"] for channel in document["channels"].values()}

    for kind in REGISTRY.types:
        about = "zone" if kind.owner == "zone" else "node"
        assert f"fleet.v1.{kind.owner}.{{{about}}}.{kind.verb}" in addresses
    assert {"fleet.v1.beat.{node}", "fleet.v1.node.{node}.{kind}.{detail}"} <= addresses
    for channel in document["channels"].values():
        named = set(re.findall(r"\{(\w+)\}", channel["address"] or ""))
        assert named == set(channel.get("parameters", {}))


def test_what_is_answered_and_what_is_reported_are_told_apart(made: dict[str, str]) -> None:
    shapes = json.loads(made["asyncapi.json"])["components"]["schemas"]

    assert "allocatable" in shapes["answer.Resource"]["properties"]
    assert "allocatable" not in shapes["Resource"]["properties"]
    assert set(shapes["Leaving"]["properties"]) > {"boot_id", "seq", "cause"}


def test_the_application_is_imported_without_what_its_start_does_not_need() -> None:
    program = "import sys, api.app, api.nats_routes; print(' '.join(sorted(sys.modules)))"

    modules = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=FOLDER.parents[1]
    ).stdout.split()

    assert not {"faststream", "pyarrow", "httpx", "consumers"} & set(modules)


def _references(document: Any) -> Iterator[str]:  # noqa: ANN401
    match document:
        case dict():
            if isinstance(document.get("$ref"), str):
                yield document["$ref"]
            for member in document.values():
                yield from _references(member)
        case list():
            for member in document:
                yield from _references(member)
