"""The error stream of a program that tells what it does in lines, on its way to whoever understands them."""

from pathlib import Path

from holdfast.operations.context import Hear
from holdfast.operations.logs import LogWriter
from holdfast.runner.plain import in_pieces

BLOCK = 1 << 20


class LineReader:
    """Follows one spooled stream. What it passes on depends on the stream alone, not on when it was read."""

    def __init__(self, path: Path, hear: Hear, writer: LogWriter) -> None:
        self._path = path
        self._hear = hear
        self._writer = writer
        self._offset = 0
        self._rest = b""

    def drain(self, *, to_the_end: bool = False) -> None:
        """Pass on all whole lines that the stream holds now; at the end, also a last one without its line end."""
        try:
            file = self._path.open("rb")
        except FileNotFoundError:
            return
        with file:
            file.seek(self._offset)
            while block := file.read(BLOCK):
                self._offset += len(block)
                *lines, self._rest = (self._rest + block).split(b"\n")
                self._pass_on(lines)
        if to_the_end and self._rest:
            last, self._rest = self._rest, b""
            self._pass_on([last])

    def _pass_on(self, lines: list[bytes]) -> None:
        self._writer.write([part for line in lines for text in self._hear(line) for part in _short(text)])


def _short(text: str) -> list[str]:
    pieces, rest = in_pieces(text.encode("utf-8", "replace"))
    return [piece.decode("utf-8", "replace") for piece in (*pieces, rest) if piece]
