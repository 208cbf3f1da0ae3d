"""The outcome of a run for users: a status, a key, and a sentence that explains what to do."""

import posixpath
import re
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from typing import Literal

from backup_engine import repository_guard
from backup_engine.causes import (
    ARCHIVE_MISSING,
    DAMAGE_FOUND,
    DAMAGE_LEFT,
    FAILED,
    KEY_BY_EXIT_CODE,
    KEY_BY_GENERAL_MESSAGE_ID,
    KEY_BY_MESSAGE_ID,
    KEY_BY_TEXT,
    LOCKED,
    PUBLISHED_AS,
    SENTENCES,
    TOO_MUCH_OUTPUT,
    UNREACHABLE,
    Source,
)
from backup_engine.events import ArchiveProgress, Event, LogMessage, PlainLine, ProgressPercent
from backup_engine.frozen import frozen
from backup_engine.rclone import OTHER
from backup_engine.render import log_line

Status = Literal["completed", "completed_with_warnings", "failed", "cancelled", "interrupted"]

MOST_WARNINGS = 1000
MOST_ERRORS = 100
MOST_MISSING_PATHS = 10_000
LAST_LINES = 20
LONGEST_MESSAGE = 4000
LONGEST_SENTENCE = 500

HIGHEST_SIGNAL = 64
SIGNAL_BASE = 128
WARNING_CODES = range(100, 128)
COMMAND_NOT_RUN = frozenset({126, 127})

INTERRUPTED_KEY = "operations.interrupted"
INTERRUPTED_SENTENCE = "The engine was terminated from outside before it finished; start the operation again."
CANCELLED_SENTENCE = "Stopped on request."

STOPPED_BY_SIGNAL = re.compile(r"Got Ctrl-C / SIGINT\.$|^borg\.helpers\.(?:\w+\.)?Sig(?:Term|Hup)$", re.MULTILINE)
"""The engine's own message about a signal. If the signal arrives during its self-test, it reports a failed test."""
TRACEBACK = "Traceback (most recent call last):"
"""Output outside the engine's log: it broke before it could log. Python then exits with 1, which is the engine's code
for a warning.
"""
OF_AN_AGENT = ("The agent ", "The link to the agent ")
"""Beginnings of messages in which the near side of a call reports that an agent, not an ssh host, is unreachable."""
CAUSED_BY_STOPPING = frozenset({FAILED, UNREACHABLE, OTHER.key})
"""Failures that the stop itself can cause: the engine's children receive the signal too."""
REPORTED_AS_A_WARNING = frozenset({DAMAGE_FOUND, DAMAGE_LEFT, ARCHIVE_MISSING})
"""Results that count as failures here, although the engine exits with the code for a warning or even success."""
REPAIRED_SENTENCE = "The check found damage and repaired it; its log lists the files that lost content."
FINISHED_WITH_ERRORS_SENTENCE = "The engine finished but reported errors; check its log."

ENGINE_CALL = (
    r"(?:attrs|dir_open|extended stat \(\w+\)|flags|fstat2?|link|makedirs|open|read|readlink|scandir|stat"
    r"|truncate_and_attrs|write)"
)
"""The engine's operation on a path. A closed list, because a path may itself contain a colon."""
WARNING_WITH_PATH = (
    re.compile(rf"(?P<path>.+?): (?:{ENGINE_CALL}: )?\[Errno (?P<errno>\d+)\] .*", re.DOTALL),
    re.compile(r"(?P<path>.+): file changed while we backed it up", re.DOTALL),
)
NO_SUCH_FILE = "2"
REPORTED_HOLDER = re.compile(
    r"The lock is held by process (?P<pid>\d{1,10}) of (?P<host>.+?)(?: since (?P<since>\S+))?\."
)
REMOTE_LINE = "Remote: "
LAST_LINE_OF_TRACEBACK = re.compile(r"^(?P<error>\w[\w.]*: .+)$", re.MULTILINE)
SYSTEM_INFORMATION = "\n\nPlatform: "
ERROR_OF_MAJOR_2, REPORT_OF_MAJOR_2 = "Error:\n", "If reporting bugs, please include the following:"
"""Text around an unexpected exception; the traceback comes after it."""


