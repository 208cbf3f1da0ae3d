"""Repositories that callers see: looked up once, until a row that the lookup was made from differs.

For requests that come often, or many at once. A lookup that is known takes no thread.
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
from holdfast.storage.remembered import Proof, Query, Remembered
from holdfast.storage.session import Database

MOST_KNOWN = 1000
FEW_RIGHTS = 50
"""Rights of a caller whose lookups are proven by reading them again."""

_REPOSITORY = Query(select(Repository.__table__).where(Repository.id == bindparam("wanted")), "wanted")
_COUNT = select(func.count()).where(RepositoryRight.user_id == bindparam("user_id"))


@frozen
class Seen:
    """A repository that a caller may see."""

    repository: Repository
    """Not to be changed: others have it too."""
    user_id: int
    rights: int | None
    """How many the caller has; None for one who sees all repositories."""

    @property
    def proof(self) -> Proof:
        """The rows that this follows from; none where there are too many."""
        if self.rights is None:
            return ((_REPOSITORY, self.repository.id),)
        if self.rights > FEW_RIGHTS:
            return ()
        return (_REPOSITORY, self.repository.id), (RIGHTS, self.user_id)


def seen(session: Session, caller: Caller, repository_id: int) -> Seen:
    """Raise NotFound."""
    repository = store.require(session, caller, repository_id, Role.VIEWER)
    return Seen(repository, caller.user_id, _count_of_rights(session, caller))


def _count_of_rights(session: Session, caller: Caller) -> int | None:
    if rights.sees_all(caller):
        return None
    return session.connection().execute(_COUNT, {"user_id": caller.user_id}).scalar_one()


class RepositoryLookup:
    """Belongs to the event loop of the service."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._known: Remembered[Seen] = Remembered(database.version, MOST_KNOWN, lambda known: known.proof)

    async def found(self, caller: Caller, repository_id: int) -> Repository:
        """Raise NotFound."""
        key = caller.view, repository_id
        known = self._known.get(key)
        if known is None:
            read = partial(self._read, caller, repository_id)
            known = await in_thread("reading", partial(self._known.read, key, read))
        return known.repository

    def _read(self, caller: Caller, repository_id: int) -> Seen:
        with self._database.reading() as session:
            return seen(session, caller, repository_id)


REPOSITORY_LOOKUP = Part[RepositoryLookup]("repository_lookup")
TheRepositoryLookup = Annotated[RepositoryLookup, Depends(REPOSITORY_LOOKUP)]
