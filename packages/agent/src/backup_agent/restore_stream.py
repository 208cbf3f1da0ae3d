"""Parse the service's stream for a restore frame by frame; `read` returns the tar stream inside it."""

import http.client
from typing import Protocol, TypeVar

from backup_engine import bounded_json
from backup_protocol import Malformed, read
from backup_protocol.frames import (
    DATA,
    END,
    HEAD,
    HERE,
    LARGEST_FRAME,
    LARGEST_MESSAGE,
    MOST_MESSAGE_VALUES,
    SURVEY,
    ReceiveEnd,
    ReceiveSurvey,
)

Message = TypeVar("Message", ReceiveSurvey, ReceiveEnd)


class LinkCut(Exception):
    """The stream ended without an end frame. Data received so far must not be used."""


class Stream(Protocol):
    def read(self, size: int, /) -> bytes: ...


class RestoreStream:
    """Reads the stream. `end` is set from the end frame and states how the engine ended."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._left = 0
        self.size = 0
        self.end: ReceiveEnd | None = None

    def survey(self) -> ReceiveSurvey | None:
        """Read the survey of the archive's listing, which comes first. None if the stream ends without one."""
        letter, size = self._next()
        if letter == END:
            return None
        if letter != SURVEY:
            raise LinkCut("the stream does not begin as it should")
        return self._message(ReceiveSurvey, size)

    def read(self, size: int) -> bytes:
        """The next bytes of the tar stream; empty at its end. Raise LinkCut."""
        while self._left == 0:
            if self.end is not None:
                return b""
            letter, self._left = self._next()
            if letter not in (DATA, END):
                raise LinkCut("the stream holds an unexpected frame")
        wanted = min(size, self._left)
        self._left -= wanted
        self.size += wanted
        return self._exactly(wanted)

    def _next(self) -> tuple[bytes, int]:
        """Letter and size of the next frame. An end frame is parsed immediately; its size is then 0."""
        letter, size = HERE, 0
        while letter == HERE:
            letter, size = HEAD.unpack(self._exactly(HEAD.size))
        if size > (LARGEST_FRAME if letter == DATA else LARGEST_MESSAGE):
            raise LinkCut("the stream holds a part that is too large")
        if letter == END:
            self.end, size = self._message(ReceiveEnd, size), 0
        return letter, size

    def _message(self, kind: type[Message], size: int) -> Message:
        try:
            return read(kind, bounded_json.document(self._exactly(size), MOST_MESSAGE_VALUES))
        except (Malformed, ValueError) as error:
            raise LinkCut("the stream holds an unreadable frame") from error

    def _exactly(self, size: int) -> bytes:
        parts: list[bytes] = []
        while size:
            try:
                block = self._stream.read(size)
            except (OSError, http.client.HTTPException, ValueError) as error:
                raise LinkCut(str(error) or type(error).__name__) from error
            if not block:
                raise LinkCut("the service ended the stream")
            parts.append(block)
            size -= len(block)
        return b"".join(parts)
