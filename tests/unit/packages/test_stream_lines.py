"""Both streams of a program are written to one log and read back from it."""

from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from holdfast.operations.logs import LogWriter
from holdfast.operations.two_stream_log import Stream, log_text, read_back
from holdfast.runner import spooled_lines
from holdfast.runner.plain_reader import PlainReader

LARGE = 1 << 30
BYTES = st.binary(max_size=400) | st.text(max_size=100).map(str.encode) | st.from_regex(rb"(out\| |err~ |\\x0|\n|\t)*")


def logged(folder: Path, output: bytes, errors: bytes, cuts: list[int]) -> Path:
    """Write the streams to a log like a follower that reads whenever more has arrived."""
    log, out, err = folder / "a.log", folder / "out", folder / "err"
    writer = LogWriter(log, 0)
    writer.write(["$ a command"])
    reader = PlainReader(out, Stream.OUTPUT, writer)
    for cut in sorted({*cuts, len(output)}):
        out.write_bytes(output[:cut])
        reader.drain()
    reader.drain(to_the_end=True)
    err.write_bytes(errors)
    PlainReader(err, Stream.ERRORS, writer).drain(to_the_end=True)
    writer.close()
    return log


@given(output=BYTES, errors=BYTES, cuts=st.lists(st.integers(0, 400), max_size=8), piece=st.integers(1, 50))
@example(output=b"x" * 10, errors=b"x" * 10 + b"\n", cuts=[5], piece=5)
@example(output="ä\\ \t\r\0\N{LINE SEPARATOR}".encode() + b"\xff\n\n", errors=b"", cuts=[1], piece=8192)
def test_every_byte_of_both_streams_is_recovered_regardless_of_how_they_were_read(
    tmp_path_factory: pytest.TempPathFactory, output: bytes, errors: bytes, cuts: list[int], piece: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spooled_lines, "PIECE", piece)
        log = logged(tmp_path_factory.mktemp("log"), output, errors, [cut for cut in cuts if cut <= len(output)])
        at_once = logged(tmp_path_factory.mktemp("log"), output, errors, [])

    assert read_back(log, Stream.OUTPUT, LARGE) == (output, True)
    assert read_back(log, Stream.ERRORS, LARGE) == (errors, True)
    assert log.read_bytes() == at_once.read_bytes(), "the log does not depend on when the stream was read"


def test_a_line_is_readable_in_the_log() -> None:
    assert log_text(Stream.OUTPUT, "Grüße, 3 % done".encode(), ended=True) == "out| Grüße, 3 % done"
    assert log_text(Stream.ERRORS, b"a\\b\x1b[0m\xff", ended=False) == "err~ a\\\\b\\x1b[0m\\xff"


def test_only_the_end_of_a_long_stream_is_returned_and_marked_as_incomplete(tmp_path: Path) -> None:
    log = logged(tmp_path, b"".join(b"line %d\n" % number for number in range(1000)), b"short\n", [])

    end, whole = read_back(log, Stream.OUTPUT, 100)

    assert not whole
    assert len(end) == 100
    assert end.endswith(b"line 998\nline 999\n")
    assert read_back(log, Stream.ERRORS, 6) == (b"short\n", True)


def test_without_a_log_both_streams_are_empty(tmp_path: Path) -> None:
    assert read_back(tmp_path / "none.log", Stream.OUTPUT, 100) == (b"", True)
