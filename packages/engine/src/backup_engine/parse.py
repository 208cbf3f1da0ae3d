"""Parse the lines of an engine's log into events. Every line is accepted."""

import json
from collections.abc import Callable, Mapping

from backup_engine import json_values
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

UNREADABLE = "unreadable"
LEVELS = frozenset({"DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"})
MESSAGE_START = '{"type":'

Message = Mapping[str, object]


def parse_line(raw: bytes) -> Event:
    """Parse a line of standard error. Never raises, whatever the bytes."""
    text = raw.decode("utf-8", "surrogateescape").rstrip("\r\n")
    embedded = text.find(MESSAGE_START)
    if text.lstrip().startswith("{") or embedded < 0:
        return _event_of_text(text)
    # A prompt or progress line without a newline may precede a message on the same line; only the message matters.
    return _event_of_text(text[embedded:])


def _event_of_text(text: str) -> Event:
    stripped = text.strip()
    if not stripped.startswith(("{", "[")):
        return _plain(text)
    try:
        document = json.loads(stripped)
    except (ValueError, RecursionError):
        return UnknownMessage(UNREADABLE) if stripped.startswith('{"') else _plain(text)
    if not isinstance(document, dict):
        return UnknownMessage(UNREADABLE)
    kind = json_values.text(document.get("type"))
    reader = READERS.get(kind)
    return reader(document) if reader else UnknownMessage(kind[:100])


def _plain(text: str) -> PlainLine:
    # Of a line that was redrawn in place, keep only what a terminal would finally show.
    return PlainLine(json_values.valid(next((part for part in reversed(text.split("\r")) if part.strip()), "")))


def _archive_progress(message: Message) -> Event:
    return ArchiveProgress(
        original_size=json_values.integer(message.get("original_size")),
        compressed_size=json_values.integer(message.get("compressed_size")),
        deduplicated_size=json_values.integer(message.get("deduplicated_size")),
        nfiles=json_values.integer(message.get("nfiles")),
        path=json_values.text_or_none(message.get("path")),
        time=json_values.number(message.get("time")),
        finished=message.get("finished") is True,
    )


def _progress_message(message: Message) -> Event:
    return ProgressMessage(*_step(message))


def _progress_percent(message: Message) -> Event:
    info = message.get("info")
    return ProgressPercent(
        *_step(message),
        current=json_values.integer(message.get("current")),
        total=json_values.integer(message.get("total")),
        info=tuple(json_values.valid(item) for item in info if isinstance(item, str)) if isinstance(info, list) else (),
    )


def _step(message: Message) -> tuple[int | None, str | None, str, float | None, bool]:
    """The fields of `StepProgress`, in order."""
    return (
        json_values.integer(message.get("operation")),
        json_values.text_or_none(message.get("msgid")),
        json_values.text(message.get("message")),
        json_values.number(message.get("time")),
        message.get("finished") is True,
    )


def _file_status(message: Message) -> Event:
    return FileStatus(status=json_values.text(message.get("status")), path=json_values.text(message.get("path")))


def _log_message(message: Message) -> Event:
    level = json_values.text(message.get("levelname")).upper()
    return LogMessage(
        level=level if level in LEVELS else "INFO",
        name=json_values.text(message.get("name")),
        msgid=json_values.text_or_none(message.get("msgid")),
        message=json_values.text(message.get("message")),
        time=json_values.number(message.get("time")),
    )


def _question_prompt(message: Message) -> Event:
    return QuestionPrompt(
        msgid=json_values.text_or_none(message.get("msgid")), message=json_values.text(message.get("message"))
    )


def _answer(accepted: bool | None) -> Callable[[Message], Event]:
    def read(message: Message) -> Event:
        return QuestionAnswer(
            json_values.text_or_none(message.get("msgid")), json_values.text(message.get("message")), accepted
        )

    return read


READERS: Mapping[str, Callable[[Message], Event]] = {
    "archive_progress": _archive_progress,
    "progress_message": _progress_message,
    "progress_percent": _progress_percent,
    "file_status": _file_status,
    "log_message": _log_message,
    "question_prompt": _question_prompt,
    "question_prompt_retry": _question_prompt,
    "question_invalid_answer": _answer(None),
    "question_accepted_default": _answer(None),
    "question_accepted_true": _answer(True),
    "question_accepted_false": _answer(False),
    "question_env_answer": _answer(None),
}
