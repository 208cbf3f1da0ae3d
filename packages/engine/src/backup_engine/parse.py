"""Turn an engine's output into values.

Lines of its log always parse; a result either parses completely or is refused.
"""

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from backup_engine import bounded_json
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

LARGEST_INTEGER = 2**63 - 1
UNREADABLE = "unreadable"
OTHER_SURROGATE = re.compile("[\ud800-\udc7f\udd00-\udfff]")
LEVELS = frozenset({"DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"})
MESSAGE_START = '{"type":'

Message = Mapping[str, object]


class GarbledOutput(Exception):
    """The engine's result is cut short or malformed; nothing of it can be trusted."""

    key = "engine.failed"


# ---------------------------------------------------------------------------------------------------------------------
# Lines of the log


def parse_line(raw: bytes) -> Event:
    """Given a line of standard error, return its event. Never raises, for any bytes."""
    text = raw.decode("utf-8", "surrogateescape").rstrip("\r\n")
    embedded = text.find(MESSAGE_START)
    if text.lstrip().startswith("{") or embedded < 0:
        return _event_of_text(text)
    # A prompt or a progress line without a line end precedes a message on the same line: the message matters.
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
    kind = _text(document.get("type"))
    reader = READERS.get(kind)
    return reader(document) if reader else UnknownMessage(kind[:100])


def _plain(text: str) -> PlainLine:
    # Of a line redrawn in place, keep only what a terminal would show in the end.
    return PlainLine(_valid(next((part for part in reversed(text.split("\r")) if part.strip()), "")))


def _archive_progress(message: Message) -> Event:
    return ArchiveProgress(
        original_size=_integer(message.get("original_size")),
        compressed_size=_integer(message.get("compressed_size")),
        deduplicated_size=_integer(message.get("deduplicated_size")),
        nfiles=_integer(message.get("nfiles")),
        path=_text_or_none(message.get("path")),
        time=_number(message.get("time")),
        finished=message.get("finished") is True,
    )


def _progress_message(message: Message) -> Event:
    return ProgressMessage(
        operation=_integer(message.get("operation")),
        msgid=_text_or_none(message.get("msgid")),
        message=_text(message.get("message")),
        time=_number(message.get("time")),
        finished=message.get("finished") is True,
    )


def _progress_percent(message: Message) -> Event:
    info = message.get("info")
    return ProgressPercent(
        operation=_integer(message.get("operation")),
        msgid=_text_or_none(message.get("msgid")),
        message=_text(message.get("message")),
        current=_integer(message.get("current")),
        total=_integer(message.get("total")),
        info=tuple(_valid(item) for item in info if isinstance(item, str)) if isinstance(info, list) else (),
        time=_number(message.get("time")),
        finished=message.get("finished") is True,
    )


def _file_status(message: Message) -> Event:
    return FileStatus(status=_text(message.get("status")), path=_text(message.get("path")))


def _log_message(message: Message) -> Event:
    level = _text(message.get("levelname")).upper()
    return LogMessage(
        level=level if level in LEVELS else "INFO",
        name=_text(message.get("name")),
        msgid=_text_or_none(message.get("msgid")),
        message=_text(message.get("message")),
        time=_number(message.get("time")),
    )


def _question_prompt(message: Message) -> Event:
    return QuestionPrompt(msgid=_text_or_none(message.get("msgid")), message=_text(message.get("message")))


def _answer(accepted: bool | None) -> Callable[[Message], Event]:
    def read(message: Message) -> Event:
        return QuestionAnswer(_text_or_none(message.get("msgid")), _text(message.get("message")), accepted)

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


def _valid(text: str) -> str:
    return OTHER_SURROGATE.sub("\ufffd", text)


def _text(value: object) -> str:
    return _valid(value) if isinstance(value, str) else ""


def _text_or_none(value: object) -> str | None:
    return _text(value) or None


def _integer(value: object) -> int | None:
    """Sizes and counts: a negative or absurd number counts as missing."""
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if 0 <= value <= LARGEST_INTEGER else None


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


# ---------------------------------------------------------------------------------------------------------------------
# Results on standard output


