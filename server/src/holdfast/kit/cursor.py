"""Opaque paging cursors."""

import base64
import binascii
import json
import math

from holdfast.errors import Unprocessable

Key = int | float | str


def encode(*key: Key) -> str:
    return base64.urlsafe_b64encode(json.dumps(key).encode()).decode().rstrip("=")


def decode(cursor: str, *types: type) -> tuple[Key, ...]:
    """Given a cursor and the types of its parts, return the parts. Raise Unprocessable if the cursor is not valid."""
    try:
        key = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except (ValueError, binascii.Error, RecursionError) as error:
        raise bad_cursor() from error
    if not isinstance(key, list) or len(key) != len(types):
        raise bad_cursor()
    if any(type(part) is not wanted for part, wanted in zip(key, types, strict=True)):
        raise bad_cursor()
    if any(isinstance(part, int) and abs(part) >= 2**63 for part in key):
        raise bad_cursor()
    if any(isinstance(part, float) and not math.isfinite(part) for part in key):
        raise bad_cursor()
    return tuple(key)


def bad_cursor() -> Unprocessable:
    return Unprocessable("paging.bad_cursor", "The cursor was not issued by this route.")
