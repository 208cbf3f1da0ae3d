"""The shape of an error, and the error answers that every route documents."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field


class ErrorDetail(BaseModel):
    model_config = ConfigDict(extra="allow")

    key: str = Field(description="Stable name of the condition: <area>.<name>.")
    message: str = Field(description="An English sentence for a person.")
    params: dict[str, Any] = Field(default_factory=dict)


class ErrorBody(BaseModel):
    detail: ErrorDetail


class InvalidField(BaseModel):
    model_config = ConfigDict(extra="allow")

    loc: list[str | int]
    msg: str
    type: str


class InvalidBody(BaseModel):
    detail: list[InvalidField] | ErrorDetail


MEANING = {
    400: "The request is not well-formed.",
    401: "No credential, or one that is not valid.",
    403: "The right or the plan is missing.",
    404: "There is no such thing, or it is not for this user to see.",
    405: "The path does not take this method.",
    409: "The present state does not allow it.",
    413: "The body is too large.",
    422: "The request is malformed or refused; nothing was changed.",
    423: "The repository is locked by other work.",
    429: "Too many attempts; see Retry-After.",
    503: "The store is not reachable; see Retry-After.",
}


def documented(*codes: int) -> dict[int | str, dict[str, Any]]:
    """The ``responses`` of a route that may answer with the given error codes."""
    return {code: {"model": InvalidBody if code == 422 else ErrorBody, "description": MEANING[code]} for code in codes}


ALWAYS = documented(400, 401, 403, 413, 422, 503)
