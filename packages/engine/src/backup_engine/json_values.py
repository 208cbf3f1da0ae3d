"""Read values from an engine's JSON, in which no value can be trusted to have the right type."""

import math
import re

LARGEST_INTEGER = 2**63 - 1
OTHER_SURROGATE = re.compile("[\ud800-\udc7f\udd00-\udfff]")


def valid(text: str) -> str:
    return OTHER_SURROGATE.sub("\ufffd", text)


def text(value: object) -> str:
    return valid(value) if isinstance(value, str) else ""


def text_or_none(value: object) -> str | None:
    return text(value) or None


def integer(value: object) -> int | None:
    """Parse a size or count; a negative or absurdly large number counts as missing."""
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if 0 <= value <= LARGEST_INTEGER else None


def number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None
