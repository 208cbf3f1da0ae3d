"""Every line of the engine's log becomes an event, whatever its bytes."""

import json
from typing import get_args

import pytest
from hypothesis import example, given, settings
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
from backup_engine.json_values import LARGEST_INTEGER
from backup_engine.outcome import Accumulator, conclude
from backup_engine.parse import READERS, parse_line
from backup_engine.render import UNPRINTABLE, log_line

ANY_JSON = some.recursive(
    some.none() | some.booleans() | some.integers() | some.floats() | some.text(),
    lambda inner: some.lists(inner, max_size=3) | some.dictionaries(some.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
KNOWN_KEYS = some.sampled_from(
    [
        *("operation", "msgid", "message", "finished", "time", "current", "total", "info", "status", "path", "name"),
        *("levelname", "original_size", "compressed_size", "deduplicated_size", "nfiles", "env_var"),
    ]
)


def parsed(document: object) -> Event:
    return parse_line(json.dumps(document).encode())


def is_encodable(text: str) -> bool:
    """Whether a text has no surrogates other than those that stand for bytes."""
    try:
        text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False
    return True


def unencodable_texts(event: Event) -> list[str]:
    values = [getattr(event, name) for name in event.__slots__]
    texts = [text for value in values for text in (value if isinstance(value, tuple) else (value,))]
    return [text for text in texts if isinstance(text, str) and not is_encodable(text)]


def unprintable_lines(event: Event) -> list[str]:
    """The log lines of an event that are empty or contain what a terminal or a store cannot show.

    The outcome of a run with this event is computed as well, to show that it raises no exception.
    """
    conclude(2, None, Accumulator().add_all([event]), cancel_requested=False)
    return [line for line in log_line(event) if not line.strip() or UNPRINTABLE.search(line)]


@given(some.binary())
@example(b"")
@example(b"{")
@example(b'{"type": "log_message"')
@example(b'{"type":"archive_progress","nfiles":' + b"9" * 5000 + b"}")
@example(b'{"type":"log_message","message":"\\ud800\\udce9"}')
@example(b"[" * 100_000)
@example(b'{"a":' * 100_000)
@example(b"\xff\xfe{\x00")
@example(b'\x00{"type":"file_status"}')
@settings(max_examples=300)
def test_any_bytes_become_an_event(raw: bytes) -> None:
    event = parse_line(raw)

    assert isinstance(event, get_args(Event))
    assert unencodable_texts(event) == []
    assert unprintable_lines(event) == []


@given(some.sampled_from(sorted(READERS)), some.dictionaries(KNOWN_KEYS, ANY_JSON, max_size=8))
@settings(max_examples=300)
def test_a_message_of_a_known_type_keeps_its_type_whatever_its_content(kind: str, content: dict[str, object]) -> None:
    event = parse_line(json.dumps({**content, "type": kind}).encode("utf-8", "surrogatepass"))

    assert not isinstance(event, UnknownMessage | PlainLine)
    assert unencodable_texts(event) == []
    assert unprintable_lines(event) == []


@given(ANY_JSON)
def test_json_objects_and_lists_are_never_shown_as_plain_text(document: object) -> None:
    event = parsed(document)

    if isinstance(document, dict | list):
        assert not isinstance(event, PlainLine)
        assert log_line(event) == () or isinstance(document, dict)
    else:
        assert isinstance(event, PlainLine)


@pytest.mark.parametrize(
    ("document", "event"),
    [
        (
            {"type": "archive_progress", "original_size": 5, "compressed_size": 4, "deduplicated_size": 3, "nfiles": 2},
            ArchiveProgress(5, 4, 3, 2),
        ),
        ({"type": "archive_progress", "time": 1.5, "finished": True}, ArchiveProgress(time=1.5, finished=True)),
        ({"type": "progress_message", "operation": 2, "msgid": "x"}, ProgressMessage(2, "x")),
        (
            {"type": "progress_percent", "current": 1, "total": 2, "info": ["a", None, "b"]},
            ProgressPercent(current=1, total=2, info=("a", "b")),
        ),
        ({"type": "progress_percent", "info": None}, ProgressPercent()),
        ({"type": "file_status", "status": "A", "path": "x"}, FileStatus("A", "x")),
        ({"type": "log_message", "levelname": "warning"}, LogMessage("WARNING", "", None, "")),
        ({"type": "log_message", "levelname": "LOUD", "msgid": ""}, LogMessage("INFO", "", None, "")),
        ({"type": "question_prompt", "msgid": "X", "message": "?"}, QuestionPrompt("X", "?")),
        ({"type": "question_accepted_true", "msgid": "X"}, QuestionAnswer("X", "", accepted=True)),
        ({"type": "question_invalid_answer"}, QuestionAnswer(None, "")),
        ({"type": "something_new", "secret": "x"}, UnknownMessage("something_new")),
        ({"no": "type"}, UnknownMessage("")),
        (["a", "list"], UnknownMessage("unreadable")),
    ],
)
def test_a_message_becomes_the_matching_event(document: object, event: Event) -> None:
    assert parsed(document) == event


@pytest.mark.parametrize("size", [-1, LARGEST_INTEGER + 1, 10**400, True, 1.5, "5", None, [], float("nan")])
def test_an_invalid_size_is_unknown(size: object) -> None:
    assert parsed({"type": "archive_progress", "nfiles": size}) == ArchiveProgress()


@pytest.mark.parametrize("time", [float("inf"), float("nan"), 10**400, "now", True])
def test_an_invalid_time_is_unknown(time: object) -> None:
    assert parsed({"type": "archive_progress", "time": time}) == ArchiveProgress()


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"ssh: no route\r\n", "ssh: no route"),
        (b"0 B O\r1 B O\r", "1 B O"),
        (b"caf\xe9", "caf\udce9"),
        (b"{not json}", "{not json}"),
        (b"", ""),
    ],
)
def test_text_that_is_not_json_is_kept_unchanged(raw: bytes, text: str) -> None:
    assert parse_line(raw) == PlainLine(text)


def test_a_truncated_message_is_not_shown_as_text() -> None:
    assert parse_line(b'{"type": "log_message", "mess') == UnknownMessage("unreadable")


def test_a_message_after_a_prompt_on_the_same_line_is_parsed() -> None:
    line = b'Enter passphrase: {"type": "log_message", "levelname": "ERROR", "message": "no"}'

    assert parse_line(line) == LogMessage("ERROR", "", None, "no")


def test_a_lone_surrogate_that_stands_for_a_byte_is_kept_and_any_other_is_replaced() -> None:
    event = parse_line(b'{"type":"file_status","status":"A","path":"caf\\udce9 \\ud800"}')

    assert event == FileStatus("A", "caf\udce9 \ufffd")
