"""Filters of lists that can be repeated, with or without brackets."""

from collections.abc import Awaitable, Callable
from typing import Annotated

from fastapi import Query, Request
from fastapi.exceptions import RequestValidationError
from pydantic import Field, TypeAdapter, ValidationError

from holdfast.kit.fields import PlainText

Many = tuple[str, ...]
Word = Annotated[str, PlainText(1, 64)]
MOST = 50
WORDS: TypeAdapter[list[str]] = TypeAdapter(Annotated[list[Word], Field(max_length=MOST)])


def many(name: str, description: str | None = None, *, brackets: bool = True) -> Callable[..., Awaitable[Many]]:
    """Return a dependency that reads both `name=a&name=b` and `name[]=a&name[]=b`.

    The OpenAPI document declares only one of the two forms, because generated clients would otherwise have two
    parameters of the same name.
    """
    declared, other = (f"{name}[]", name) if brackets else (name, f"{name}[]")

    async def read(
        request: Request,
        given: Annotated[list[Word] | None, Query(alias=declared, max_length=MOST, description=description)] = None,
    ) -> Many:
        return tuple(dict.fromkeys([*(given or []), *_words(request, other)]))

    return read


def _words(request: Request, name: str) -> list[str]:
    try:
        return WORDS.validate_python(request.query_params.getlist(name))
    except ValidationError as error:
        raise RequestValidationError([{**problem, "loc": ("query", name)} for problem in error.errors()]) from error
