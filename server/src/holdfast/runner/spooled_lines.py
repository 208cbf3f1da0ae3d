"""Reads a spooled stream line by line while it grows."""

from abc import ABC, abstractmethod
from pathlib import Path

from holdfast.operations.logs import LogWriter

BLOCK = 1 << 20
PIECE = 8192


class SpooledLines(ABC):
    """Follows one spooled stream. The lines depend only on the stream, not on when it was read."""

    def __init__(self, path: Path, writer: LogWriter) -> None:
        self._path = path
        self._writer = writer
        self._offset = 0
        self._rest = b""

    def drain(self, *, to_the_end: bool = False) -> None:
        """Read everything in the stream so far; at its end, also a last line without a line end."""
        try:
            file = self._path.open("rb")
        except FileNotFoundError:
            return
        with file:
            file.seek(self._offset)
            while block := file.read(BLOCK):
                self._offset += len(block)
                *lines, rest = (self._rest + block).split(b"\n")
                self._rest = self._take(lines, rest)
        if to_the_end and self._rest:
            last, self._rest = self._rest, b""
            self._take_last(last)

    @abstractmethod
    def _take(self, lines: list[bytes], rest: bytes) -> bytes:
        """Handle complete lines, and return the part of the next line's beginning that is still to be handled."""

    @abstractmethod
    def _take_last(self, rest: bytes) -> None:
        """Handle a last line without a line end."""


def in_pieces(line: bytes, size: int = PIECE) -> tuple[list[bytes], bytes]:
    """Cut a line at fixed positions; return the full pieces and the rest, which is shorter than a piece."""
    whole = len(line) // size * size
    return [line[start : start + size] for start in range(0, whole, size)], line[whole:]
