"""Remotes over HTTP: created with the options of their provider, tested step by step, their secrets never shown."""

import sqlite3
from collections.abc import Iterator

import pytest

from tests.contract.fields import error_of, is_timestamp
from tests.support.rclone import PASSWORD, Backend, serving
from tests.support.running import Running, Services
from tests.support.service import Client, free_port

REMOTES = "/api/rclone/remotes"
STEPS = ["program", "configuration", "reach", "credentials", "write", "read", "delete"]


@pytest.fixture(scope="module")
def webdav(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Backend]:
    with serving("webdav", tmp_path_factory.mktemp("webdav")) as backend:
        yield backend


def add(running: Running, backend: Backend, **options: object) -> int:
    body = backend.new_remote(running.new_name("remote"))
    body["options"] = {**body["options"], **options}
    answer = running.admin.post(REMOTES, json=body)
    assert answer.status_code == 201, answer.text
    remote_id: int = answer.json()["id"]
    return remote_id


def failing_step(admin: Client, remote_id: int, path: str = "probed") -> dict[str, str]:
    verdict = admin.post(f"{REMOTES}/{remote_id}/test", json={"path": path}).json()
    assert [step["step"] for step in verdict["steps"]] == STEPS
    failed = [step for step in verdict["steps"] if step["verdict"] == "failed"]
    assert (verdict["ok"], len(failed)) == (False, 1)
    at = STEPS.index(failed[0]["step"])
    assert {step["verdict"] for step in verdict["steps"][at + 1 :]} <= {"skipped"}
    found: dict[str, str] = failed[0]
    return found


def test_providers_list_their_options_and_which_are_required_or_secret(admin: Client) -> None:
    providers = {each["name"]: each for each in admin.get("/api/rclone/providers").json()["providers"]}

    options = {option["name"]: option for option in providers["webdav"]["options"]}
    assert {"local", "sftp", "webdav", "s3"} <= set(providers)
    assert (options["url"]["required"], options["url"]["secret"]) == (True, False)
    assert (options["pass"]["required"], options["pass"]["secret"]) == (False, True)
    assert options["bearer_token"]["secret"] is True
    assert "secret_access_key" in [o["name"] for o in providers["s3"]["options"] if o["secret"]]


def test_a_remote_shows_its_options_but_never_its_secrets(running: Running, webdav: Backend) -> None:
    remote_id = add(running, webdav)

    told = running.admin.get(f"{REMOTES}/{remote_id}")

    assert told.status_code == 200
    assert told.json()["options"] == {name: v for name, v in webdav.options.items() if name != "pass"}
    assert told.json()["secret_options"] == ["pass"]
    assert is_timestamp(told.json()["created_at"])
    everything = told.text + running.admin.get(REMOTES).text + running.admin.get("/api/audit").text
    assert PASSWORD not in everything


def test_secrets_are_encrypted_in_the_store(services: Services, webdav: Backend) -> None:
    running = services.get("sqlite")
    remote_id = add(running, webdav)
    with sqlite3.connect(running.process.data_dir / "holdfast.db") as store:
        row = store.execute("select * from rclone_remotes where id = ?", (remote_id,)).fetchone()

    assert any(str(value).startswith("v1.") for value in row), "encrypted"
    assert not any(PASSWORD in str(value) for value in row)


def test_a_working_remote_passes_every_step_and_the_test_leaves_nothing_behind(
    running: Running, webdav: Backend
) -> None:
    remote_id = add(running, webdav)
    before = sorted(webdav.folder.rglob("*"))

    verdict = running.admin.post(f"{REMOTES}/{remote_id}/test", json={"path": "a new/place"}).json()

    assert verdict["ok"], verdict
    assert [(step["step"], step["verdict"]) for step in verdict["steps"]] == [(step, "ok") for step in STEPS]
    assert [path for path in sorted(webdav.folder.rglob("*")) if path.is_file()] == [p for p in before if p.is_file()]


