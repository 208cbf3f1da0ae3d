"""Conditions in the headers of a file request: a byte range, or no content if the client already has it."""

import re

from starlette.requests import Request

from backup_engine.frozen import frozen
from holdfast.errors import RangeNotSatisfiable

SINGLE = re.compile(r"bytes=(\d{0,19})-(\d{0,19})", re.ASCII)


@frozen
class RequestConditions:
    range: str | None = None
    if_range: str | None = None
    if_none_match: str | None = None

    @staticmethod
    def by(request: Request) -> "RequestConditions":
        given = request.headers
        return RequestConditions(given.get("Range"), given.get("If-Range"), given.get("If-None-Match"))

    def is_known(self, etag: str) -> bool:
        """Whether the client states that it already has this content."""
        if self.if_none_match is None:
            return False
        tags = {tag.strip().removeprefix("W/") for tag in self.if_none_match.split(",")}
        return "*" in tags or etag in tags

    def part(self, size: int, etag: str) -> tuple[int, int] | None:
        """The first byte requested and the one after the last; None for the whole file. Raise RangeNotSatisfiable.

        Unsupported forms, including multiple ranges, select the whole file. So does a file that has changed since the
        client received its first part.
        """
        match = SINGLE.fullmatch(self.range.replace(" ", "")) if self.range else None
        if match is None or match.groups() == ("", "") or self.if_range not in (None, etag):
            return None
        first, last = (int(text) if text else None for text in match.groups())
        if first is None:
            start, end = max(size - (last or 0), 0), size
        else:
            start, end = first, size if last is None else min(last + 1, size)
            if last is not None and last < first:
                return None
        if start >= end:
            raise RangeNotSatisfiable("restore.range_outside", f"The file has {size} bytes.", size=size)
        return start, end
