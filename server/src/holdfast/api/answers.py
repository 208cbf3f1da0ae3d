"""The error body, and the error responses that every route documents."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field
from pydantic.json_schema import models_json_schema

from holdfast.kit.schema import Schema


class ErrorDetail(Schema):
    model_config = ConfigDict(extra="allow")

    key: str = Field(description="Stable error key of the form <area>.<name>.")
    message: str = Field(description="Message for users, in English.")
    params: dict[str, Any] = Field(default_factory=dict)


class ErrorBody(Schema):
    detail: ErrorDetail


class InvalidField(Schema):
    model_config = ConfigDict(extra="allow")

    loc: list[str | int]
    msg: str
    type: str


class InvalidBody(Schema):
    detail: list[InvalidField] | ErrorDetail


MEANING = {
    400: "The request is not well-formed.",
    401: "The credential is missing or not valid.",
    403: "Not permitted by your rights or the plan.",
    404: "Not found, or not visible to this user.",
    405: "The path does not support this method.",
    409: "Not possible in the current state.",
    413: "The body is too large.",
    422: "The request is not valid; nothing was changed.",
    423: "The repository is locked by another operation.",
    429: "Too many attempts; see Retry-After.",
    503: "The store is unavailable; see Retry-After.",
}


_REFERRED: dict[str, type[BaseModel]] = {}


def documented(*codes: int) -> dict[int | str, dict[str, Any]]:
    """Build the ``responses`` of a route for the given error codes.

    They refer to schemas that ``add_shapes`` adds to the document. If they named the models, the framework would build
    a validator for each of more than a thousand responses at every start, without ever using one.
    """
    return {code: {"description": MEANING[code], "content": _content(code)} for code in codes}


def _content(code: int) -> dict[str, Any]:
    return {"application/json": {"schema": shape(InvalidBody if code == 422 else ErrorBody)}}


def shape(model: type[BaseModel]) -> dict[str, str]:
    """Return a reference to a schema that ``add_shapes`` adds to the document, for responses that are not JSON
    themselves.
    """
    _REFERRED[model.__name__] = model
    return {"$ref": f"#/components/schemas/{model.__name__}"}


def add_shapes(document: dict[str, Any]) -> None:
    """Add the schemas of error bodies, and those requested with `shape`, to an OpenAPI document."""
    _, made = models_json_schema(
        [(model, "serialization") for model in _REFERRED.values()], ref_template="#/components/schemas/{model}"
    )
    schemas = document.setdefault("components", {}).setdefault("schemas", {})
    for name, schema in made["$defs"].items():
        schemas.setdefault(name, schema)


ALWAYS = documented(400, 401, 403, 413, 422, 503)
