"""Clients are generated from the OpenAPI document: its names are unique, and each filter is declared once."""

from collections import Counter
from typing import Any

import pytest

from tests.architecture.composed import composed_app

METHODS = {"get", "post", "put", "patch", "delete"}


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return composed_app().openapi()


def operations(document: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    return [
        (f"{method.upper()} {path}", operation)
        for path, item in document["paths"].items()
        for method, operation in item.items()
        if method in METHODS
    ]


def test_no_two_models_have_the_same_name(document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]
    names = Counter(schema.get("title", name) for name, schema in schemas.items())

    assert [name for name, count in names.items() if count > 1] == []
    assert [name for name in schemas if "__" in name] == [], "the framework made a name unique by its module"


def test_no_parameter_is_declared_twice_with_and_without_brackets(document: dict[str, Any]) -> None:
    for name, operation in operations(document):
        words = Counter(parameter["name"].removesuffix("[]") for parameter in operation.get("parameters", []))
        assert [word for word, count in words.items() if count > 1] == [], name


def test_no_two_operations_have_the_same_id(document: dict[str, Any]) -> None:
    ids = Counter(operation["operationId"] for _, operation in operations(document))

    assert [one for one, count in ids.items() if count > 1] == []


def test_the_document_contains_the_restore_routes(document: dict[str, Any]) -> None:
    assert {"/api/restore/start", "/api/restore/preview", "/api/restore/jobs"} <= set(document["paths"])
