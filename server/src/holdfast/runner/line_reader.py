"""Reads the standard error of a program line by line and passes each line to its parser."""

from pathlib import Path

from holdfast.operations.context import OnLine
from holdfast.operations.logs import LogWriter
from holdfast.runner.spooled_lines import SpooledLines, in_pieces

LONGEST_LINE = 1 << 20


class LineReader(SpooledLines):
    """Passes on complete lines, overlong ones in pieces, and writes the results to the log."""

    def __init__(self, path: Path, on_line: OnLine, writer: LogWriter) -> None:
        super().__init__(path, writer)
        self._on_line = on_line

    def _take(self, lines: list[bytes], rest: bytes) -> bytes:
        pieces, rest = in_pieces(rest, LONGEST_LINE)
        whole = (piece for line in lines for piece in _whole(line))
        self._writer.write(
            [part for line in (*whole, *pieces) for text in self._on_line(line) for part in _short(text)]
        )
        return rest

    def _take_last(self, rest: bytes) -> None:
        self._take([rest], b"")


def _whole(line: bytes) -> list[bytes]:
    pieces, rest = in_pieces(line, LONGEST_LINE)
    return [*pieces, rest]


def _short(text: str) -> list[str]:
    pieces, rest = in_pieces(text.encode("utf-8", "replace"))
    return [piece.decode("utf-8", "replace") for piece in (*pieces, rest) if piece]
