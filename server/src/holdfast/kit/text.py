"""Text as any store can hold it, and as people can read it."""

import re

LONGEST_SHOWN = 200
# Line breaks of every kind, terminal controls, characters that change the writing direction, and halves of characters.
UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def storable(text: str, max_length: int | None = None) -> str:
    """The text without what a store cannot hold (NUL, lone surrogates), cut to a length."""
    cleaned = text.replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode()
    return cleaned if max_length is None else cleaned[:max_length]


def printable(text: str, max_length: int = LONGEST_SHOWN) -> str:
    """A name from outside as it may stand in a message or a label: on one line, readable, and cut to a length."""
    return UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", text[:max_length])
