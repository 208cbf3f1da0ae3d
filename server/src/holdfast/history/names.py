"""Paths are bytes. A directory is stored with its trailing slash, so that always path = directory + name."""

import re
import zlib

ROOT = b""
SHORTEST_SEARCHED = 3  # characters; the search index contains nothing shorter
_FEW_TRIGRAMS = 6
_UNDECODABLE = re.compile("[\udc80-\udcff]+")


def split_path(path: bytes) -> tuple[bytes, bytes]:
    """Given a path, return its directory (with slash; empty at the root) and its name."""
    if path == b"/":
        return ROOT, path
    cut = path.rfind(b"/") + 1
    return path[:cut], path[cut:]


def directory_of(path: bytes) -> bytes:
    """Given the path of a directory, return its stored form."""
    return path if path in (b"", b"/") else path + b"/"


def entry_of(directory: bytes) -> tuple[bytes, bytes]:
    """Given a stored directory other than the root, return its own entry's place: parent directory and name."""
    return split_path(directory[:-1] or directory)


def key32(text: bytes) -> int:
    """Return a short key for look-ups by index; the text itself is always compared too."""
    return zlib.crc32(text) - 2**31


def folded(text: bytes) -> str:
    """Return the text for case-insensitive comparisons. Undecodable bytes are kept, so strings that differ in them stay
    different.
    """
    return text.decode("utf-8", "surrogateescape").casefold()


def rendered(text: bytes) -> str:
    """Return the text for the search index: folded, undecodable bytes replaced. Matches are verified with `folded`."""
    return text.decode("utf-8", "replace").casefold()


def searchable_parts(needle: str) -> list[str]:
    """Given a folded search text, return the parts that can be in the search index: those between undecodable bytes."""
    return [part for part in _UNDECODABLE.split(needle) if part]


def trigrams(parts: list[str], most: int = 24) -> list[str]:
    """Given parts of a search text, return at most this many of their trigrams: enough to find candidates.

    If there are many, only adjacent trigrams are taken, without the overlapping ones: these would narrow the result
    only a little, and each costs a walk through a separate list.
    """
    every = {part[start : start + 3]: None for part in parts for start in range(len(part) - 2)}
    if len(every) <= _FEW_TRIGRAMS:
        return list(every)
    beside = {part[start : start + 3]: None for part in parts for start in _side_by_side(len(part))}
    return list(beside)[:most]


def _side_by_side(length: int) -> list[int]:
    """Return where trigrams begin that together cover a text of this length."""
    return sorted({*range(0, length - 2, 3), length - 3}) if length >= SHORTEST_SEARCHED else []
