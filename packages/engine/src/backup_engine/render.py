"""Render the log lines of an operation for people. The same event always gives the same lines."""

import re

from backup_engine.events import Event, FileStatus, LogMessage, PlainLine, QuestionAnswer, QuestionPrompt

UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters, line separators, changes of writing direction, and bytes that are not valid UTF-8."""
SHOWN_LEVELS = frozenset({"WARNING", "ERROR", "CRITICAL"})
LONGEST_LINE = 16_384


def log_line(event: Event) -> tuple[str, ...]:
    """The log lines of an event: none for progress and unknown events."""
    match event:
        case LogMessage(name="borg.output.progress"):
            return ()
        case LogMessage(level=level, message=message):
            prefix = f"{level}: " if level in SHOWN_LEVELS else ""
            return tuple(prefix + line for line in _lines(message))
        case FileStatus(status=status, path=path) if path:
            return (_printable(f"{status} {path}"),)
        case QuestionPrompt(message=message) | QuestionAnswer(message=message):
            return _lines(message)
        case PlainLine(text=text):
            return _lines(text)
        case _:
            return ()


def _lines(message: str) -> tuple[str, ...]:
    lines = message.replace("\r\n", "\n").split("\n")
    return tuple(_printable(line.rstrip()) for line in lines if line.strip())


def _printable(line: str) -> str:
    # Cut before and after escaping: escapes lengthen the line, and escaping each character of a long line takes a
    # second.
    return UNPRINTABLE.sub(_escaped, line[:LONGEST_LINE])[:LONGEST_LINE]


def _escaped(match: re.Match[str]) -> str:
    code = ord(match[0])
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code - 0xDC00:02x}"
    return {"\t": "    "}.get(match[0], f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}")