@dataclass(frozen=True, slots=True)
class ArchiveStats:
    """Sizes in bytes; None where this engine reports none."""

    original_size: int
    compressed_size: int | None
    deduplicated_size: int | None
    nfiles: int


@dataclass(frozen=True, slots=True)
class RepositoryTotals:
    """Sizes of a whole repository. ``unique_size`` is what its data takes on disk: compressed and deduplicated."""

    total_size: int
    total_compressed_size: int
    unique_size: int
    unique_original_size: int
    total_chunks: int
    unique_chunks: int


@dataclass(frozen=True, slots=True)
class CreateResult:
    archive_name: str
    archive_id: str
    start: datetime
    end: datetime
    duration: float
    stats: ArchiveStats
    repository_totals: RepositoryTotals | None
    repository_id: str | None = None


@dataclass(frozen=True, slots=True)
class ArchiveInfo:
    """An archive in a listing; ``start`` and ``end`` in UTC. ``is_bare``: the listing held only names."""

    name: str
    id: str
    start: datetime
    end: datetime | None
    comment: str
    hostname: str | None
    username: str | None
    is_bare: bool = False


@dataclass(frozen=True, slots=True)
class ArchiveDetails:
    """An archive in the output of ``info``."""

    name: str
    id: str
    start: datetime
    end: datetime
    duration: float
    comment: str
    hostname: str | None
    username: str | None
    stats: ArchiveStats


@dataclass(frozen=True, slots=True)
class InfoResult:
    """``archives`` is empty for a repository as a whole."""

    repository_id: str
    location: str
    last_modified: datetime | None
    encryption: str | None
    repository_totals: RepositoryTotals | None
    archives: tuple[ArchiveDetails, ...]


def parse_create_result(raw: bytes) -> CreateResult:
    """Given the standard output of ``create``, return the archive made. Raise GarbledOutput if it is incomplete."""
    document = _Document.read(raw)
    archive = document.within("archive")
    return CreateResult(
        archive_name=archive.text("name"),
        archive_id=archive.text("id"),
        start=archive.moment("start"),
        end=archive.moment("end"),
        duration=archive.number("duration"),
        stats=_stats(archive.within("stats")),
        repository_totals=_totals(document),
        repository_id=document.optional("repository").optional_text("id"),
    )


def parse_archives(raw: bytes) -> list[ArchiveInfo]:
    """Given the standard output of ``list`` of a repository, return all archives, or raise GarbledOutput.

    An archive's own metadata may be anything. Only its name, id and start have to be valid.
    """
    return [
        ArchiveInfo(
            name=archive.text("name"),
            id=archive.text("id"),
            start=archive.moment("start"),
            end=archive.moment_if_any("end"),
            comment=archive.text_if_any("comment") or "",
            hostname=archive.text_if_any("hostname"),
            username=archive.text_if_any("username"),
            is_bare="comment" not in archive.content,
        )
        for archive in _Document.read(raw).many("archives")
    ]


def parse_info(raw: bytes) -> InfoResult:
    """Given the standard output of ``info``, return its content, or raise GarbledOutput."""
    document = _Document.read(raw)
    return _info(document, tuple(_details(archive) for archive in document.optional_many("archives")))


def parse_repository(raw: bytes) -> InfoResult:
    """Given the standard output of ``info`` or ``list``, return the part about the repository, or raise
    GarbledOutput.
    """
    return _info(_Document.read(raw), ())


def _info(document: "_Document", archives: tuple[ArchiveDetails, ...]) -> InfoResult:
    repository = document.within("repository")
    return InfoResult(
        repository_id=repository.text("id"),
        location=repository.text("location"),
        last_modified=repository.optional_moment("last_modified"),
        encryption=_encryption(document.optional("encryption")),
        repository_totals=_totals(document),
        archives=archives,
    )


