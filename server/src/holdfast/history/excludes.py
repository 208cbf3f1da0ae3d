"""Glob patterns for files that file history leaves out, with the same meaning in both routes."""

import fnmatch
import hashlib
import re
from collections.abc import Iterable


class Excludes:
    """Decides which paths are left out.

    A pattern is matched from the start of the path. `*` and `?` match any character, including a slash, as in the
    engine's default style. A pattern that matches a directory leaves out everything in it.
    """

    def __init__(self, patterns: Iterable[str | bytes] = ()) -> None:
        self._patterns = sorted({_as_bytes(pattern).strip(b"/") for pattern in patterns} - {b""})
        joined = "|".join(_translated(pattern) for pattern in self._patterns)
        self._regex = re.compile(joined.encode("latin-1"), re.DOTALL) if joined else None

    def __bool__(self) -> bool:
        return self._regex is not None

    def match(self, path: bytes) -> bool:
        return self._regex is not None and self._regex.match(path.lstrip(b"/")) is not None

    @property
    def fingerprint(self) -> bytes:
        """Equal for equal sets of patterns."""
        return hashlib.blake2b(b"\0".join(self._patterns), digest_size=8).digest()


def _as_bytes(pattern: str | bytes) -> bytes:
    return pattern if isinstance(pattern, bytes) else pattern.encode("utf-8", "surrogateescape")


def _translated(pattern: bytes) -> str:
    # latin-1 maps every byte to one character, so that bytes can pass through the text-only translation
    text = fnmatch.translate(pattern.decode("latin-1"))
    unanchored = text.removesuffix(r"\Z").removesuffix(r"\z")
    return f"(?:{unanchored}(?:/|\\Z))"
