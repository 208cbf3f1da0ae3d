"""Remembers repositories that callers may see, until a row changes from which the lookup was made.

For requests that come often, or many at once. A remembered lookup needs no thread.
"""

from functools import partial
from typing import Annotated

from fastapi import Depends
from sqlalchemy import bindparam, func, select
from sqlalchemy.orm import Session

from backup_engine.frozen import frozen
from holdfast.access import rights
from holdfast.access.caller import Caller
from holdfast.access.models import RepositoryRight
from holdfast.access.roles import Role
from holdfast.access.users import RIGHTS
from holdfast.api.parts import Part
from holdfast.api.threads import in_thread
from holdfast.repositories import store
from holdfast.repositories.models import Repository
from holdfast.storage.read_cache import Proof, Query, ReadCache
from holdfast.storage.session import Database

MOST_KNOWN = 1000
FEW_RIGHTS = 50
"""Callers with up to this many rights have their remembered lookups verified by reading the rights again."""

_REPOSITORY = Query(select(Repository.__table__).where(Repository.id == bindparam("wanted")), "wanted")
_COUNT = select(func.count()).where(RepositoryRight.user_id == bindparam("user_id"))


@frozen
class VisibleRepository:
    """A repository that a caller may see."""

    repository: Repository
    """Shared between requests; must not be changed."""
    user_id: int
    rights: int | None
    """The number of the caller's rights; None for a caller who sees all repositories."""

    @property
    def proof(self) -> Proof:
        """The rows on which the lookup depends; empty if there are too many."""
        if self.rights is None:
            return ((_REPOSITORY, self.repository.id),)
        if self.rights > FEW_RIGHTS:
            return ()
        return (_REPOSITORY, self.repository.id), (RIGHTS, self.user_id)


def find_visible(session: Session, caller: Caller, repository_id: int) -> VisibleRepository:
    """Return a repository that the caller may see. Raise NotFound."""
    repository = store.require(session, caller, repository_id, Role.VIEWER)
    return VisibleRepository(repository, caller.user_id, _count_of_rights(session, caller))


def _count_of_rights(session: Session, caller: Caller) -> int | None:
    if rights.sees_all(caller):
        return None
    return session.connection().execute(_COUNT, {"user_id": caller.user_id}).scalar_one()


class RepositoryLookup:
    """Finds repositories for callers; used only on the event loop of the service."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._known: ReadCache[VisibleRepository] = ReadCache(database.version, MOST_KNOWN, lambda known: known.proof)

    async def found(self, caller: Caller, repository_id: int) -> Repository:
        """Return a repository that the caller may see. Raise NotFound."""
        key = caller.view, repository_id
        known = self._known.get(key)
        if known is None:
            read = partial(self._read, caller, repository_id)
            known = await in_thread("reading", partial(self._known.read, key, read))
        return known.repository

    def _read(self, caller: Caller, repository_id: int) -> VisibleRepository:
        with self._database.reading() as session:
            return find_visible(session, caller, repository_id)


REPOSITORY_LOOKUP = Part[RepositoryLookup]("repository_lookup")
TheRepositoryLookup = Annotated[RepositoryLookup, Depends(REPOSITORY_LOOKUP)]
