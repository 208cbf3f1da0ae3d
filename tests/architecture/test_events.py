"""Every event that the code can publish has a schema in the OpenAPI document, and every schema is published."""

import ast
from typing import Any, get_args

import pytest

from holdfast.operations.event_schemas import EVENTS
from holdfast.operations.events import Unstored
from holdfast.operations.outbox import Topic
from tests.architecture.composed import composed_app
from tests.architecture.test_single_places import nodes

ONLY_NAME_THEM = {
    "operations/outbox.py",
    "operations/event_schemas.py",
    "notifications/events/from_outbox.py",
    "metrics/totals.py",
    "schedules/running/run_results.py",
}
"""The list of topics, the schemas, and readers of events."""


@pytest.fixture(scope="module")
def schemas() -> dict[str, Any]:
    found: dict[str, Any] = composed_app().openapi()["components"]["schemas"]
    return found


def test_every_event_that_can_be_published_has_a_schema() -> None:
    """The functions that publish accept no other topic, which mypy enforces."""
    assert {*get_args(Topic), *get_args(Unstored)} == set(EVENTS)


def test_every_schema_is_published() -> None:
    named = {
        node.value
        for name, found in nodes()
        if name.startswith("holdfast/") and name.removeprefix("holdfast/") not in ONLY_NAME_THEM
        for node in found
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    assert set(EVENTS) - named == set()


def test_the_document_describes_every_event(schemas: dict[str, Any]) -> None:
    stream = composed_app().openapi()["paths"]["/api/events/stream"]["get"]["responses"]["200"]["content"]
    assert stream["text/event-stream"]["schema"] == {"$ref": "#/components/schemas/LiveEvents"}
    assert set(schemas["LiveEvents"]["properties"]) == set(EVENTS)
    for name, model in EVENTS.items():
        assert schemas["LiveEvents"]["properties"][name] == {"$ref": f"#/components/schemas/{model.__name__}"}
        assert schemas[model.__name__]["description"], name
