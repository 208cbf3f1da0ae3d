"""Creating and importing repositories of engine 2; a refused request stores nothing."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.contract.engine2.world import backup, live
from tests.contract.fields import error_of
from tests.support.engines import ENGINE_2
from tests.support.outside import Outside
from tests.support.running import PASSPHRASE, Running
from tests.support.service import Client


def names(client: Client) -> set[str]:
    return {one["name"] for one in client.get("/api/repositories/").json()["repositories"]}


def wanted(running: Running, **more: Any) -> dict[str, Any]:
    path = running.new_path()
    return {"name": path.name, "path": str(path), "engine_version": 2, "passphrase": PASSPHRASE, **more}


@pytest.fixture
def outside(running: Running) -> Outside:
    assert ENGINE_2 is not None
    return Outside(ENGINE_2, running.new_folder("outside"))


def made_outside(running: Running, outside: Outside, *options: str) -> Path:
    path = running.new_path("made-outside")
    outside.run("-r", str(path), "repo-create", *options, passphrase=PASSPHRASE)
    outside.run("-r", str(path), "create", "theirs", str(running.new_source()), passphrase=PASSPHRASE)
    return path


def test_a_repository_has_the_defaults_of_its_engine(running: Running, admin: Client) -> None:
    answer = admin.post("/api/repositories/", json=wanted(running))

    assert answer.status_code == 201, answer.text
    created = answer.json()
    assert (created["encryption"], created["archive_name_template"]) == ("aes256-ocb", "{repository}")
    assert (created["total_size"], created["unique_size"]) == (None, None)
    assert (Path(created["path"]) / "config").is_dir()


@pytest.mark.parametrize(
    ("more", "key"),
    [
        ({"encryption": "repokey-blake2"}, None),
        ({"upload_ratelimit_kib": 100}, "engine.unsupported"),
        ({"custom_flags": ["--noatime"]}, "engine.invalid_request"),
        ({"path": "/srv/{now}"}, "engine.invalid_request"),
    ],
)
def test_invalid_settings_are_refused_and_nothing_is_stored(
    running: Running, admin: Client, more: dict[str, Any], key: str | None
) -> None:
    before = names(admin)
    answer = admin.post("/api/repositories/", json=wanted(running, **more))

    assert answer.status_code == 422
    if key is not None:
        assert error_of(answer) == (422, key)
    assert names(admin) == before


def test_a_missing_engine_and_an_unknown_beta_are_reported_and_change_nothing(
    running: Running, admin: Client, program: Path
) -> None:
    before, body = names(admin), wanted(running)
    kept = program.rename(program.with_name("kept"))
    try:
        missing = admin.post("/api/repositories/", json=body)
        program.write_text("#!/bin/sh\necho borg 2.0.0b25\n")
        program.chmod(0o755)
        unknown = admin.post("/api/repositories/", json=body)
        imported = admin.post("/api/repositories/import", json=body)
    finally:
        kept.replace(program)

    assert error_of(missing) == (422, "engine.not_installed")
    assert error_of(unknown) == error_of(imported) == (422, "engine.unsupported")
    assert "2.0.0b23" in unknown.json()["detail"]["message"]
    assert names(admin) == before
    assert not Path(body["path"]).exists()


def test_a_repository_created_elsewhere_is_imported_with_its_archives(
    running: Running, admin: Client, outside: Outside
) -> None:
    path = made_outside(running, outside, "-e", "chacha20-poly1305", "-i", "blake3")
    body = wanted(running, path=str(path), index_mode="off")

    assert error_of(admin.post("/api/repositories/import", json={**body, "passphrase": "wrong"})) == (
        422,
        "engine.passphrase_wrong",
    )
    answer = admin.post("/api/repositories/import", json=body)

    assert answer.status_code == 201, answer.text
    assert answer.json()["encryption"] == "chacha20-poly1305-blake3"
    assert list(live(running, answer.json()).values()) == ["theirs"]


@pytest.mark.campaign
def test_a_repository_with_an_external_key_is_imported_with_its_key_file(
    running: Running, admin: Client, outside: Outside
) -> None:
    path = made_outside(running, outside, "-e", "aes256-ocb", "--key-location", "keyfile")
    key = outside.run("-r", str(path), "key", "export", passphrase=PASSPHRASE)
    body = wanted(running, path=str(path), index_mode="off")

    assert error_of(admin.post("/api/repositories/import", json=body)) == (422, "engine.passphrase_missing")
    answer = admin.post("/api/repositories/import", json={**body, "keyfile": key})

    assert answer.status_code == 201, answer.text
    assert (answer.json()["encryption"], answer.json()["has_keyfile"]) == ("keyfile-aes256-ocb", True)


def test_a_repository_of_the_other_engine_is_not_imported(running: Running, admin: Client) -> None:
    ours = running.new_repository()
    copy = running.new_path("copy")
    shutil.copytree(ours["path"], copy)
    before = names(admin)

    answer = admin.post("/api/repositories/import", json=wanted(running, path=str(copy), encryption="none"))

    assert error_of(answer)[1] in {"engine.repository_missing", "engine.not_a_repository"}
    assert names(admin) == before


@pytest.mark.campaign
def test_characters_that_the_engine_refuses_are_replaced_in_archive_names(running: Running, admin: Client) -> None:
    source = running.new_source()
    body = wanted(running, name='what? "this" <one> {2}', source_paths=[str(source)], index_mode="off")
    created = admin.post("/api/repositories/", json=body).json()

    assert backup(running, created)["archive_name"] == "what---this---one--2"
