"""Processes with the same store must share their data folder, or they do not start."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from holdfast.access.vault import Vault
from holdfast.entry import shared_folder
from holdfast.repositories.key_files import KeyFiles
from holdfast.settings import Settings
from holdfast.storage.migrate import migrate
from holdfast.storage.session import Database
from tests.support.postgres import postgres_server
from tests.support.running import Services
from tests.support.service import PROGRAM

KEY = "BORG_KEY " + "ab" * 32 + "\nhqlhbGdvcml0aG2m\n"


def test_a_process_with_its_own_data_folder_refuses_to_start_with_a_clear_error(
    services: Services, tmp_path: Path
) -> None:
    first = services.get("postgresql").process
    own = tmp_path / "own"
    ended = subprocess.run(
        [PROGRAM, "serve", "--role", "runner", "--data-dir", own],
        env={**os.environ, **first.environment, "HOLDFAST_DATABASE_URL": first.database_url or ""},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )

    assert ended.returncode == 78, ended.stderr
    assert "not the one used by this installation's other processes" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert not (own / shared_folder.FILE).exists()


def test_a_store_is_bound_to_its_first_folder_until_another_is_adopted(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    old.mkdir()
    new.mkdir()
    with postgres_server().database() as url:
        database = Database(url)
        migrate(database)
        for _ in range(2):
            shared_folder.require_shared(database, old)

        with pytest.raises(shared_folder.FolderNotShared):
            shared_folder.require_shared(database, new)
        assert list(new.iterdir()) == []

        shared_folder.adopt(database, new)
        shared_folder.require_shared(database, new)
        with pytest.raises(shared_folder.FolderNotShared):
            shared_folder.require_shared(database, old)
        database.dispose()


def test_a_sealed_key_from_one_process_is_placed_where_the_engine_of_another_finds_it(tmp_path: Path) -> None:
    vault = Vault(Settings(data_dir=tmp_path))
    here, elsewhere = KeyFiles(tmp_path / "here", vault), KeyFiles(tmp_path / "elsewhere", vault)
    here.put("a" * 32, KEY)
    sealed = here.sealed("a" * 32, "ab" * 32)
    assert sealed is not None
    assert "hqlh" not in sealed
    assert here.sealed("a" * 32, "cd" * 32) is None

    elsewhere.materialise("a" * 32, "ab" * 32, sealed)

    (file,) = (tmp_path / "elsewhere").iterdir()
    assert file.read_text() == KEY
    assert file.stat().st_mode & 0o077 == 0


def test_a_keyfile_repository_opens_after_the_key_files_of_the_engine_were_lost(services: Services) -> None:
    running = services.get("postgresql")
    repository = running.new_repository(encryption="keyfile-blake2", passphrase="a passphrase")
    keys = running.process.data_dir / "engine" / ".config" / "borg" / "keys"
    assert list(keys.iterdir())
    for file in keys.iterdir():
        file.unlink()

    ended = running.admin.wait_for_end(running.admin.start_backup(repository))

    assert ended["status"] == "completed", json.dumps(ended)
