import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.access.caller import Caller
from holdfast.access.roles import Role
from holdfast.errors import Conflict, Forbidden, Unprocessable
from holdfast.repositories.models import Repository
from holdfast.repositories.own_places import HiddenPaths, ServicePlaces
from holdfast.settings import Settings
from holdfast.storage.session import Database
from tests.support.stores import a_store

ADMIN = Caller(1, "admin", Role.ADMIN, None, 1, None, False, None)
VIEWER = replace(ADMIN, role=Role.VIEWER)


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    with a_store("sqlite", tmp_path) as database:
        yield database


def places_in(folder: Path, **more: object) -> ServicePlaces:
    (folder / "data").mkdir(parents=True, exist_ok=True)
    return ServicePlaces(Settings(data_dir=folder / "data", **more))  # type: ignore[arg-type]


def repository_of(*sources: str, target: str = "local") -> Repository:
    return Repository(execution_target=target, source_paths=list(sources), own_sources=[])


def test_the_key_file_is_an_own_place_wherever_it_is_stored(tmp_path: Path, database: Database) -> None:
    key = tmp_path / "elsewhere" / "the.key"
    key.parent.mkdir()
    key.write_text("key")
    places = places_in(tmp_path, secret_key_file=key)

    with database.reading() as session:
        assert places.here(session).holds(str(key))
        assert places.guard(session).holds(os.fsencode(key))
        assert not places.here(session).holds(str(key.parent))


def test_a_store_outside_the_data_folder_is_an_own_place(tmp_path: Path, database: Database) -> None:
    places = places_in(tmp_path, database_url=f"sqlite:///{tmp_path}/stores/holdfast.db")

    with database.reading() as session:
        assert places.here(session).holds(f"{tmp_path}/stores/holdfast.db")
        assert places.here(session).holds(f"{tmp_path}/stores/holdfast.db-wal")


def test_a_previous_data_folder_remains_an_own_place(tmp_path: Path, database: Database) -> None:
    before, after = places_in(tmp_path / "before"), places_in(tmp_path / "after")
    for places in (before, after, after):
        places.store(database)

    with database.reading() as session:
        assert after.here(session).holds(f"{tmp_path}/before/data")
        assert after.guard(session).holds(os.fsencode(tmp_path / "before" / "data" / "file"))
        hidden = after.hidden_paths(session, VIEWER, repository_of("/srv"))
    assert hidden.hides(os.fsencode(f"{tmp_path}/before/data/secret.key"))


def test_own_places_in_archives_are_hidden_from_all_users_but_admins(tmp_path: Path, database: Database) -> None:
    places = places_in(tmp_path)
    (tmp_path / "link").symlink_to(tmp_path)
    repository = repository_of(f"{tmp_path}/link/data")

    with database.reading() as session:
        hidden = places.hidden_paths(session, VIEWER, repository)
        assert places.hidden_paths(session, ADMIN, repository).names == ()
        assert places.hidden_paths(session, VIEWER, repository_of("/", target="agent")).names == ()

    data = f"{tmp_path}/data".lstrip("/").encode()
    assert hidden.hides(data)
    assert hidden.hides(b"/" + data + b"/secret.key")
    assert hidden.hides(f"{tmp_path}/link/data/secret.key".encode())
    assert hidden.hides(b"proc/1/environ")
    assert not hidden.hides(data + b"x")
    assert data in hidden.below(b"")
    assert data in hidden.below(os.fsencode(tmp_path))
    with pytest.raises(Forbidden):
        hidden.require_visible([b"harmless", data])


def test_without_own_places_nothing_is_hidden() -> None:
    HiddenPaths().require_visible([b"", b"anything"])

    assert HiddenPaths().below(b"") == ()


def test_own_places_as_sources_need_to_be_confirmed_once(tmp_path: Path, database: Database) -> None:
    places, data = places_in(tmp_path), f"{tmp_path}/data"

    with database.reading() as session:
        with pytest.raises(Conflict):
            places.admitted(session, "local", ["/srv", data], (), confirmed=False)
        assert places.admitted(session, "local", ["/srv", data], (), confirmed=True) == [data]
        assert places.admitted(session, "local", [data], [data], confirmed=False) == [data]
        assert places.admitted(session, "local", ["/srv"], [data], confirmed=False) == []
        assert places.admitted(session, "agent", [data], (), confirmed=False) == []


@pytest.mark.parametrize("name", ["{folder}/link/data", "{folder}/./data", "{folder}/data/", "{folder}/data/../data"])
def test_own_places_as_sources_are_refused_unless_named_by_their_real_path(
    tmp_path: Path, database: Database, name: str
) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    places = places_in(tmp_path)

    with database.reading() as session, pytest.raises(Unprocessable):
        places.admitted(session, "local", [name.format(folder=tmp_path)], (), confirmed=True)