def _encryption(document: "_Document") -> str | None:
    """The product's name of the mode.

    Major 2 reports the cipher, how chunks are named, and the key file if there is one.
    """
    mode, cipher = document.optional_text("mode"), document.optional_text("encryption")
    if cipher is None:
        return mode
    if cipher.startswith("none-"):
        return "none"
    where = "keyfile-" if document.optional_text("keyfile") else ""
    named = "-blake3" if document.optional_text("id_hash") == "blake3" and not cipher.endswith("-blake3") else ""
    return f"{where}{cipher}{named}"


def _details(archive: "_Document") -> ArchiveDetails:
    return ArchiveDetails(
        name=archive.text("name"),
        id=archive.text("id"),
        start=archive.moment("start"),
        end=archive.moment("end"),
        duration=archive.number("duration"),
        comment=archive.optional_text("comment") or "",
        hostname=archive.optional_text("hostname"),
        username=archive.optional_text("username"),
        stats=_stats(archive.within("stats")),
    )


def _stats(stats: "_Document") -> ArchiveStats:
    return ArchiveStats(
        original_size=stats.size("original_size"),
        compressed_size=stats.optional_size("compressed_size"),
        deduplicated_size=stats.optional_size("deduplicated_size"),
        nfiles=stats.size("nfiles"),
    )


def _totals(document: "_Document") -> RepositoryTotals | None:
    stats = document.optional("cache").optional("stats")
    if stats.is_empty:
        return None
    return RepositoryTotals(
        total_size=stats.size("total_size"),
        total_compressed_size=stats.size("total_csize"),
        unique_size=stats.size("unique_csize"),
        unique_original_size=stats.size("unique_size"),
        total_chunks=stats.size("total_chunks"),
        unique_chunks=stats.size("total_unique_chunks"),
    )


@dataclass(frozen=True, slots=True)
class _Document:
    """A JSON object that raises GarbledOutput, naming the place, when a value is missing or invalid."""

    content: Mapping[str, Any]
    place: str = "the result"

    @classmethod
    def read(cls, raw: bytes) -> "_Document":
        try:
            content = bounded_json.document(raw)
        except bounded_json.TooManyValues as error:
            raise GarbledOutput("The engine's result is too large to be read.") from error
        except ValueError as error:
            raise GarbledOutput("The engine's result is not complete JSON.") from error
        if not isinstance(content, dict):
            raise GarbledOutput("The engine's result is not a JSON object.")
        return cls(content)

    @property
    def is_empty(self) -> bool:
        return not self.content

    def within(self, key: str) -> "_Document":
        value = self.content.get(key)
        if not isinstance(value, dict):
            raise self._garbled(key)
        return _Document(value, key)

    def optional(self, key: str) -> "_Document":
        return self.within(key) if self.content.get(key) is not None else _Document({}, key)

    def many(self, key: str) -> list["_Document"]:
        value = self.content.get(key)
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            raise self._garbled(key)
        return [_Document(item, key) for item in value]

    def optional_many(self, key: str) -> list["_Document"]:
        return self.many(key) if self.content.get(key) is not None else []

    def text(self, key: str) -> str:
        value = _text(self.content.get(key))
        if not value:
            raise self._garbled(key)
        return value

    def optional_text(self, key: str) -> str | None:
        value = self.content.get(key)
        if value is not None and not isinstance(value, str):
            raise self._garbled(key)
        return _text_or_none(value)

    def text_if_any(self, key: str) -> str | None:
        return _text_or_none(self.content.get(key))

    def moment_if_any(self, key: str) -> datetime | None:
        try:
            return self.optional_moment(key)
        except GarbledOutput:
            return None

    def size(self, key: str) -> int:
        value = _integer(self.content.get(key))
        if value is None:
            raise self._garbled(key)
        return value

    def optional_size(self, key: str) -> int | None:
        return None if self.content.get(key) is None else self.size(key)

    def number(self, key: str) -> float:
        value = _number(self.content.get(key))
        if value is None:
            raise self._garbled(key)
        return value

    def moment(self, key: str) -> datetime:
        """Times without a zone are in UTC, because every run has TZ=UTC."""
        try:
            moment = datetime.fromisoformat(self.text(key))
            return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
        except (ValueError, OverflowError) as error:
            raise self._garbled(key) from error

    def optional_moment(self, key: str) -> datetime | None:
        return None if self.content.get(key) is None else self.moment(key)

    def _garbled(self, key: str) -> GarbledOutput:
        return GarbledOutput(f"The engine's result has no valid {key!r} in {self.place}.")


