"""Archives that callers read from: looked up once, until a row that the lookup was made from differs.

A client that opens a folder, or plays a video, asks for hundreds of parts of the same archive.
"""

import time
from collections.abc import Sequence
from functools import partial
from typing import Annotated

from fastapi import Depends
from sqlalchemy import bindparam, func, select
from sqlalchemy.orm import Session

from holdfast.access import rights
from holdfast.access.caller import Caller
from holdfast.access.models import RepositoryRight
from holdfast.access.roles import Role
from holdfast.api.parts import Part
from holdfast.kit.frozen import frozen
from holdfast.repositories import archive_records
from holdfast.repositories import store as repositories
from holdfast.repositories.archive_records import Archive
from holdfast.repositories.models import Repository
from holdfast.repositories.own_places import NOTHING_SEALED, Sealed, ServicePlaces
from holdfast.storage.remembered import Proof, Query, Remembered
from holdfast.storage.session import Database

MOST_KNOWN = 1000
SEALED_SECONDS = 1.0
"""How long hidden names are remembered. Working them out takes longer than reading a file."""
FEW_RIGHTS = 50
"""Rights of a caller whose lookups are proven by reading them again."""

Found = tuple[Repository, Archive, Sealed]
"""A repository, an archive of it, and the part of it that the caller may not read. Not to be changed."""


@frozen
class _Known:
    repository: Repository
    archive: Archive
    user_id: int
    rights: int | None
    """How many the caller has; None for one who sees all repositories."""


_REPOSITORY = Query(select(Repository.__table__).where(Repository.id == bindparam("wanted")), "wanted")
_ARCHIVE = Query(select(Archive.__table__).where(Archive.id == bindparam("wanted")), "wanted")
_RIGHTS = Query(
    select(RepositoryRight.__table__)
    .where(RepositoryRight.user_id == bindparam("wanted"))
    .order_by(RepositoryRight.repository_id),
    "wanted",
)
_COUNT = select(func.count()).where(RepositoryRight.user_id == bindparam("user_id"))


def _proof_of(known: _Known) -> Proof:
    if known.rights is not None and known.rights > FEW_RIGHTS:
        return ()
    rows = (_REPOSITORY, known.repository.id), (_ARCHIVE, known.archive.id)
    return rows if known.rights is None else (*rows, (_RIGHTS, known.user_id))


class ArchiveLookup:
    """Safe for use from many threads."""

    def __init__(self, database: Database, places: ServicePlaces) -> None:
        self._database = database
        self._places = places
        self._known: Remembered[_Known] = Remembered(database.version, MOST_KNOWN, _proof_of)
        self._sealed: dict[tuple[str, ...], tuple[float, Sealed]] = {}
        """By the sources of a repository."""

    def found(self, caller: Caller, repository_id: int, archive_id: int, paths: Sequence[bytes]) -> Found:
        """Raise NotFound, Conflict for a lost archive, or Forbidden if the caller may not read one of the paths."""
        key = caller.view, repository_id, archive_id
        known = self._known.get(key)
        if known is None:
            known = self._known.read(key, partial(self._read, caller, repository_id, archive_id))
        sealed = self.sealed(caller, known.repository)
        sealed.require(paths)
        return known.repository, known.archive, sealed

    def sealed(self, caller: Caller, repository: Repository) -> Sealed:
        """It follows from the mounts and links of this machine, which are looked at once a second."""
        if not self._places.may_be_sealed(caller, repository.execution_target):
            return NOTHING_SEALED
        now, key = time.monotonic(), tuple(repository.source_paths)
        known = self._sealed.get(key)
        if known is None or now - known[0] > SEALED_SECONDS:
            with self._database.reading() as session:
                known = now, self._places.sealed(session, caller, repository)
            if len(self._sealed) >= MOST_KNOWN:
                self._sealed.clear()
            self._sealed[key] = known
        return known[1]

    def _read(self, caller: Caller, repository_id: int, archive_id: int) -> _Known:
        with self._database.reading() as session:
            repository = repositories.require(session, caller, repository_id, Role.VIEWER)
            archive = archive_records.require_present(archive_records.of_repository(session, repository.id, archive_id))
            return _Known(repository, archive, caller.user_id, _count_of_rights(session, caller))


def _count_of_rights(session: Session, caller: Caller) -> int | None:
    if rights.sees_all(caller):
        return None
    return session.connection().execute(_COUNT, {"user_id": caller.user_id}).scalar_one()


ARCHIVE_LOOKUP = Part[ArchiveLookup]("archive_lookup")
TheLookup = Annotated[ArchiveLookup, Depends(ARCHIVE_LOOKUP)]