@frozen
class Warning:  # noqa: A001 -- the product's word; never raised
    """A problem with one path, or a general one."""

    path: str | None
    message: str
    msgid: str | None


@frozen
class LockHolder:
    host: str
    pid: int
    since: str | None


@frozen
class Outcome:
    """``warnings`` contains the first thousand of ``warning_count``. ``reason`` is the error key, or a more specific
    one.
    """

    status: Status
    error_key: str | None
    message: str | None
    warnings: tuple[Warning, ...] = ()
    warning_count: int = 0
    reason: str | None = None
    lock_holders: tuple[LockHolder, ...] = ()
    """Processes that hold the repository's locks, if they are known and caused the failure."""


@dataclass(slots=True)
class Accumulator:
    """Collects facts from a run's events that decide how it ended. Its size is bounded, however long the run."""

    warnings: list[Warning] = field(default_factory=list)
    warning_count: int = 0
    errors: list[LogMessage] = field(default_factory=list)
    error_count: int = 0
    last_progress: ArchiveProgress | None = None
    last_percent: ProgressPercent | None = None
    stopped_by_signal: bool = False
    broke: bool = False
    lock_holders: list[LockHolder] = field(default_factory=list)
    _key_of_message_id: str | None = None
    _key_of_general_message_id: str | None = None
    _keys_of_text: set[str] = field(default_factory=set)
    _remote_lines: deque[str] = field(default_factory=lambda: deque(maxlen=LAST_LINES))
    _missing_paths: set[str] = field(default_factory=set)

    def add(self, event: Event) -> None:
        match event:
            case LogMessage(name="borg.output.progress"):
                pass
            case LogMessage(msgid=repository_guard.LOCK_HOLDER, message=message):
                self._add_lock_holder(message)
            case LogMessage(level="ERROR" | "CRITICAL"):
                self._add_error(event)
            case LogMessage(level="WARNING", message=message) if message.startswith(REMOTE_LINE):
                self._add_remote_line(message.removeprefix(REMOTE_LINE))
            case LogMessage(level="WARNING", message=message) if message.strip():
                self._add_warning(event)
            case ArchiveProgress(finished=False):
                self.last_progress = event
            case ProgressPercent(finished=False):
                self.last_percent = event
            case PlainLine(text=text) if text.strip():
                self._add_remote_line(text)
            case _:
                pass

    def add_all(self, events: Iterable[Event]) -> "Accumulator":
        for event in events:
            self.add(event)
        return self

    def missing_sources(self, source_paths: Iterable[str]) -> tuple[str, ...]:
        """The source paths that the engine reported as missing."""
        return tuple(path for path in source_paths if _normal(path) in self._missing_paths)

    def all_sources_missing(self, source_paths: Sequence[str]) -> bool:
        """Whether the backup had nothing to read; the engine then creates an empty archive and only warns."""
        return bool(source_paths) and len(self.missing_sources(source_paths)) == len(source_paths)

    @property
    def key(self) -> str | None:
        """The reason given in the engine's messages, the most specific one first."""
        by_text = (key for _, _, key in KEY_BY_TEXT if key in self._keys_of_text)
        return self._key_of_message_id or next(by_text, None) or self._key_of_general_message_id

    @property
    def last_remote_line(self) -> str | None:
        """The last line outside the engine's own log: from ssh, a shell or the argument parser."""
        return self._remote_lines[-1] if self._remote_lines else None

    def _add_error(self, event: LogMessage) -> None:
        self.error_count += 1
        self._note_text(event.message, "error")
        self.stopped_by_signal = self.stopped_by_signal or STOPPED_BY_SIGNAL.search(event.message) is not None
        message_id = event.msgid or ""
        self._key_of_message_id = self._key_of_message_id or KEY_BY_MESSAGE_ID.get(message_id)
        self._key_of_general_message_id = self._key_of_general_message_id or KEY_BY_GENERAL_MESSAGE_ID.get(message_id)
        if len(self.errors) < MOST_ERRORS:
            self.errors.append(replace(event, message=_shortened(event.message)))

    def _add_lock_holder(self, message: str) -> None:
        match = REPORTED_HOLDER.fullmatch(message)
        if match is not None and len(self.lock_holders) < repository_guard.MOST_HOLDERS:
            holder = LockHolder(match["host"], int(match["pid"]), match["since"])
            if all((known.host, known.pid) != (holder.host, holder.pid) for known in self.lock_holders):
                self.lock_holders.append(holder)

    def _add_warning(self, event: LogMessage) -> None:
        self.warning_count += 1
        self._note_text(event.message, "warning")
        path, errno = _path_of_warning(event.message)
        if path is not None and errno == NO_SUCH_FILE and len(self._missing_paths) < MOST_MISSING_PATHS:
            self._missing_paths.add(_normal(path))
        if len(self.warnings) < MOST_WARNINGS:
            self.warnings.append(Warning(path, _first_line(event), event.msgid))

    def _add_remote_line(self, text: str) -> None:
        self.broke = self.broke or text.strip() == TRACEBACK
        self.stopped_by_signal = self.stopped_by_signal or STOPPED_BY_SIGNAL.search(text) is not None
        self._note_text(text, "remote")
        self._remote_lines.append(_shortened(text))

    def _note_text(self, text: str, source: Source) -> None:
        text = _shortened(text)
        for pattern, sources, key in KEY_BY_TEXT:
            if source in sources and key not in self._keys_of_text and pattern.search(text):
                self._keys_of_text.add(key)


