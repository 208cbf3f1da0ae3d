"""POST /api/repositories/"""

from pathlib import Path
from typing import Any

import pytest

from tests.contract.fields import REPOSITORY, RETENTION, error_of
from tests.support.running import PASSPHRASE, Running, Services
from tests.support.service import Client


def wanted(running: Running, **more: Any) -> dict[str, Any]:
    name = running.new_name("wanted")
    return {"name": name, "path": str(running.folder / name), "passphrase": PASSPHRASE, **more}


def names(client: Client) -> set[str]:
    return {repository["name"] for repository in client.get("/api/repositories/").json()["repositories"]}


def test_a_repository_is_created_with_the_defaults_of_the_contract(running: Running, admin: Client) -> None:
    body = wanted(running)
    answer = admin.post("/api/repositories/", json=body)

    assert answer.status_code == 201, answer.text
    created = answer.json()
    assert set(created) >= REPOSITORY
    assert created["name"] == body["name"]
    assert created["path"] == body["path"]
    assert created["engine_version"] == 1
    assert created["encryption"] == "repokey-blake2"
    assert (created["repository_type"], created["execution_target"]) == ("local", "local")
    assert (created["mode"], created["index_mode"], created["compression"]) == ("full", "full", "lz4")
    assert (created["has_passphrase"], created["has_keyfile"]) == (True, False)
    assert created["passphrase_location"] == "server"
    assert created["source_paths"] == created["exclude_patterns"] == created["history_index_excludes"] == []
    assert created["retention"] == dict.fromkeys(RETENTION)
    assert created["last_backup"] is created["running_operation"] is created["latest_sync_job"] is None
    assert (Path(body["path"]) / "config").is_file(), "the engine's init has run"
    assert admin.get(f"/api/repositories/{created['id']}").json()["name"] == body["name"]


@pytest.mark.parametrize("engine", ["1.2", "1.4"])
@pytest.mark.parametrize(
    ("encryption", "has_passphrase", "has_keyfile"), [("keyfile-blake2", True, True), ("none", False, False)]
)
def test_the_encryption_mode_decides_whether_there_is_a_passphrase_and_a_key_file(
    services: Services, engine: str, encryption: str, has_passphrase: bool, has_keyfile: bool
) -> None:
    running = services.get(engine=engine)
    created = running.new_repository(encryption=encryption)

    assert created["encryption"] == encryption
    assert (created["has_passphrase"], created["has_keyfile"]) == (has_passphrase, has_keyfile)


def test_all_settings_are_stored_as_given(running: Running, admin: Client) -> None:
    settings: dict[str, Any] = {
        "compression": "zstd,3",
        "source_paths": ["/etc", "/srv/ä"],
        "exclude_patterns": ["sh:**/*.tmp", "/var/cache"],
        "archive_name_template": "{repository}-{now:%Y-%m-%d}",
        "upload_ratelimit_kib": 1024,
        "mode": "observe",
        "index_mode": "archives",
        "history_index_excludes": ["*.log"],
        "retention": {"keep_daily": 7, "keep_weekly": 4, "keep_within": "2d"},
    }
    answer = admin.post("/api/repositories/", json=wanted(running, custom_flags="--one-file-system -x", **settings))

    assert answer.status_code == 201, answer.text
    created = answer.json()
    retention = settings.pop("retention")
    assert {name: created[name] for name in settings} == settings
    assert created["custom_flags"] == ["--one-file-system", "-x"], "one string is taken apart as a shell would"
    assert created["retention"] == {**dict.fromkeys(RETENTION), **retention}


def test_a_path_cannot_be_registered_twice_under_another_spelling(running: Running, admin: Client) -> None:
    known = Path(running.known.repository["path"])
    link = running.new_path("link")
    link.symlink_to(known)
    calls = len(running.engine_calls())

    for path in (known, f"{known.parent}/x/../{known.name}/", link):
        answer = admin.post("/api/repositories/", json=wanted(running, path=str(path)))
        assert error_of(answer) == (409, "repository.path_taken")
    assert len(running.engine_calls()) == calls


def test_a_name_cannot_be_used_twice(running: Running, admin: Client) -> None:
    body = wanted(running, name=running.known.repository["name"])

    assert error_of(admin.post("/api/repositories/", json=body)) == (409, "repository.name_taken")
    assert not Path(body["path"]).exists()


@pytest.mark.parametrize(
    ("more", "status", "key"),
    [
        ({"path": "relative/path"}, 422, "repository.path_not_absolute"),
        ({"path": "/"}, 422, "repository.path_not_absolute"),
        ({"source_paths": ["relative"]}, 422, "repository.source_not_absolute"),
        ({"custom_flags": ["--remote-path=/bin/sh"]}, 422, "engine.invalid_request"),
        ({"custom_flags": "--comment x"}, 422, "engine.invalid_request"),
        ({"exclude_patterns": ["re:("]}, 422, "engine.invalid_request"),
        ({"exclude_patterns": ["xx:what"]}, 422, "engine.invalid_request"),
        ({"compression": "zstd,99"}, 422, "engine.invalid_request"),
        ({"path": "/srv/a::b"}, 422, "engine.invalid_request"),
    ],
)
def test_invalid_settings_are_refused_without_running_the_engine(
    running: Running, admin: Client, more: dict[str, Any], status: int, key: str
) -> None:
    calls, before = len(running.engine_calls()), names(admin)

    assert error_of(admin.post("/api/repositories/", json=wanted(running, **more))) == (status, key)
    assert len(running.engine_calls()) == calls
    assert names(admin) == before


@pytest.mark.parametrize(
    "more",
    [
        {"passphrase": None},
        {"passphrase": ""},
        {"encryption": "rot13"},
        {"index_mode": "sometimes"},
        {"mode": "half"},
        {"name": ""},
        {"name": "   "},
        {"path": ""},
        {"path": "/srv/\x00"},
        {"compression": "rar"},
        {"engine_version": 3},
        {"engine_version": 2, "encryption": "repokey"},
        {"encryption": "aes256-ocb"},
        {"upload_ratelimit_kib": 0},
        {"retention": {"keep_daily": -1}},
        {"retention": {"keep_fortnightly": 1}},
        {"colour": "blue"},
    ],
)
def test_a_malformed_repository_is_refused(running: Running, admin: Client, more: dict[str, Any]) -> None:
    before = names(admin)
    answer = admin.post("/api/repositories/", json=wanted(running, **more))

    assert answer.status_code == 422
    assert isinstance(answer.json()["detail"], list)
    assert names(admin) == before


@pytest.mark.parametrize("engine", ["1.2", "1.4"])
def test_a_path_that_is_in_use_is_refused_and_left_unchanged(services: Services, engine: str) -> None:
    running = services.get(engine=engine)
    before = names(running.admin)
    other = running.new_path()
    running.outside.init(other, PASSPHRASE)
    in_use = running.new_source()

    for place in (other, in_use):
        content = {file: file.read_bytes() for file in place.rglob("*") if file.is_file()}
        answer = running.admin.post("/api/repositories/", json=wanted(running, path=str(place)))
        assert error_of(answer) == (422, "engine.repository_exists")
        assert {file: file.read_bytes() for file in place.rglob("*") if file.is_file()} == content
    assert names(running.admin) == before


def test_only_an_admin_may_create_a_repository(running: Running) -> None:
    body = wanted(running)

    assert error_of(running.stranger.post("/api/repositories/", json=body)) == (403, "access.forbidden")
    assert not Path(body["path"]).exists()
