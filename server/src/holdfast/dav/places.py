"""Resolves addresses below `/dav`: the list of repositories, a repository, an archive, or a path in an archive.

Addresses use the names that users know. If two are equal, or a name is reserved, a distinguishing number or time is
appended.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TypeVar
from urllib.parse import quote_from_bytes, unquote_to_bytes

from backup_engine.frozen import frozen
from holdfast.access import rights
from holdfast.access.caller import Caller
from holdfast.archives.archive_index import ArchiveIndex
from holdfast.errors import NotFound
from holdfast.repositories import archive_records
from holdfast.repositories import store as repositories
from holdfast.repositories.archive_records import Archive
from holdfast.repositories.models import Repository
from holdfast.storage.read_cache import ReadCache
from holdfast.storage.session import Database

Named = TypeVar("Named")

ROOT = b"/dav"
LATEST = "latest"
DAY = re.compile(r"\d{4}-\d\d-\d\d")
MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d)?Z?")
LONGEST = 65_536
MOST_REMEMBERED = 8
"""The number of callers, and of repositories, whose names are cached."""


@frozen
class Place:
    """`repository` is None for the list of repositories, `archive` is None for the list of a repository's archives."""

    segments: tuple[bytes, ...]
    repository: Repository | None = None
    archive: Archive | None = None
    path: bytes = b""


def segments_of(raw_path: bytes) -> tuple[bytes, ...]:
    """The names in an address. Raise NotFound if one of them is not a valid file name."""
    below = raw_path.removeprefix(ROOT)
    names = tuple(unquote_to_bytes(part) for part in below.split(b"/") if part)
    if len(below) > LONGEST or any(name in (b".", b"..") or b"\0" in name for name in names):
        raise not_there()
    return names


def address(segments: Iterable[bytes]) -> str:
    return "/".join((ROOT.decode(), *(quote_from_bytes(name, safe="") for name in segments)))


class Places:
    """Resolves addresses.

    Clients request hundreds of files in a row, so rows are read once and reused until anything is committed to the
    store. Safe for use from many threads.
    """

    def __init__(self, database: Database, index: ArchiveIndex) -> None:
        self._database = database
        self._index = index
        self._repositories: ReadCache[dict[str, Repository]] = ReadCache(database.version, MOST_REMEMBERED)
        self._archives: ReadCache[list[Archive]] = ReadCache(database.version, MOST_REMEMBERED)

    def find(self, caller: Caller, segments: tuple[bytes, ...]) -> Place:
        """Resolve an address. Raise NotFound if the target is missing or the caller may not see it."""
        if not segments:
            return Place(segments)
        known = self.repositories(caller)
        repository = known.get(_text(segments[0])) or _by_number(known, _text(segments[0]))
        if repository is None:
            raise not_there()
        if len(segments) == 1:
            return Place(segments, repository)
        archive = _archive(self.archives(repository), _text(segments[1]))
        return Place(segments, repository, archive, b"/".join(segments[2:]))

    def repositories(self, caller: Caller) -> dict[str, Repository]:
        """The repositories that the caller may see, by their names in addresses."""
        known = self._repositories.get(caller.view)
        return self._repositories.read(caller.view, partial(self._visible, caller)) if known is None else known

    def archives(self, repository: Repository) -> dict[str, Archive]:
        """Archives with known files, oldest first. Archives lost because an older copy of the repository was put back
        cannot be read.
        """
        known = self._archives.get(repository.id)
        if known is None:
            known = self._archives.read(repository.id, partial(self._present, repository.id))
        covered = self._index.covered(repository)
        return _distinct([(_flat(one.name), one) for one in known if covered.has(one)], _made_at, reserved=(LATEST,))

    def _visible(self, caller: Caller) -> dict[str, Repository]:
        with self._database.reading() as session:
            visible = repositories.visible(session, rights.visible_repositories(session, caller))
        return _distinct([(_flat(one.name), one) for one in visible], lambda one: f"({one.id})")

    def _present(self, repository_id: int) -> list[Archive]:
        with self._database.reading() as session:
            return [one for one in archive_records.all_of(session, repository_id) if one.lost_at is None]


def _made_at(archive: Archive) -> str:
    return f"{archive.start.astimezone(UTC):%Y-%m-%dT%H%M%SZ} {archive.engine_id[:8]}"


def _archive(known: Mapping[str, Archive], name: str) -> Archive:
    if name in known:
        return known[name]
    until = datetime.max.replace(tzinfo=UTC) if name == LATEST else _moment(name)
    found = [one for one in known.values() if until is not None and one.start <= until]
    if not found:
        raise not_there()
    return max(found, key=lambda one: (one.start, one.id))


def _moment(name: str) -> datetime | None:
    """The last instant of a date, or the given instant of a time, in UTC."""
    try:
        if DAY.fullmatch(name):
            return datetime.fromisoformat(name).replace(tzinfo=UTC) + timedelta(days=1, microseconds=-1)
        if MOMENT.fullmatch(name):
            return datetime.fromisoformat(name.removesuffix("Z")).replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        return None
    return None


def _by_number(known: Mapping[str, Repository], name: str) -> Repository | None:
    return next((one for one in known.values() if str(one.id) == name), None)


def _distinct(
    found: Sequence[tuple[str, Named]], more: Callable[[Named], str], reserved: Sequence[str] = ()
) -> dict[str, Named]:
    often = Counter([name for name, _ in found])
    often.update(reserved)
    return {name if often[name] == 1 else f"{name} {more(one)}": one for name, one in found}


def _flat(name: str) -> str:
    return name.replace("/", "_")


def _text(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")


def encoded(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")


def not_there() -> NotFound:
    return NotFound("dav.not_found", "Nothing exists at this address.")
