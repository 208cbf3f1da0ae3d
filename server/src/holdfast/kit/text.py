"""Clean text so that any store can hold it and people can read it."""

import re

LONGEST_SHOWN = 200
# Line breaks of every kind, terminal controls, characters that change the writing direction, and lone surrogates.
UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def storable(text: str, max_length: int | None = None) -> str:
    """Replace what a store cannot hold (NUL, lone surrogates), and cut the text to a length."""
    cleaned = text.replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode()
    return cleaned if max_length is None else cleaned[:max_length]


def printable(text: str, max_length: int = LONGEST_SHOWN) -> str:
    """Make an external name safe for a message or label: one line, readable, and cut to a length."""
    return UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", text[:max_length])
