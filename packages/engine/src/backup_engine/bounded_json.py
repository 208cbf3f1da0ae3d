"""Parse JSON from outside, with a limit on the number of values: three bytes of JSON can take a hundred in memory."""

import json
from typing import Any

MOST_VALUES = 400_000
BYTES_OF_VALUE = 64


class TooManyValues(ValueError):
    """The document would take more memory than allowed. It was not parsed."""


def values(content: bytes) -> int:
    """An upper bound for the number of values in a document."""
    # Every value except the first follows one of these. Those inside strings count too, which errs on the safe side.
    return 1 + sum(map(content.count, (b",", b"[", b"{")))


def fits(content: bytes, most_values: int = MOST_VALUES) -> bool:
    """Whether `document` would accept the size of this content."""
    return values(content) <= most_values


def weight(content: bytes) -> int:
    """Approximate memory in bytes that the parsed document takes."""
    return len(content) + BYTES_OF_VALUE * values(content)


def document(content: bytes, most_values: int = MOST_VALUES) -> Any:
    """Parse a document. Raise ValueError if it is not JSON, TooManyValues if it would take too much memory."""
    if not fits(content, most_values):
        raise TooManyValues(f"more than {most_values} values")
    try:
        return json.loads(content.decode("utf-8", "surrogateescape"))
    except RecursionError as error:
        raise ValueError("nested too deep") from error
