"""Inspects a repository's folder before it is mirrored: which files exist and which are missing."""

import configparser
import os
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Any

from backup_engine import bounded_json
from holdfast.kit import clock
from holdfast.mirror.engine2_files import MARK

MOST_UNCOMMITTED = 500
STALE = timedelta(minutes=30)
"""Engine 2 ignores a lock that has not been renewed for this long."""
LARGEST_FILE = 1 << 20
"""Maximum number of bytes read from a small file: a hostile repository may contain files of any size."""
LARGEST_HINTS = 64 << 20
MOST_LOCKS = 1000
MOST_NAMED = 5


@dataclass
class Survey:
    """`problems` are pairs of a key and a sentence; `uncommitted` are files that no transaction refers to yet."""

    bytes: int = 0
    files: int = 0
    newest: int | None = None
    """A value that grows with each transaction: a segment number or, for engine 2, the last change of names."""
    identity: str | None = None
    problems: list[tuple[str, str]] = field(default_factory=list)
    uncommitted: list[str] = field(default_factory=list)
    locked_by: list[str] = field(default_factory=list)
    is_marked: bool = False
    """Engine 2 has marked its index as not matching its packs."""

    def find(self, word: str, sentence: str) -> None:
        self.problems.append((word, sentence))

    def as_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    @staticmethod
    def from_json(value: dict[str, Any]) -> "Survey":
        return Survey(**{**value, "problems": [(word, sentence) for word, sentence in value["problems"]]})


def survey(path: Path, engine_version: int) -> Survey:
    """Inspect a repository without ever failing: unreadable files are a problem, just like missing ones."""
    found = Survey()
    if not path.is_dir():
        found.find("missing", f"The folder {path} does not exist.")
        return found
    try:
        _measure(path, found)
        (_survey_first if engine_version == 1 else _survey_second)(path, found)
    except OSError as error:
        found.find("unreadable", f"The repository cannot be read: {error.strerror}.")
    return found


def _measure(path: Path, found: Survey) -> None:
    for entry in _files_below(path):
        found.files += 1
        found.bytes += entry.stat(follow_symlinks=False).st_size


def _files_below(path: Path) -> Iterator["os.DirEntry[str]"]:
    folders = [os.fspath(path)]
    while folders:
        with os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.name.startswith("lock"):  # locks of engine 1, and engine 2's folder for locks
                    continue
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                elif entry.is_file(follow_symlinks=False):
                    yield entry


def _beginning(file: Path) -> bytes:
    """The content of a small file. A pipe in its place counts as empty and is not waited for. Raise OSError."""
    descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as stream:
        return stream.read(LARGEST_FILE) or b""


# --- engine 1: numbered segments, an index and hints of the last transaction ------------------------------------------


def _survey_first(path: Path, found: Survey) -> None:
    found.identity = _identity_of_config(path / "config")
    if found.identity is None:
        found.find("config_missing", "The file config is missing or is not a repository's.")
    if not (path / "README").is_file():
        found.find("readme_missing", "The file README is missing.")
    found.locked_by = _lock_holders(path / "lock.exclusive")
    segments = _segments(path / "data")
    if not segments:
        found.find("segments_missing", "The folder data has no segments.")
        return
    found.newest = max(segments)
    transaction = max(_numbers(path, "index."), default=None)
    if transaction is None:
        return
    if transaction > found.newest or transaction not in segments:
        found.find("segments_missing", f"The segment {transaction} of the last transaction is missing.")
    count, missing = _missing_segments(path / f"hints.{transaction}", segments)
    if count:
        some = ", ".join(map(str, missing))
        found.find("segments_missing", f"{count} segments with data are missing: {some}.")
    found.uncommitted = [name for number, name in sorted(segments.items()) if number > transaction]
    if len(found.uncommitted) > MOST_UNCOMMITTED:
        found.find("transaction_open", "The last backup was cut off; run another one before the next sync.")
        found.uncommitted = []


def _identity_of_config(file: Path) -> str | None:
    try:
        return identity_of_config(_beginning(file).decode("utf-8", "replace"))
    except OSError:
        return None


