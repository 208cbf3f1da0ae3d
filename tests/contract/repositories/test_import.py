"""POST /api/repositories/import"""

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.contract.fields import REPOSITORY, error_of
from tests.contract.repositories.test_create import names
from tests.support.running import PASSPHRASE, Running, Services


@pytest.fixture(params=["1.2", "1.4"])
def running(request: pytest.FixtureRequest, services: Services) -> Running:
    return services.get(engine=request.param)


def existing(running: Running, **more: str) -> Path:
    path = running.new_path("existing")
    running.outside.init(path, **{"passphrase": PASSPHRASE, **more})
    return path


def try_import(running: Running, path: Path | str, **more: Any) -> Any:
    body = {"name": running.new_name("imported"), "path": str(path), "index_mode": "off", **more}
    return running.admin.post("/api/repositories/import", json=body)


def test_an_existing_repository_is_imported_and_can_be_used(running: Running) -> None:
    path = existing(running)
    source = running.new_source()
    running.outside.create(path, "from-outside", source, passphrase=PASSPHRASE)

    answer = try_import(running, path, passphrase=PASSPHRASE, source_paths=[str(source)])

    assert answer.status_code == 201, answer.text
    imported = answer.json()
    assert set(imported) >= REPOSITORY
    assert imported["encryption"] == "repokey-blake2", "read from the repository"
    assert imported["has_passphrase"]
    assert imported["total_size"] > 0
    job_id = running.admin.start_backup(imported)
    assert running.admin.wait_for_end(job_id)["status"] == "completed"
    assert len(running.outside.archives(path, PASSPHRASE)) == 2


@pytest.mark.parametrize(
    ("more", "key"),
    [({"passphrase": "not the passphrase"}, "engine.passphrase_wrong"), ({}, "engine.passphrase_missing")],
)
def test_a_wrong_or_missing_passphrase_is_refused(running: Running, more: dict[str, str], key: str) -> None:
    path, before = existing(running), names(running.admin)

    assert error_of(try_import(running, path, **more)) == (422, key)
    assert names(running.admin) == before


def test_a_path_without_a_repository_is_refused(running: Running) -> None:
    before = names(running.admin)
    missing, folder = running.new_path("missing"), running.new_source()

    assert error_of(try_import(running, missing, passphrase=PASSPHRASE)) == (422, "engine.repository_missing")
    assert error_of(try_import(running, folder, passphrase=PASSPHRASE)) == (422, "engine.not_a_repository")
    assert names(running.admin) == before
    assert not missing.exists()


def test_an_unencrypted_repository_must_be_imported_explicitly(running: Running) -> None:
    path = existing(running, encryption="none", passphrase="")

    assert try_import(running, path).status_code == 422
    answer = try_import(running, path, encryption="none")
    assert answer.status_code == 201, answer.text
    assert (answer.json()["encryption"], answer.json()["has_passphrase"]) == ("none", False)


def test_a_key_file_can_be_sent_with_the_import(running: Running) -> None:
    path = existing(running, encryption="keyfile-blake2")
    key = running.outside.export_key(path, PASSPHRASE)

    assert error_of(try_import(running, path, passphrase=PASSPHRASE)) == (422, "engine.passphrase_missing")
    wrong = try_import(running, path, passphrase="not the passphrase", keyfile=key)
    assert error_of(wrong) == (422, "engine.passphrase_wrong")
    answer = try_import(running, path, passphrase=PASSPHRASE, keyfile=key)
    assert answer.status_code == 201, answer.text
    assert answer.json()["has_keyfile"]


def test_the_key_file_of_a_refused_import_is_removed(running: Running) -> None:
    path = existing(running, encryption="keyfile-blake2")
    key = running.outside.export_key(path, PASSPHRASE)
    keys = running.process.data_dir / "engine" / ".config" / "borg" / "keys"
    before = set(keys.glob("*"))

    assert try_import(running, path, passphrase="not the passphrase", keyfile=key).status_code == 422
    assert set(keys.glob("*")) == before


def test_a_repository_in_use_by_another_program_is_reported_as_locked(running: Running) -> None:
    path, before = existing(running), names(running.admin)

    with running.outside.holding_lock(path):
        answer = try_import(running, path, passphrase=PASSPHRASE)
    assert error_of(answer) == (423, "engine.locked")
    assert int(answer.headers["Retry-After"]) > 0
    assert names(running.admin) == before
    assert try_import(running, path, passphrase=PASSPHRASE).status_code == 201


def test_a_registered_path_cannot_be_imported_again(running: Running) -> None:
    answer = try_import(running, running.known.repository["path"], passphrase=PASSPHRASE)

    assert error_of(answer) == (409, "repository.path_taken")


def test_a_repository_that_was_forgotten_and_moved_can_be_imported_at_its_new_path(running: Running) -> None:
    repository = running.new_repository(encryption="repokey")
    assert running.admin.delete(f"/api/repositories/{repository['id']}").status_code == 204
    moved = running.new_path("moved")
    shutil.move(repository["path"], moved)

    answer = try_import(running, moved, passphrase=PASSPHRASE, source_paths=repository["source_paths"])

    assert answer.status_code == 201, "naming the place is the word that it was moved on purpose"
    job_id = running.admin.start_backup(answer.json())
    assert running.admin.wait_for_end(job_id)["status"] == "completed"


def test_only_an_admin_may_import_a_repository(running: Running) -> None:
    body = {"name": "x", "path": str(existing(running)), "passphrase": PASSPHRASE}

    assert error_of(running.stranger.post("/api/repositories/import", json=body)) == (403, "access.forbidden")


@pytest.mark.parametrize("mode", ["authenticated", "authenticated-blake2"])
def test_an_authenticated_repository_is_imported_with_its_own_encryption_mode(running: Running, mode: str) -> None:
    path = existing(running, encryption=mode)

    answer = try_import(running, path, passphrase=PASSPHRASE, encryption=mode, source_paths=[str(running.new_source())])

    assert (answer.status_code, answer.json().get("encryption")) == (201, mode), answer.text
    assert answer.json()["has_passphrase"]
    ended = running.admin.wait_for_end(running.admin.start_backup(answer.json()))
    assert ended["status"] == "completed"
