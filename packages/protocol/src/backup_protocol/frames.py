"""Frames with an explicit end, so that a complete stream is never guessed: for calls, and for restores that an agent
receives.

The stream of a restore begins with a survey; then come the engine's tar stream in pieces, and the end. Between them may
be frames that only show that the sender is alive. A stream without an end was cut, however the connection closed.
"""

import struct
from typing import Any

from backup_engine.frozen import frozen

HEAD = struct.Struct(">cQ")
SURVEY, DATA, END, HERE = b"s", b"d", b"x", b"h"
LARGEST_FRAME = 16 * 1024 * 1024
LARGEST_MESSAGE = 8 * 1024 * 1024
"""Bytes of a survey or an end, which are read whole."""
MOST_MESSAGE_VALUES = 200_000
"""JSON values of a survey or an end."""


@frozen
class ReceiveSurvey:
    """Facts from the archive's listing. `links` are archived links that other archived paths lead through, as `{path,
    path_b64?}`: the stream does not hold them. `listed` has every item as `{path, path_b64?, type, size, hard_link?}`,
    so that the receiver can name missing items; it is empty where the list would be too long.
    """

    files: int
    size: int
    special: int = 0
    links: tuple[dict[str, Any], ...] = ()
    listed: tuple[dict[str, Any], ...] = ()


@frozen
class ReceiveEnd:
    """How the engine ended. The stream was complete only with `completed` or `completed_with_warnings`."""

    status: str
    error_key: str | None = None
    message: str | None = None
    warnings: tuple[dict[str, Any], ...] = ()

    @property
    def is_good(self) -> bool:
        return self.status in ("completed", "completed_with_warnings")


def frame(letter: bytes, content: bytes) -> bytes:
    return HEAD.pack(letter, len(content)) + content