def identity_of_config(text: str) -> str | None:
    """The id in the config of a repository of engine 1; None if it is not such a file."""
    parser = configparser.ConfigParser(interpolation=None)
    try:
        parser.read_string(text)
        return parser.get("repository", "id").strip() or None
    except configparser.Error:
        return None


def _lock_holders(folder: Path) -> list[str]:
    """The holders of the engine's exclusive lock, as names of the form host.process-thread."""
    try:
        return sorted(entry.name for entry in os.scandir(folder))
    except FileNotFoundError:
        return []


def _segments(data: Path) -> dict[int, str]:
    """The segments by number, each with its path in the repository."""
    if not data.is_dir():
        return {}
    return {
        int(file.name): f"data/{folder.name}/{file.name}"
        for folder in os.scandir(data)
        if folder.name.isdecimal() and folder.is_dir()
        for file in os.scandir(folder)
        if file.name.isdecimal()
    }


def _numbers(path: Path, prefix: str) -> list[int]:
    names = [entry.name.removeprefix(prefix) for entry in os.scandir(path) if entry.name.startswith(prefix)]
    return [int(name) for name in names if name.isdecimal()]


def _missing_segments(file: Path, there: Collection[int]) -> tuple[int, list[int]]:
    """How many segments with data as of the last transaction are missing, and the first of them.

    None are reported if the engine left no readable hints.
    """
    import msgpack  # type: ignore[import-untyped] # imported here: not needed at start-up

    count, named = 0, list[int]()
    try:
        with os.fdopen(os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as stream:
            for number in _segments_of_hints(msgpack.Unpacker(stream, **ONLY_NUMBERS)):
                if number not in there:
                    count += 1
                    named = sorted([*named, number])[:MOST_NAMED]
    except (OSError, ValueError, msgpack.exceptions.UnpackException):
        return 0, []
    return count, named


ONLY_NUMBERS: dict[str, Any] = {
    "max_buffer_size": LARGEST_HINTS,
    "max_array_len": 0,
    "max_map_len": 0,
    "max_str_len": 100,
    "max_bin_len": 100,
    "max_ext_len": 0,
    "strict_map_key": False,
}
"""Limits for reading one value at a time: the map itself may have any size. Unexpected values raise ValueError."""


def _segments_of_hints(hints: Any) -> Iterator[int]:
    for _ in range(hints.read_map_header()):
        if hints.unpack() != "segments":
            hints.skip()
            continue
        for _ in range(hints.read_map_header()):
            number, count = hints.unpack(), hints.unpack()
            if isinstance(number, int) and count:
                yield number
        return


# --- engine 2: objects named by their content -----------------------------------------------------------------------


def _survey_second(path: Path, found: Survey) -> None:
    found.identity = _text(path / "config" / "id")
    if found.identity is None:
        found.find("config_missing", "The file config/id is missing.")
    if not (path / "config" / "manifest").is_file():
        found.find("manifest_missing", "The file config/manifest is missing.")
    has_archives, has_data = (
        _holds_files(path / "archives"),
        _holds_files(path / "packs"),
    )
    if has_archives and not has_data:
        found.find("segments_missing", "There are archives, but no data for them.")
    named = [folder.stat().st_mtime_ns for folder in (path / "archives", path / "index") if folder.is_dir()]
    found.newest = max(named, default=None)
    found.locked_by = _exclusive_holders(path / "locks")
    found.is_marked = (path / MARK).is_file()


def _exclusive_holders(folder: Path) -> list[str]:
    """The holders of engine 2's exclusive lock, in the form of engine 1.

    An unreadable lock is just being created or removed, and is skipped.
    """
    holders = []
    for file in sorted(islice(folder.glob("*"), MOST_LOCKS)):
        try:
            lock = bounded_json.document(_beginning(file))
            is_stale = clock.now() - datetime.fromisoformat(lock["time"]) > STALE
            if lock["exclusive"] and not is_stale:
                holders.append(f"{lock['hostid']}.{lock['processid']}-{lock['threadid']}")
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return holders


def _holds_files(folder: Path) -> bool:
    return folder.is_dir() and next(_files_below(folder), None) is not None


def _text(file: Path) -> str | None:
    try:
        return _beginning(file).decode("utf-8", "replace").strip() or None
    except OSError:
        return None
