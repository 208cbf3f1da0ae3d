"""Paths are bytes. A directory is kept with its trailing slash, so that path = directory + name, always."""

import re
import zlib

ROOT = b""
SHORTEST_SEARCHED = 3  # characters; the search index knows nothing shorter
_FEW_TRIGRAMS = 6
_UNDECODABLE = re.compile("[\udc80-\udcff]+")


def split_path(path: bytes) -> tuple[bytes, bytes]:
    """Given a path, return its directory (with slash; empty at the root) and its name."""
    if path == b"/":
        return ROOT, path
    cut = path.rfind(b"/") + 1
    return path[:cut], path[cut:]


def directory_of(path: bytes) -> bytes:
    """Given the path of a directory, return the directory as it is stored."""
    return path if path in (b"", b"/") else path + b"/"


def entry_of(directory: bytes) -> tuple[bytes, bytes]:
    """Given a stored directory other than the root, return where its own entry lives: parent directory and name."""
    return split_path(directory[:-1] or directory)


def key32(text: bytes) -> int:
    """A short key for look-ups by index; the text itself is always compared too."""
    return zlib.crc32(text) - 2**31


def folded(text: bytes) -> str:
    """The text that a case-insensitive comparison looks at; two different byte strings stay different where bytes are
    odd.
    """
    return text.decode("utf-8", "surrogateescape").casefold()


def rendered(text: bytes) -> str:
    """The text that goes into the search index: folded, odd bytes replaced. Matches are verified with `folded`."""
    return text.decode("utf-8", "replace").casefold()


def searchable_parts(needle: str) -> list[str]:
    """Given a folded search text, return its parts that the search index can know (what is between odd bytes)."""
    return [part for part in _UNDECODABLE.split(needle) if part]


def trigrams(parts: list[str], most: int = 24) -> list[str]:
    """Given parts of a search text, return trigrams of them, at most this many: enough to find candidates.

    Of more than a few only those are taken that lie side by side: the others find little less, and each costs a walk
    through a list of its own.
    """
    every = {part[start : start + 3]: None for part in parts for start in range(len(part) - 2)}
    if len(every) <= _FEW_TRIGRAMS:
        return list(every)
    beside = {part[start : start + 3]: None for part in parts for start in _side_by_side(len(part))}
    return list(beside)[:most]


def _side_by_side(length: int) -> list[int]:
    """Where trigrams begin that cover a text of this length."""
    return sorted({*range(0, length - 2, 3), length - 3}) if length >= SHORTEST_SEARCHED else []