def test_each_failing_step_has_its_own_key_and_a_sentence(running: Running, webdav: Backend) -> None:
    admin = running.admin
    nobody_there = add(running, webdav, url=f"http://127.0.0.1:{free_port()}")
    wrong_password = add(running, webdav, **{"pass": "not the password"})
    not_an_address = add(running, webdav, url="ftp://127.0.0.1/")
    folder = running.new_folder("read-only")
    local = admin.post(REMOTES, json={"name": running.new_name("local"), "provider": "local"}).json()["id"]
    (folder / "file").write_text("not a folder")

    found = {
        "reach": failing_step(admin, nobody_there),
        "credentials": failing_step(admin, wrong_password),
        "configuration": failing_step(admin, not_an_address),
        "write": failing_step(admin, local, str(folder / "file" / "below")),
    }

    assert {name: step["step"] for name, step in found.items()} == {name: name for name in found}
    assert {name: step["key"] for name, step in found.items()} == {
        "reach": "rclone.unreachable",
        "credentials": "rclone.credentials_refused",
        "configuration": "rclone.configuration_refused",
        "write": "rclone.write_failed",
    }
    assert all(step["message"].endswith(".") for step in found.values())
    assert PASSWORD not in str(found)


def test_a_change_keeps_the_secrets_that_are_not_given(running: Running, webdav: Backend) -> None:
    remote_id = add(running, webdav)
    place = f"{REMOTES}/{remote_id}"

    renamed = running.admin.put(place, json={"name": running.new_name("renamed"), "options": {"vendor": "owncloud"}})

    assert renamed.status_code == 200, renamed.text
    assert renamed.json()["options"]["vendor"] == "owncloud"
    assert renamed.json()["secret_options"] == ["pass"]
    assert running.admin.post(f"{place}/test").json()["ok"] is True
    gone = running.admin.put(place, json={"options": {"pass": None}})
    assert gone.json()["secret_options"] == []
    assert failing_step(running.admin, remote_id)["step"] == "credentials"


@pytest.mark.parametrize(
    ("provider", "options", "refusal"),
    [
        ("no such provider", {}, "rclone.unknown_provider"),
        ("webdav", {"url": "http://127.0.0.1", "colour": "red"}, "rclone.unknown_option"),
        ("webdav", {"user": "me"}, "rclone.option_missing"),
        ("webdav", {"url": ""}, "rclone.option_missing"),
    ],
)
def test_options_that_the_provider_does_not_accept_are_refused_and_nothing_is_stored(
    running: Running, provider: str, options: dict[str, str], refusal: str
) -> None:
    name = running.new_name("refused")

    answer = running.admin.post(REMOTES, json={"name": name, "provider": provider, "options": options})

    assert error_of(answer) == (422, refusal)
    assert name not in [remote["name"] for remote in running.admin.get(REMOTES).json()["remotes"]]


def test_a_name_cannot_be_used_twice_and_unknown_remotes_are_not_found(running: Running, admin: Client) -> None:
    body = {"name": running.new_name("local"), "provider": "local"}
    first, second = admin.post(REMOTES, json=body), admin.post(REMOTES, json=body)

    assert (first.status_code, error_of(second)) == (201, (409, "rclone.name_taken"))
    assert admin.delete(f"{REMOTES}/{first.json()['id']}").status_code == 204
    assert error_of(admin.get(f"{REMOTES}/{first.json()['id']}")) == (404, "rclone.remote_not_found")
    assert error_of(admin.post(f"{REMOTES}/7654321/test")) == (404, "rclone.remote_not_found")


def test_only_administrators_may_use_remotes(running: Running) -> None:
    operator = running.client_of(running.new_user("operator", all_repositories_role="operator"))

    refused = [
        operator.get("/api/rclone/providers"),
        operator.get(REMOTES),
        operator.post(REMOTES, json={"name": "mine", "provider": "local"}),
    ]

    assert [answer.status_code for answer in refused] == [403, 403, 403]


def test_secrets_in_an_address_or_a_header_are_never_shown_again(running: Running) -> None:
    options = {"url": "https://anna:hunter2@nas.invalid/dav", "vendor": "other", "headers": "Authorization,hunter2"}
    body = {"name": running.new_name("remote"), "provider": "webdav", "options": options}
    created = running.admin.post("/api/rclone/remotes", json=body)
    assert created.status_code == 201, created.text
    place = f"/api/rclone/remotes/{created.json()['id']}"
    for answer in (created, running.admin.get(place), running.admin.get("/api/rclone/remotes")):
        assert "hunter2" not in answer.text
    assert created.json()["options"] == {"vendor": "other"}
    assert created.json()["secret_options"] == ["headers", "url"]
    changed = running.admin.put(place, json={"options": {"url": "https://nas.invalid/dav"}}).json()
    assert changed["options"] == {"url": "https://nas.invalid/dav", "vendor": "other"}
    assert changed["secret_options"] == ["headers"]
