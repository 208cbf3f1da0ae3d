"""Dumps as a way to reach the service's own data: a user who may write to an SQLite file's folder plants a link."""

import json
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

import pytest

from backup_engine.command import Command
from backup_engine.dumps import Database, feeding
from tests.attacks.places.own import data_folder
from tests.real.dumps.world import add_database, archives, new_sqlite, start_dump
from tests.support.running import Running


@pytest.mark.parametrize("what", ["the file", "a folder above", "another name of the file"])
def test_a_link_to_the_store_in_place_of_a_database_is_not_dumped(running: Running, what: str) -> None:
    folder = running.new_folder("forged-database")
    database = new_sqlite(folder).rename(folder / "holdfast.db")
    repository = running.new_repository()
    add_database(running, repository, name="app", kind="sqlite", database=str(database))
    database.unlink()
    if what == "the file":
        database.symlink_to(data_folder(running) / "holdfast.db")
    elif what == "another name of the file":
        database.hardlink_to(data_folder(running) / "holdfast.db")
    else:
        folder.rmdir()
        folder.symlink_to(data_folder(running))

    ended = running.admin.wait_for_end(start_dump(running, repository))

    assert (ended["status"], ended["error_key"]) == ("failed", "backup.own_places")
    assert archives(running, repository) == []


def test_a_link_that_replaces_a_database_after_the_check_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret.db").touch()
    with closing(sqlite3.connect(tmp_path / "secret.db")) as store, store:
        store.execute("CREATE TABLE secrets (word)")
    (tmp_path / "app.db").symlink_to(tmp_path / "secret.db")
    command = feeding(Command(("borg",), {}), [Database("app", "sqlite", str(tmp_path / "app.db"))])
    (dump,) = json.loads(command.argv[-1])["dumps"]

    ran = subprocess.run(dump["argv"], env=dump["environment"], capture_output=True, text=True, check=False)

    assert ran.returncode == 1
    assert "secrets" not in ran.stdout
    assert "unable to open" in ran.stderr
