"""The OpenAPI document of each dialect: committed as its calls make it, valid, and with every status."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from fastapi.openapi.models import OpenAPI

from api import schema

FOLDER = Path(__file__).parents[2] / "docs" / "schema"


@pytest.fixture(scope="module")
def made() -> dict[str, str]:
    return {name: text for name, text in schema.documents().items() if name.count(".") == 2}


def test_the_committed_documents_are_those_that_the_calls_make(made: dict[str, str]) -> None:
    committed = {file.name: file.read_text("utf-8") for file in FOLDER.glob("openapi.*.json")}

    assert committed.keys() == made.keys(), "run python -m api.schema docs/schema"
    for name, text in committed.items():
        assert text == made[name], f"{name}: run python -m api.schema docs/schema"


def test_each_document_is_valid_and_names_what_can_come(made: dict[str, str]) -> None:
    assert made
    for text in made.values():
        document: dict[str, Any] = json.loads(text)

        OpenAPI.model_validate(document)
        ids = []
        for path, operations in document["paths"].items():
            for operation in operations.values():
                ids.append(operation["operationId"])
                named = {one["name"] for one in operation.get("parameters", []) if one["in"] == "path"}
                assert named == set(re.findall(r"\{(\w+)\}", path))
                statuses = set(operation["responses"])
                assert {"404", "405", "500", "503"} <= statuses, path
                if "requestBody" in operation:
                    assert "413" in statuses, path
                    assert statuses & {"400", "422"}, path
        assert len(set(ids)) == len(ids)
