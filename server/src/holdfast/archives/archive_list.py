"""The archives of a repository, filtered, sorted and in pages, with the proof and the retention rule of each."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal

from sqlalchemy import ColumnElement, Select, func, select
from sqlalchemy.orm import Session

from backup_engine.frozen import frozen
from backup_engine.retention import aged
from holdfast.archives.retention import simulate
from holdfast.kit import clock
from holdfast.kit import cursor as cursors
from holdfast.operations import pages
from holdfast.operations.status import SUCCEEDED
from holdfast.repositories.archive_records import Archive
from holdfast.repositories.models import Repository
from holdfast.repositories.policies import policy_of

SortWord = Literal[
    "-start",
    "start",
    "name",
    "-name",
    "nfiles",
    "-nfiles",
    "original_size",
    "-original_size",
    "deduplicated_size",
    "-deduplicated_size",
]
UNKNOWN = -1
"""Sorts before all known sizes."""
PROOFS = 500
"""Number of restore checks that are searched for proofs of archives."""


@frozen
class ArchiveListQuery:
    series: str | None
    since: datetime | None
    until: datetime | None
    text: str | None
    sort: SortWord
    limit: int
    cursor: str | None


def page(session: Session, repository_id: int, wanted: ArchiveListQuery) -> tuple[Sequence[Archive], str | None, int]:
    """Return the archives of a page, the cursor of the next one, and the total number of matching archives."""
    fitting = _fitting(select(Archive), repository_id, wanted)
    total = session.scalar(_fitting(select(func.count(Archive.id)), repository_id, wanted)) or 0
    name, is_reversed = wanted.sort.removeprefix("-"), wanted.sort.startswith("-")
    column = _column(name)
    if wanted.cursor is not None:
        value, number = _place(wanted.cursor, name)
        beyond = column < value if is_reversed else column > value
        further = Archive.id < number if is_reversed else Archive.id > number
        fitting = fitting.where(beyond | ((column == value) & further))
    order = (column.desc(), Archive.id.desc()) if is_reversed else (column, Archive.id)
    found = session.scalars(fitting.order_by(*order).limit(wanted.limit + 1)).all()
    following = _cursor_after(found[wanted.limit - 1], name) if len(found) > wanted.limit else None
    return found[: wanted.limit], following, total


def _fitting(statement: Select[Any], repository_id: int, wanted: ArchiveListQuery) -> Select[Any]:
    statement = statement.where(Archive.repository_id == repository_id)
    if wanted.series is not None:
        statement = statement.where(Archive.series == wanted.series)
    if wanted.since is not None:
        statement = statement.where(Archive.start >= wanted.since)
    if wanted.until is not None:
        statement = statement.where(Archive.start <= wanted.until)
    if wanted.text is not None:
        statement = statement.where(
            func.lower(Archive.name).contains(wanted.text.lower(), autoescape=True)
            | func.lower(func.coalesce(Archive.comment, "")).contains(wanted.text.lower(), autoescape=True)
        )
    return statement


def _column(name: str) -> ColumnElement[Any]:
    column: ColumnElement[Any] = getattr(Archive, name)
    return column if name in ("start", "name") else func.coalesce(column, UNKNOWN)


def _cursor_after(archive: Archive, name: str) -> str:
    value = getattr(archive, name)
    if name == "start":
        value = archive.start.isoformat()
    return cursors.encode(UNKNOWN if value is None else value, archive.id)


def _place(cursor: str, name: str) -> tuple[Any, int]:
    """Return where the previous page ended: a position, because the archive there may be gone by now."""
    value, number = cursors.decode(cursor, str if name in ("start", "name") else int, int)
    if name != "start":
        return value, int(number)
    try:
        moment = datetime.fromisoformat(str(value))
    except ValueError as error:
        raise cursors.bad_cursor() from error
    if moment.tzinfo is None:
        raise cursors.bad_cursor()
    return moment, int(number)


def proofs(session: Session, repository_id: int) -> dict[str, datetime]:
    """Return when files of each archive were last read back, by the engine's archive ids."""
    proven: dict[str, datetime] = {}
    for check in pages.latest_of_kind(session, repository_id, ("restore_check",), PROOFS):
        result = check.result or {}
        archive = (result.get("archive") or {}).get("id")
        if check.status in SUCCEEDED and check.completed_at and archive and result.get("files_proven"):
            proven.setdefault(str(archive), check.completed_at)
    return proven


def rules(session: Session, repository: Repository) -> dict[int, str] | None:
    """Return the retention rule that keeps each archive, by archive id; None if the repository has no retention."""
    if not any(repository.retention.values()):
        return None
    there = session.execute(
        select(Archive.id, Archive.start, Archive.protected_at)
        .where(Archive.repository_id == repository.id, Archive.lost_at.is_(None))
        .order_by(Archive.start.desc(), Archive.id.desc())
    ).all()
    dated = [aged(one.start) for one in there]
    spared = [position for position, one in enumerate(there) if one.protected_at is not None]
    policy = policy_of(repository.retention)
    staying = simulate.kept_now(dated, policy, repository.engine_version, clock.now(), spared)
    return {there[position].id: rule for position, rule in staying.items()}
