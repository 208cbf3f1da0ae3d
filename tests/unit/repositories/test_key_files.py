"""The keys of keyfile repositories get into the store, follow changes made with the engine, and outlive rotations."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import select

from holdfast.access import administration
from holdfast.access.vault import Vault, key_id_of
from holdfast.composition import register_secrets
from holdfast.repositories import feature
from holdfast.repositories.key_files import KeyFiles, keep_known_keys, key_context
from holdfast.repositories.models import Repository
from holdfast.settings import Settings
from holdfast.storage.session import Database
from tests.support.in_process import started
from tests.support.service import wait_until
from tests.support.stores import a_store
from tests.unit.archives.records import a_repository

ENGINE_ID = "ab" * 32
UUID = "c" * 32
KEY = f"BORG_KEY {ENGINE_ID}\nhqlhbGdvcml0aG2m\n"
CHANGED = f"BORG_KEY {ENGINE_ID}\nAnotherPassphrase\n"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(data_dir=tmp_path)


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    with a_store("sqlite", tmp_path) as database:
        with database.writing() as session:
            a_repository(session, uuid=UUID, engine_id=ENGINE_ID, has_keyfile=True)
        yield database


@pytest.fixture
def key_files(settings: Settings) -> KeyFiles:
    return KeyFiles(settings.engine_dir / ".config" / "borg" / "keys", Vault(settings))


def stored(database: Database) -> str | None:
    with database.reading() as session:
        return session.scalars(select(Repository.keyfile)).one()


def opened(database: Database, settings: Settings) -> str | None:
    sealed = stored(database)
    return None if sealed is None else Vault(settings).decrypt(sealed, key_context(UUID))


def test_a_key_that_the_engine_has_when_the_service_starts_is_stored(
    database: Database, settings: Settings, key_files: KeyFiles, tmp_path: Path
) -> None:
    key_files.put(UUID, KEY)
    with started(tmp_path):
        assert opened(database, settings) == KEY


def test_a_key_that_the_engine_changes_while_the_service_runs_is_stored(
    database: Database, settings: Settings, key_files: KeyFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feature, "KEYS_SECONDS", 0.05)
    key_files.put(UUID, KEY)
    with started(tmp_path):
        key_files.put(UUID, CHANGED)
        wait_until(lambda: opened(database, settings) == CHANGED, what="the changed key is stored")


def test_a_key_that_the_store_has_is_not_written_again(database: Database, key_files: KeyFiles) -> None:
    key_files.put(UUID, KEY)
    keep_known_keys(database, key_files)
    first = stored(database)
    assert first is not None

    keep_known_keys(database, key_files)

    assert stored(database) == first


def test_a_key_that_was_stored_since_the_look_is_not_overwritten(database: Database, settings: Settings) -> None:
    vault = Vault(settings)
    newer = vault.encrypt(CHANGED, key_context(UUID))

    class Overtaken(KeyFiles):
        def renewed(self, repository_uuid: str, engine_id: str | None, known: str | None) -> str | None:
            found = super().renewed(repository_uuid, engine_id, known)
            with database.writing() as session:
                session.scalars(select(Repository)).one().keyfile = newer
            return found

    key_files = Overtaken(settings.engine_dir / "keys", vault)
    key_files.put(UUID, KEY)

    keep_known_keys(database, key_files)

    assert stored(database) == newer


def test_stored_keys_move_to_the_new_key_of_a_rotation(
    database: Database, settings: Settings, key_files: KeyFiles
) -> None:
    key_files.put(UUID, KEY)
    keep_known_keys(database, key_files)
    register_secrets()

    result = administration.rotate_key(database, settings)

    assert key_id_of(stored(database) or "") == result.active_key
    assert opened(database, settings) == KEY
