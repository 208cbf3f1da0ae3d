"""Paging cursors: opaque to clients, and stable when archives come and go, as they name stored ids or names."""

import base64
import binascii
import json

from holdfast.history.errors import InvalidCursor

Part = int | str


def encode(kind: str, *parts: Part) -> str:
    return base64.urlsafe_b64encode(json.dumps([kind, *parts]).encode()).decode().rstrip("=")


def name_of(cursor: str, kind: str) -> bytes:
    """Given a cursor of this kind, return the last name of a page. Raise InvalidCursor."""
    try:
        return bytes.fromhex(str(decode(cursor, kind, str)[0]))
    except ValueError as error:
        raise InvalidCursor(cursor) from error


def decode(cursor: str, kind: str, *types: type) -> tuple[Part, ...]:
    """Given a cursor of this kind, return its parts. Raise InvalidCursor if it was not made by `encode`."""
    try:
        parts = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except (ValueError, binascii.Error, RecursionError) as error:
        raise InvalidCursor(cursor) from error
    if not isinstance(parts, list) or len(parts) != len(types) + 1 or parts[0] != kind:
        raise InvalidCursor(cursor)
    for part, wanted in zip(parts[1:], types, strict=True):
        if type(part) is not wanted or (isinstance(part, int) and not 0 <= part < 2**62):
            raise InvalidCursor(cursor)
    return tuple(parts[1:])
