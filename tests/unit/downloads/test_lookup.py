"""Lookups of archives are cached, but an archive never stays visible longer than the store allows."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import delete, update

from holdfast.access.caller import Caller
from holdfast.access.models import RepositoryRight, User
from holdfast.access.roles import Role
from holdfast.downloads.lookup import ArchiveLookup
from holdfast.errors import Conflict, NotFound
from holdfast.kit import clock
from holdfast.repositories.archive_records import Archive
from holdfast.repositories.models import Repository
from holdfast.repositories.own_places import ServicePlaces
from holdfast.settings import Settings
from holdfast.storage.session import Database
from tests.support.stores import KINDS, a_store
from tests.unit.archives.records import a_repository, an_archive, day

ADMIN = Caller(1, "admin", Role.ADMIN, None, 1, None, must_change_password=False, address=None)
ANNE = Caller(2, "anne", Role.VIEWER, None, 2, None, must_change_password=False, address=None)


@pytest.fixture(params=KINDS)
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    with a_store(request.param, tmp_path) as opened:
        yield opened


@pytest.fixture
def place(database: Database) -> tuple[int, int]:
    """A repository with an archive, and a user who may read it."""
    with database.writing() as session:
        session.add(User(id=2, username="anne", username_key="anne", password_hash="", role=Role.VIEWER))
        repository = a_repository(session, execution_target="ssh")
        archive = an_archive(session, repository, "first", day(1))
        session.add(RepositoryRight(user_id=2, repository_id=repository.id, role=Role.VIEWER))
        return repository.id, archive.id


def looking(database: Database, tmp_path: Path, place: tuple[int, int]) -> Callable[[Caller], str]:
    lookup = ArchiveLookup(database, ServicePlaces(Settings(data_dir=tmp_path / "data")))
    return lambda caller: lookup.found(caller, *place, (b"etc/hosts",))[0].name


def test_a_lookup_survives_unrelated_changes_and_reflects_changes_to_its_own_rows(
    database: Database, tmp_path: Path, place: tuple[int, int]
) -> None:
    look = looking(database, tmp_path, place)
    before = [look(ADMIN), look(ANNE)]
    with database.writing() as session:
        a_repository(session)
    assert [look(ADMIN), look(ANNE)] == before
    with database.writing() as session:
        session.execute(update(Repository).where(Repository.id == place[0]).values(name="renamed"))
    assert [look(ADMIN), look(ANNE)] == ["renamed", "renamed"]


def test_withdrawing_a_right_ends_only_the_lookup_of_its_user(
    database: Database, tmp_path: Path, place: tuple[int, int]
) -> None:
    look = looking(database, tmp_path, place)
    before = look(ADMIN), look(ANNE)
    with database.writing() as session:
        session.execute(delete(RepositoryRight))
    assert look(ADMIN) == before[0]
    with pytest.raises(NotFound):
        look(ANNE)


def test_a_lost_or_removed_archive_is_refused_at_the_next_request(
    database: Database, tmp_path: Path, place: tuple[int, int]
) -> None:
    look = looking(database, tmp_path, place)
    look(ADMIN)
    with database.writing() as session:
        session.execute(update(Archive).values(lost_at=clock.now()))
    with pytest.raises(Conflict):
        look(ADMIN)
    with database.writing() as session:
        session.execute(delete(Archive))
    with pytest.raises(NotFound):
        look(ADMIN)
