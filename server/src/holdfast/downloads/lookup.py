"""Looks up archives to read from. A lookup stays valid until one of the rows it was read from changes.

A client that opens a folder or plays a video requests hundreds of parts of the same archive.
"""

import time
from collections.abc import Sequence
from functools import partial
from typing import Annotated

from fastapi import Depends
from sqlalchemy import bindparam, select

from backup_engine.frozen import frozen
from holdfast.access.caller import Caller
from holdfast.api.parts import Part
from holdfast.api.threads import in_thread
from holdfast.repositories import archive_records
from holdfast.repositories.archive_records import Archive
from holdfast.repositories.lookup import MOST_KNOWN, VisibleRepository, find_visible
from holdfast.repositories.models import Repository
from holdfast.repositories.own_places import NOTHING_HIDDEN, HiddenPaths, ServicePlaces
from holdfast.storage.read_cache import Proof, Query, ReadCache
from holdfast.storage.session import Database

HIDDEN_SECONDS = 1.0
"""How long hidden names are cached. Determining them takes longer than reading a file."""

FoundArchive = tuple[Repository, Archive, HiddenPaths]
"""A repository, one of its archives, and the part of it that the caller may not read. Must not be changed."""


@frozen
class _Known:
    visible: VisibleRepository
    archive: Archive

    @property
    def proof(self) -> Proof:
        rows = self.visible.proof
        return (*rows, (_ARCHIVE, self.archive.id)) if rows else ()


_ARCHIVE = Query(select(Archive.__table__).where(Archive.id == bindparam("wanted")), "wanted")


class ArchiveLookup:
    """Looks up archives and hidden names. Safe for use from many threads."""

    def __init__(self, database: Database, places: ServicePlaces) -> None:
        self._database = database
        self._places = places
        self._known: ReadCache[_Known] = ReadCache(database.version, MOST_KNOWN, lambda known: known.proof)
        self._hidden: dict[tuple[str, ...], tuple[float, HiddenPaths]] = {}
        """Keyed by the source paths of a repository."""

    def found(self, caller: Caller, repository_id: int, archive_id: int, paths: Sequence[bytes]) -> FoundArchive:
        """Return the archive if the caller may read the paths.

        Raise NotFound, Conflict for a lost archive, or Forbidden if the caller may not read one of the paths.
        """
        key = caller.view, repository_id, archive_id
        known = self._known.get(key) or self._looked_up(caller, repository_id, archive_id)
        archive = archive_records.require_present(known.archive)
        repository = known.visible.repository
        hidden = self.hidden_paths(caller, repository)
        hidden.require_visible(paths)
        return repository, archive, hidden

    async def find_visible(self, caller: Caller, repository_id: int, archive_id: int) -> tuple[Repository, Archive]:
        """Return the archive, even if it is lost. A cached one takes no thread. Raise NotFound."""
        known = self._known.get((caller.view, repository_id, archive_id))
        if known is None:
            known = await in_thread("reading", partial(self._looked_up, caller, repository_id, archive_id))
        return known.visible.repository, known.archive

    def hidden_paths(self, caller: Caller, repository: Repository) -> HiddenPaths:
        """The names hidden from the caller. They depend on the mounts and links of this machine, checked at most once a
        second.
        """
        if not self._places.may_hide_paths(caller, repository.execution_target):
            return NOTHING_HIDDEN
        now, key = time.monotonic(), tuple(repository.source_paths)
        known = self._hidden.get(key)
        if known is None or now - known[0] > HIDDEN_SECONDS:
            with self._database.reading() as session:
                known = now, self._places.hidden_paths(session, caller, repository)
            if len(self._hidden) >= MOST_KNOWN:
                self._hidden.clear()
            self._hidden[key] = known
        return known[1]

    def _looked_up(self, caller: Caller, repository_id: int, archive_id: int) -> _Known:
        def read() -> _Known:
            with self._database.reading() as session:
                found = find_visible(session, caller, repository_id)
                return _Known(found, archive_records.of_repository(session, repository_id, archive_id))

        return self._known.read((caller.view, repository_id, archive_id), read)


ARCHIVE_LOOKUP = Part[ArchiveLookup]("archive_lookup")
TheLookup = Annotated[ArchiveLookup, Depends(ARCHIVE_LOOKUP)]
