"""The two streams of a program in one log, and back again, byte for byte.

A log line consists of the stream's name, a sign, a space and the text. The sign is `|` if the program ended the line
there, and `~` if it did not (an unfinished last line, or a piece of a line too long for the log). Backslashes and all
bytes that are not printable text are escaped.
"""

import re
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path

ENDED, UNENDED = "|", "~"
ESCAPE = re.compile(rb"\\(\\|t|x[0-9a-f]{2})")
BLOCK_BYTES = 1 << 20


class Stream(StrEnum):
    OUTPUT = "out"
    ERRORS = "err"


def log_text(stream: Stream, content: bytes, *, ended: bool) -> str:
    """Given a line of a stream without its line end, or a piece of one, return the line for the log."""
    text = content.decode("utf-8", "surrogateescape")
    return f"{stream}{ENDED if ended else UNENDED} {''.join(map(_escaped, text))}"


def stream_bytes(stream: Stream, line: bytes) -> bytes | None:
    """Given a line of a log, return the bytes of the stream in it; None if it belongs to another stream."""
    for sign, end in ((ENDED, b"\n"), (UNENDED, b"")):
        mark = f"{stream}{sign} ".encode()
        if line.startswith(mark):
            return ESCAPE.sub(_unescaped, line[len(mark) :]) + end
    return None


def read_back(log: Path, stream: Stream, most_bytes: int) -> tuple[bytes, bool]:
    """Return the last bytes of a stream from its log, and whether that is all of it."""
    kept = b""
    whole = True
    for line in _lines(log):
        part = stream_bytes(stream, line)
        if part is None:
            continue
        kept += part
        if len(kept) > 2 * most_bytes:
            kept, whole = kept[-most_bytes:], False
    return kept[-most_bytes:], whole and len(kept) <= most_bytes


def _lines(log: Path) -> Iterator[bytes]:
    rest = b""
    try:
        file = log.open("rb")
    except FileNotFoundError:
        return
    with file:
        while block := file.read(BLOCK_BYTES):
            *lines, rest = (rest + block).split(b"\n")
            yield from lines


def _escaped(character: str) -> str:
    if character == "\\":
        return "\\\\"
    if character == "\t":
        return "\\t"
    if character.isprintable():
        return character
    return "".join(f"\\x{byte:02x}" for byte in character.encode("utf-8", "surrogateescape"))


def _unescaped(match: re.Match[bytes]) -> bytes:
    what = match[1]
    if what == b"\\":
        return b"\\"
    return b"\t" if what == b"t" else bytes([int(what[1:], 16)])
