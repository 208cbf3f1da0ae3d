"""The error stream of a program that tells what it does in lines, on its way to whoever understands them."""

from pathlib import Path

from holdfast.operations.context import Hear
from holdfast.operations.logs import LogWriter
from holdfast.runner.spooled_lines import SpooledLines, in_pieces


class LineReader(SpooledLines):
    """Passes on whole lines, and writes what is made of them."""

    def __init__(self, path: Path, hear: Hear, writer: LogWriter) -> None:
        super().__init__(path)
        self._hear = hear
        self._writer = writer

    def _take(self, lines: list[bytes], rest: bytes) -> bytes:
        self._writer.write([part for line in lines for text in self._hear(line) for part in _short(text)])
        return rest

    def _take_last(self, rest: bytes) -> None:
        self._take([rest], b"")


def _short(text: str) -> list[str]:
    pieces, rest = in_pieces(text.encode("utf-8", "replace"))
    return [piece.decode("utf-8", "replace") for piece in (*pieces, rest) if piece]
