"""The output of a program that is not an engine, on its way into the log."""

from collections.abc import Iterator
from pathlib import Path

from holdfast.operations.logs import LogWriter
from holdfast.operations.stream_lines import Stream, log_text

BLOCK = 1 << 20
PIECE = 8192


class PlainReader:
    """Follows one spooled stream. The lines it gives depend on the stream alone, not on when it was read."""

    def __init__(self, path: Path, stream: Stream, writer: LogWriter) -> None:
        self._path = path
        self._stream = stream
        self._writer = writer
        self._offset = 0
        self._rest = b""

    def drain(self, *, to_the_end: bool = False) -> None:
        """Read all that the stream holds now; at the end, also a last line without its line end."""
        try:
            file = self._path.open("rb")
        except FileNotFoundError:
            return
        with file:
            file.seek(self._offset)
            while block := file.read(BLOCK):
                self._offset += len(block)
                *lines, rest = (self._rest + block).split(b"\n")
                texts = [text for line in lines for text in self._texts(line)]
                pieces, self._rest = in_pieces(rest)
                self._writer.write([*texts, *(log_text(self._stream, piece, ended=False) for piece in pieces)])
        if to_the_end and self._rest:
            self._writer.write([log_text(self._stream, self._rest, ended=False)])
            self._rest = b""

    def _texts(self, line: bytes) -> Iterator[str]:
        pieces, rest = in_pieces(line)
        for piece in pieces:
            yield log_text(self._stream, piece, ended=False)
        yield log_text(self._stream, rest, ended=True)


def in_pieces(line: bytes) -> tuple[list[bytes], bytes]:
    """Cut a line at fixed places; return the whole pieces and the rest, which is shorter than one."""
    whole = len(line) // PIECE * PIECE
    return [line[start : start + PIECE] for start in range(0, whole, PIECE)], line[whole:]
