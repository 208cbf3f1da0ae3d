"""Log lines: printable, one line each, and only what is useful to a person."""

import pytest
from hypothesis import given
from hypothesis import strategies as some

from backup_engine.events import (
    ArchiveProgress,
    Event,
    FileStatus,
    LogMessage,
    PlainLine,
    ProgressMessage,
    ProgressPercent,
    QuestionAnswer,
    QuestionPrompt,
    UnknownMessage,
)
from backup_engine.render import LONGEST_LINE, log_line


@pytest.mark.parametrize(
    ("event", "lines"),
    [
        (LogMessage("INFO", "borg", None, "Starting check"), ("Starting check",)),
        (LogMessage("WARNING", "borg", None, "careful"), ("WARNING: careful",)),
        (LogMessage("ERROR", "borg", None, "one\n\n  two\n"), ("ERROR: one", "ERROR:   two")),
        (LogMessage("INFO", "borg", None, ""), ()),
        (LogMessage("INFO", "borg.output.progress", None, "Saving cache"), ()),
        (FileStatus("A", "/a\nb"), ("A /a\\x0ab",)),
        (FileStatus("A", ""), ()),
        (QuestionPrompt("X", "Really?\nAnswer: "), ("Really?", "Answer:")),
        (QuestionAnswer("X", "Aborting."), ("Aborting.",)),
        (PlainLine("ssh: \x1b[31mno\x07"), ("ssh: \\x1b[31mno\\x07",)),
        (PlainLine("a\tb\x85c\u2028d\u202ee\udce9f"), ("a    b\\x85c\\u2028d\\u202ee\\xe9f",)),
        (ArchiveProgress(nfiles=1), ()),
        (ProgressMessage(message="Saving"), ()),
        (ProgressPercent(message="50%"), ()),
        (UnknownMessage("new"), ()),
    ],
)
def test_an_event_becomes_the_expected_lines(event: Event, lines: tuple[str, ...]) -> None:
    assert log_line(event) == lines


@given(some.text(some.characters(), max_size=200))
def test_every_line_is_printable_and_can_be_stored(text: str) -> None:
    for event in (PlainLine(text), LogMessage("ERROR", "x", None, text), FileStatus("A", text)):
        for line in log_line(event):
            assert line.encode("utf-8")
            assert len(line.splitlines()) == 1
            assert line.strip()


def test_a_very_long_line_is_cut() -> None:
    (line,) = log_line(PlainLine("x" * 10_000_000))

    assert len(line) <= LONGEST_LINE
