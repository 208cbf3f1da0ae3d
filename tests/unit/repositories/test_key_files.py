"""The keys of keyfile repositories are stored, follow changes made with the engine, and survive rotations."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import select

from holdfast.access import administration
from holdfast.access.vault import SecretUnreadable, Vault, key_id_of
from holdfast.composition import register_secrets
from holdfast.repositories import feature
from holdfast.repositories.key_files import LARGEST, KeyFiles, keep_known_keys, key_context
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


def test_the_engines_key_is_stored_when_the_service_starts(
    database: Database, settings: Settings, key_files: KeyFiles, tmp_path: Path
) -> None:
    key_files.put(UUID, KEY)
    with started(tmp_path):
        assert opened(database, settings) == KEY


def test_a_key_that_changes_while_the_service_runs_is_stored(
    database: Database, settings: Settings, key_files: KeyFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feature, "KEYS_SECONDS", 0.05)
    key_files.put(UUID, KEY)
    with started(tmp_path):
        key_files.put(UUID, CHANGED)
        wait_until(lambda: opened(database, settings) == CHANGED, what="the changed key is stored")


def test_an_unchanged_key_is_not_written_again(database: Database, key_files: KeyFiles) -> None:
    key_files.put(UUID, KEY)
    keep_known_keys(database, key_files)
    first = stored(database)
    assert first is not None

    keep_known_keys(database, key_files)

    assert stored(database) == first


def test_a_key_stored_by_another_process_meanwhile_is_not_overwritten(database: Database, settings: Settings) -> None:
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


def test_a_rotation_encrypts_stored_keys_with_the_new_key(
    database: Database, settings: Settings, key_files: KeyFiles
) -> None:
    key_files.put(UUID, KEY)
    keep_known_keys(database, key_files)
    register_secrets()

    result = administration.rotate_key(database, settings)

    assert key_id_of(stored(database) or "") == result.active_key
    assert opened(database, settings) == KEY


def test_a_key_given_with_an_import_is_never_written_beside_a_managed_repositorys_key(
    database: Database, settings: Settings, key_files: KeyFiles
) -> None:
    """Otherwise the engine might find either, and the store would keep the wrong one."""
    key_files.put(UUID, KEY)
    keep_known_keys(database, key_files)

    assert key_files.put_given(database, "0" * 32, CHANGED) is None
    keep_known_keys(database, key_files)

    assert opened(database, settings) == KEY
    assert [file.read_text() for file in (settings.engine_dir / ".config/borg/keys").iterdir()] == [KEY]


def test_a_key_given_with_an_import_is_written_if_there_is_no_other(
    database: Database, settings: Settings, key_files: KeyFiles
) -> None:
    of_another = KEY.replace(ENGINE_ID, "cd" * 32)
    for number, content in enumerate((KEY, of_another)):
        file = key_files.put_given(database, f"{number:032}", content)
        assert file is not None
        assert file.read_text() == content
        assert file.stat().st_mode & 0o777 == 0o600
        assert file.parent.stat().st_mode & 0o777 == 0o700


def test_only_the_repositorys_own_key_is_stored(database: Database, settings: Settings, key_files: KeyFiles) -> None:
    folder = settings.engine_dir / ".config/borg/keys"
    folder.mkdir(parents=True)
    (folder / "bytes").write_bytes(KEY.encode() + b"\xff")
    (folder / "of-another").write_text(KEY.replace(ENGINE_ID, "cd" * 32))
    (folder / "large").write_text(KEY + "x" * LARGEST)
    (folder / ".part").write_text(CHANGED)
    (folder / "folder").mkdir()

    keep_known_keys(database, key_files)
    assert stored(database) is None

    key_files.put(UUID, KEY)
    keep_known_keys(database, key_files)
    assert opened(database, settings) == KEY


def test_an_existing_key_of_the_engine_is_not_replaced_by_the_stored_one(
    database: Database, settings: Settings, key_files: KeyFiles
) -> None:
    sealed = Vault(settings).encrypt(KEY, key_context(UUID))
    key_files.materialise(UUID, ENGINE_ID, sealed)
    (file,) = (settings.engine_dir / ".config/borg/keys").iterdir()
    assert file.read_text() == KEY

    file.write_text(CHANGED)
    key_files.materialise(UUID, ENGINE_ID, sealed)

    assert file.read_text() == CHANGED


def test_keys_kept_elsewhere_are_not_stored_and_a_stored_key_is_bound_to_its_repository(
    database: Database, settings: Settings, key_files: KeyFiles
) -> None:
    key_files.put(UUID, KEY)
    with database.writing() as session:
        session.scalars(select(Repository)).one().execution_target = "ssh"
    keep_known_keys(database, key_files)
    assert stored(database) is None, "its key is on its machine"
    with database.writing() as session:
        one = session.scalars(select(Repository)).one()
        one.execution_target, one.has_keyfile = "local", False
    keep_known_keys(database, key_files)
    assert stored(database) is None, "its key is in the repository"

    sealed = Vault(settings).encrypt(KEY, key_context(UUID))
    with pytest.raises(SecretUnreadable):
        key_files.renewed("d" * 32, ENGINE_ID, sealed)