def conclude(
    exit_code: int | None,
    signal: int | None,
    accumulator: Accumulator,
    cancel_requested: bool,
    *,
    passphrase_given: bool = True,
) -> Outcome:
    """Return the outcome of a run, given how it ended and what it reported.

    ``passphrase_given`` is False if there was no passphrase to give, so that a wrong passphrase means a missing one.
    """
    if _ended_by_signal(exit_code, signal, accumulator):
        return _stopped(accumulator, cancel_requested)
    reason = _reason(exit_code, accumulator)
    if reason is None:
        return _succeeded(exit_code, accumulator)
    if reason == DAMAGE_FOUND and exit_code == 0:
        return _finished_with_errors(REPAIRED_SENTENCE, accumulator)
    if cancel_requested and reason in CAUSED_BY_STOPPING:
        return _stopped(accumulator, cancel_requested)
    if reason == "engine.passphrase_wrong" and not passphrase_given:
        reason = "engine.passphrase_missing"
    return _failed(reason, accumulator)


def source_missing(accumulator: Accumulator) -> Outcome:
    """The outcome of a backup for which ``all_sources_missing`` is true, whatever the exit code."""
    return _failed("engine.source_missing", accumulator)


def _ended_by_signal(exit_code: int | None, signal: int | None, accumulator: Accumulator) -> bool:
    if accumulator.key == TOO_MUCH_OUTPUT:
        return False  # the signal came from its own shim
    if signal is not None or exit_code is None or exit_code < 0:
        return True
    return SIGNAL_BASE < exit_code <= SIGNAL_BASE + HIGHEST_SIGNAL or (
        accumulator.stopped_by_signal and not _is_success(exit_code, accumulator)
    )


def _is_success(exit_code: int | None, accumulator: Accumulator) -> bool:
    if exit_code == 1:
        return not accumulator.broke
    return exit_code is not None and (exit_code == 0 or exit_code in WARNING_CODES)


def _reason(exit_code: int | None, accumulator: Accumulator) -> str | None:
    """The reason for the failure of a run that was not ended by a signal; None if it succeeded."""
    key = accumulator.key
    if exit_code in COMMAND_NOT_RUN and not accumulator.warning_count:
        return "engine.not_installed"
    if key == TOO_MUCH_OUTPUT:
        return key
    if _is_success(exit_code, accumulator):
        return key if key in REPORTED_AS_A_WARNING else None
    return key or KEY_BY_EXIT_CODE.get(exit_code or 0, FAILED)


def _succeeded(exit_code: int | None, accumulator: Accumulator) -> Outcome:
    if exit_code == 0 and accumulator.error_count:
        return _finished_with_errors(FINISHED_WITH_ERRORS_SENTENCE, accumulator)
    if exit_code == 0:
        # The engine's warnings are then only advice, such as to keep a copy of the key.
        return Outcome("completed", None, None)
    return Outcome("completed_with_warnings", None, None, tuple(accumulator.warnings), accumulator.warning_count)


