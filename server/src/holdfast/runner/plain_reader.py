"""Copies the output of a program that is not an engine into the log."""

from collections.abc import Iterator
from pathlib import Path

from holdfast.operations.logs import LogWriter
from holdfast.operations.two_stream_log import Stream, log_text
from holdfast.runner.spooled_lines import SpooledLines, in_pieces


class PlainReader(SpooledLines):
    """Logs every line unchanged. A line longer than a piece is cut, and logged before its end has arrived."""

    def __init__(self, path: Path, stream: Stream, writer: LogWriter) -> None:
        super().__init__(path, writer)
        self._stream = stream

    def _take(self, lines: list[bytes], rest: bytes) -> bytes:
        texts = [text for line in lines for text in self._texts(line)]
        pieces, rest = in_pieces(rest)
        self._writer.write([*texts, *(log_text(self._stream, piece, ended=False) for piece in pieces)])
        return rest

    def _take_last(self, rest: bytes) -> None:
        self._writer.write([log_text(self._stream, rest, ended=False)])

    def _texts(self, line: bytes) -> Iterator[str]:
        pieces, rest = in_pieces(line)
        for piece in pieces:
            yield log_text(self._stream, piece, ended=False)
        yield log_text(self._stream, rest, ended=True)
