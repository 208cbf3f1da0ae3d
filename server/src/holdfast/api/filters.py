"""List filters that may be given several times, with or without brackets."""

from collections.abc import Awaitable, Callable
from typing import Annotated

from fastapi import Query

from holdfast.kit.fields import PlainText

Many = tuple[str, ...]
Word = Annotated[str, PlainText(1, 64)]


def many(name: str) -> Callable[..., Awaitable[Many]]:
    """A dependency that reads `name=a&name=b` and `name[]=a&name[]=b` alike."""

    async def read(
        plain: Annotated[list[Word] | None, Query(alias=name, max_length=50)] = None,
        bracketed: Annotated[list[Word] | None, Query(alias=f"{name}[]", max_length=50)] = None,
    ) -> Many:
        return tuple(dict.fromkeys([*(plain or []), *(bracketed or [])]))

    return read