def _finished_with_errors(sentence: str, accumulator: Accumulator) -> Outcome:
    errors = (Warning(None, _first_line(error), error.msgid) for error in accumulator.errors)
    warnings = tuple(islice(chain(accumulator.warnings, errors), MOST_WARNINGS))
    count = accumulator.warning_count + accumulator.error_count
    return Outcome("completed_with_warnings", None, sentence, warnings, count)


def _stopped(accumulator: Accumulator, cancel_requested: bool) -> Outcome:
    warnings, count = tuple(accumulator.warnings), accumulator.warning_count
    if cancel_requested:
        return Outcome("cancelled", None, CANCELLED_SENTENCE, warnings, count)
    return Outcome("interrupted", INTERRUPTED_KEY, INTERRUPTED_SENTENCE, warnings, count, INTERRUPTED_KEY)


def _failed(reason: str, accumulator: Accumulator) -> Outcome:
    return Outcome(
        "failed",
        PUBLISHED_AS.get(reason, reason),
        _sentence(reason, accumulator),
        tuple(accumulator.warnings),
        accumulator.warning_count,
        reason,
        tuple(accumulator.lock_holders) if reason == LOCKED else (),
    )


def _sentence(reason: str, accumulator: Accumulator) -> str:
    if reason == FAILED:
        detail = _what_failed(accumulator)
        return f"The engine failed: {detail.rstrip('.')}." if detail else SENTENCES[FAILED]
    if reason == LOCKED and accumulator.lock_holders:
        return _held_by(accumulator.lock_holders[0])
    if reason == UNREACHABLE and accumulator.last_remote_line:
        message = _on_one_line(accumulator.last_remote_line).rstrip(".")
        if message.startswith(OF_AN_AGENT):
            return f"{message}. Check the agent's log on its machine."
        return unreachable(message)
    return SENTENCES[reason]


def unreachable(message: str) -> str:
    """The sentence for an unreachable host, with the last message of ssh or of the engine there."""
    return f"The repository's host cannot be reached ({_on_one_line(message)}); check the address, ssh and the key."


def _held_by(holder: LockHolder) -> str:
    since = f" since {holder.since}" if holder.since else ""
    return (
        f"Another program is using the repository: process {holder.pid} of {_on_one_line(holder.host)}{since}. Try "
        f"again once it has finished, or break the lock if it is no longer running."
    )


def _what_failed(accumulator: Accumulator) -> str | None:
    """The engine's own error on one line, without the report around it."""
    for error in accumulator.errors:
        text = error.message.split(SYSTEM_INFORMATION)[0].split(REPORT_OF_MAJOR_2)[0].strip()
        text = text.removeprefix(ERROR_OF_MAJOR_2).strip()
        if text.startswith("Traceback"):
            found = LAST_LINE_OF_TRACEBACK.findall(text)
            if found:
                return _on_one_line(found[-1])
        elif text and not text.endswith("Exception"):
            return _on_one_line(text)
    return _on_one_line(accumulator.last_remote_line) if accumulator.last_remote_line else None


def _on_one_line(text: str) -> str:
    return " ".join(log_line(PlainLine(text)))[:LONGEST_SENTENCE]


def _path_of_warning(message: str) -> tuple[str | None, str | None]:
    for pattern in WARNING_WITH_PATH:
        match = pattern.fullmatch(message)
        if match is not None:
            return match["path"], match.groupdict().get("errno")
    return None, None


def _normal(path: str) -> str:
    """Normalise a path: the engine reports paths without a trailing slash, and older versions without double
    slashes.
    """
    return posixpath.normpath(path).replace("//", "/")


def _first_line(event: LogMessage) -> str:
    lines = log_line(replace(event, level="INFO", message=_shortened(event.message)))
    return lines[0] if lines else ""


def _shortened(message: str) -> str:
    """Keep the beginning and the end: the error is the last line of a traceback."""
    if len(message) <= LONGEST_MESSAGE:
        return message
    return message[: LONGEST_MESSAGE // 2] + "\n...\n" + message[-LONGEST_MESSAGE // 2 :]