# ---------------------------------------------------------------------------------------------------------------------
# Results that the engine gives as lines of its log

PRUNE_LINE = re.compile(
    r"(?P<what>Keeping (?:checkpoint )?archive|Would prune|Pruning archive)"
    r"(?: \((?:rule: (?P<rule>\S+) #(?P<number>\d+)|\d+/\d+)\))?:"
    r"\s+(?P<name>.+?)\s+\w{3}, (?P<time>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)(?P<offset> [+-]\d{4})?"
    r" \[(?P<id>[0-9a-f]{64})\]"
)
COMPACT_LINE = re.compile(
    r"(?:compaction freed about|Compaction saved) (?P<number>\d{1,9}(?:\.\d{1,9})?) (?P<unit>[kMGTPE]?B)(?: repository|\.$)"
)
UNITS: Mapping[str, int] = {unit: 1000**power for power, unit in enumerate(("B", "kB", "MB", "GB", "TB", "PB", "EB"))}
CHECK_FINISHED = re.compile(
    r"(?:Finished (?:full|partial) repository check|Archive consistency check complete), (?P<verdict>.*)"
)


@dataclass(frozen=True, slots=True)
class PrunedArchive:
    """``rule`` names what keeps it (``daily``, ``weekly[oldest]``, ``within`` ...); None for one that goes."""

    archive: str
    id: str
    time: datetime
    rule: str | None


@dataclass(frozen=True, slots=True)
class PruneResult:
    keep: tuple[PrunedArchive, ...]
    prune: tuple[PrunedArchive, ...]


@dataclass(frozen=True, slots=True)
class CheckResult:
    """``finished`` parts of the check, each with its verdict; ``problems`` are the errors reported."""

    finished: tuple[str, ...]
    problems: tuple[str, ...]

    @property
    def clean(self) -> bool:
        return bool(self.finished) and not self.problems


def parse_prune_lines(events: Iterable[Event]) -> PruneResult:
    """Given the events of a prune with its list, return what was, or would be, kept and removed."""
    keep: list[PrunedArchive] = []
    prune: list[PrunedArchive] = []
    for event in events:
        match = PRUNE_LINE.fullmatch(event.message) if isinstance(event, LogMessage) else None
        if match is None:
            continue
        kept = match["what"].startswith("Keeping")
        rule = (match["rule"] or "checkpoint") if kept else None
        (keep if kept else prune).append(PrunedArchive(match["name"], match["id"], _prune_time(match), rule))
    return PruneResult(tuple(keep), tuple(prune))


def _prune_time(match: re.Match[str]) -> datetime:
    text = match["time"] + (match["offset"] or " +0000")
    try:
        return datetime.strptime(text, "%Y-%m-%d %H:%M:%S %z").astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise GarbledOutput(f"The engine reports an impossible time for the archive {match['name']!r}.") from error


def parse_freed_bytes(events: Iterable[Event]) -> int | None:
    """Given the events of a compact, return about how many bytes it freed, None if it did not report that."""
    for event in events:
        match = COMPACT_LINE.search(event.message) if isinstance(event, LogMessage) else None
        if match is not None:
            return round(float(match["number"]) * UNITS[match["unit"]])
    return None


def parse_check_lines(events: Iterable[Event], most_problems: int = 1000) -> CheckResult:
    """Given the events of a check, return the verdicts of its parts and the problems it found."""
    finished: list[str] = []
    problems: list[str] = []
    for event in events:
        if not isinstance(event, LogMessage):
            continue
        match = CHECK_FINISHED.match(event.message)
        if match is not None:
            finished.append(match["verdict"].rstrip("."))
        elif event.level in {"ERROR", "CRITICAL"} and len(problems) < most_problems:
            problems.append(event.message)
    return CheckResult(tuple(finished), tuple(problems))
