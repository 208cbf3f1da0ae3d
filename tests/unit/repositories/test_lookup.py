"""A repository that many requests need is looked up once, and never stays visible longer than the store allows."""

import asyncio
from pathlib import Path

import pytest
from sqlalchemy import delete, update

from holdfast.access.caller import Caller
from holdfast.access.models import RepositoryRight, User
from holdfast.access.roles import Role
from holdfast.errors import NotFound
from holdfast.repositories import lookup as lookups
from holdfast.repositories.lookup import RepositoryLookup
from holdfast.repositories.models import Repository
from tests.support.stores import KINDS, a_store
from tests.unit.archives.records import a_repository

ADMIN = Caller(1, "admin", Role.ADMIN, None, 1, None, must_change_password=False, address=None)
ANNE = Caller(2, "anne", Role.VIEWER, None, 2, None, must_change_password=False, address=None)


@pytest.mark.parametrize("store", KINDS)
def test_a_lookup_is_valid_until_the_repository_or_a_right_on_it_changes(tmp_path: Path, store: str) -> None:
    with a_store(store, tmp_path) as database:
        with database.writing() as session:
            session.add(User(id=2, username="anne", username_key="anne", password_hash="", role=Role.VIEWER))
            place = a_repository(session).id
            session.add(RepositoryRight(user_id=2, repository_id=place, role=Role.VIEWER))
        lookup = RepositoryLookup(database)

        def look(caller: Caller) -> str:
            return asyncio.run(lookup.found(caller, place)).name

        before = look(ADMIN)
        assert look(ANNE) == before
        with database.writing() as session:
            session.execute(update(Repository).where(Repository.id == place).values(name="renamed"))
        assert [look(ADMIN), look(ANNE)] == ["renamed", "renamed"]
        with database.writing() as session:
            session.execute(delete(RepositoryRight))
        assert look(ADMIN) == "renamed"
        with pytest.raises(NotFound):
            look(ANNE)
        with database.writing() as session:
            session.execute(delete(Repository))
        with pytest.raises(NotFound):
            look(ADMIN)


def test_a_cached_repository_is_found_without_a_thread_after_unrelated_commits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with a_store("sqlite", tmp_path) as database:
        with database.writing() as session:
            place = a_repository(session).id
        lookup = RepositoryLookup(database)
        asyncio.run(lookup.found(ADMIN, place))
        with database.writing() as session:
            a_repository(session)
        monkeypatch.setattr(lookups, "in_thread", lambda *_: pytest.fail("it went to a thread"))

        assert asyncio.run(lookup.found(ADMIN, place)).id == place
