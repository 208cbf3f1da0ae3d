"""JSON from outside, limited in the number of values. Three bytes of JSON can become a hundred in memory."""

import json
from typing import Any

MOST_VALUES = 400_000
BYTES_OF_VALUE = 64


class TooManyValues(ValueError):
    """The document would take more memory than its reader may use. It was not read."""


def values(content: bytes) -> int:
    """An upper bound of the number of values in a document."""
    # Each value but the first follows one of these. Those within strings are counted too, which errs on the safe side.
    return 1 + sum(map(content.count, (b",", b"[", b"{")))


def fits(content: bytes, most_values: int = MOST_VALUES) -> bool:
    """Whether `document` would accept it, as far as its size goes."""
    return values(content) <= most_values


def weight(content: bytes) -> int:
    """About how many bytes of memory a document takes once it is read."""
    return len(content) + BYTES_OF_VALUE * values(content)


def document(content: bytes, most_values: int = MOST_VALUES) -> Any:
    """The value of a document. Raise ValueError if it is not JSON, TooManyValues if it takes too much memory."""
    if not fits(content, most_values):
        raise TooManyValues(f"more than {most_values} values")
    try:
        return json.loads(content.decode("utf-8", "surrogateescape"))
    except RecursionError as error:
        raise ValueError("nested too deep") from error
