"""The target of an address below `/dav`: the list of repositories, one of them, an archive, or a path in an archive.

Addresses use the names that users know. Where two are the same, or a name is reserved here, a number or a time that
distinguishes them is added.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TypeVar
from urllib.parse import quote_from_bytes, unquote_to_bytes

from sqlalchemy.orm import Session

from holdfast.access import rights
from holdfast.access.caller import Caller
from holdfast.archives.archive_index import ArchiveIndex
from holdfast.errors import NotFound
from holdfast.kit.frozen import frozen
from holdfast.repositories import archive_records
from holdfast.repositories import store as repositories
from holdfast.repositories.archive_records import Archive
from holdfast.repositories.models import Repository

Named = TypeVar("Named")

ROOT = b"/dav"
LATEST = "latest"
DAY = re.compile(r"\d{4}-\d\d-\d\d")
MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d)?Z?")
LONGEST = 65_536


@frozen
class Place:
    """`repository` is None for the list of them, `archive` for the list of a repository's archives."""

    segments: tuple[bytes, ...]
    repository: Repository | None = None
    archive: Archive | None = None
    path: bytes = b""


def segments_of(raw_path: bytes) -> tuple[bytes, ...]:
    """The names in an address. Raise NotFound for one that is not a valid file name."""
    below = raw_path.removeprefix(ROOT)
    names = tuple(unquote_to_bytes(part) for part in below.split(b"/") if part)
    if len(below) > LONGEST or any(name in (b".", b"..") or b"\0" in name for name in names):
        raise not_there()
    return names


def address(segments: Iterable[bytes]) -> str:
    return "/".join((ROOT.decode(), *(quote_from_bytes(name, safe="") for name in segments)))


def find(session: Session, caller: Caller, index: ArchiveIndex, segments: tuple[bytes, ...]) -> Place:
    """Raise NotFound for a missing target, and for one that the caller may not see."""
    if not segments:
        return Place(segments)
    known = repositories_by_name(session, caller)
    repository = known.get(_text(segments[0])) or _by_number(known, _text(segments[0]))
    if repository is None:
        raise not_there()
    if len(segments) == 1:
        return Place(segments, repository)
    archive = _archive(archives_by_name(session, index, repository), _text(segments[1]))
    return Place(segments, repository, archive, b"/".join(segments[2:]))


def repositories_by_name(session: Session, caller: Caller) -> dict[str, Repository]:
    """The repositories that the caller may see, by their names here."""
    visible = repositories.visible(session, rights.visible_repositories(session, caller))
    return _distinct([(_flat(one.name), f"({one.id})", one) for one in visible])


def archives_by_name(session: Session, index: ArchiveIndex, repository: Repository) -> dict[str, Archive]:
    """Archives with known files, oldest first. Those lost with a newer copy of the repository cannot be read."""
    covered = index.covered(repository)
    found = [one for one in archive_records.all_of(session, repository.id) if one.lost_at is None and covered.has(one)]
    return _distinct(
        [(_flat(one.name), f"{one.start.astimezone(UTC):%Y-%m-%dT%H%M%SZ} {one.engine_id[:8]}", one) for one in found],
        reserved=(LATEST,),
    )


def _archive(known: Mapping[str, Archive], name: str) -> Archive:
    if name in known:
        return known[name]
    until = datetime.max.replace(tzinfo=UTC) if name == LATEST else _moment(name)
    found = [one for one in known.values() if until is not None and one.start <= until]
    if not found:
        raise not_there()
    return max(found, key=lambda one: (one.start, one.id))


def _moment(name: str) -> datetime | None:
    """The last instant of a date or a time in UTC."""
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


def _distinct(found: Sequence[tuple[str, str, Named]], reserved: Sequence[str] = ()) -> dict[str, Named]:
    often = Counter([name for name, _, _ in found])
    often.update(reserved)
    return {name if often[name] == 1 else f"{name} {more}": one for name, more, one in found}


def _flat(name: str) -> str:
    return name.replace("/", "_")


def _text(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")


def encoded(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")


def not_there() -> NotFound:
    return NotFound("dav.not_found", "There is nothing at this address.")
