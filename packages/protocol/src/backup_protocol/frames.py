"""Frames with an explicit end, which prove that a stream is complete. Used for calls and for restores that an agent
receives.

The stream of a restore begins with a survey, followed by the engine's tar stream in pieces and an end frame. Frames in
between may only show that the sender is alive. A stream without an end frame was cut, however the connection closed.
"""

import struct
from typing import Any

from backup_engine.frozen import frozen

HEAD = struct.Struct(">cQ")
SURVEY, DATA, END, HERE = b"s", b"d", b"x", b"h"
LARGEST_FRAME = 16 * 1024 * 1024
LARGEST_MESSAGE = 8 * 1024 * 1024
"""Largest size of a survey or an end frame in bytes; both are read into memory whole."""
MOST_MESSAGE_VALUES = 200_000
"""Maximum number of JSON values in a survey or an end frame."""


@frozen
class ReceiveSurvey:
    """Facts from the archive's listing.

    `links` are archived links that lead to other archived paths, as `{path, path_b64?}`; the stream does not contain
    them. `listed` contains every item as `{path, path_b64?, type, size, hard_link?}`, so that the receiver can name
    missing items. It is empty if the list would be too long.
    """

    files: int
    size: int
    special: int = 0
    links: tuple[dict[str, Any], ...] = ()
    listed: tuple[dict[str, Any], ...] = ()


@frozen
class ReceiveEnd:
    """How the engine ended. The stream is complete only if `status` is `completed` or `completed_with_warnings`."""

    status: str
    error_key: str | None = None
    message: str | None = None
    warnings: tuple[dict[str, Any], ...] = ()

    @property
    def is_good(self) -> bool:
        return self.status in ("completed", "completed_with_warnings")


def frame(letter: bytes, content: bytes) -> bytes:
    return HEAD.pack(letter, len(content)) + content
