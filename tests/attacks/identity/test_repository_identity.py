"""Another repository, or an older copy of the same one, is at the path of a registered repository."""

import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.contract.fields import error_of
from tests.support.engines import ENGINE_2, ENGINES
from tests.support.running import PASSPHRASE, Running, Services
from tests.support.service import Client, wait_until
from tests.support.warm_engines import warm_program

MAJORS = [1, *([2] if ENGINE_2 else [])]
ENGINE_1_FIRST = [1, *([pytest.param(2, marks=pytest.mark.campaign)] if ENGINE_2 else [])]
"""For tests of what happens after a replaced or older repository is noticed, which does not depend on the engine."""
ENCRYPTION = {1: "repokey-blake2", 2: "aes256-ocb"}


@pytest.fixture(scope="module")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Services]:
    services = Services(tmp_path_factory.mktemp("services"))
    yield services
    services.stop()


@pytest.fixture
def running(services: Services) -> Running:
    return services.get()


def new_repository(running: Running, major: int, **more: Any) -> dict[str, Any]:
    settings = {"engine_version": major, "encryption": ENCRYPTION[major], "index_mode": "archives", **more}
    return running.new_repository(**({"custom_flags": []} if major == 2 else {}), **settings)


def archives(admin: Client, repository: dict[str, Any]) -> dict[str, dict[str, Any]]:
    listed = admin.get(f"/api/repositories/{repository['id']}/archives").json()["archives"]
    return {archive["name"] + archive["engine_id"]: archive for archive in listed}


def backed_up(admin: Client, repository: dict[str, Any]) -> dict[str, Any]:
    ended = admin.wait_for_end(admin.start_backup(repository))
    assert ended["status"] == "completed", ended
    return ended


def idle(running: Running) -> None:
    running.wait_until_idle()


def plain_engine(running: Running, major: int, *arguments: str, **variables: str) -> str:
    """Run the engine as another program on this machine would, under its own name."""
    base = running.folder / "plain"
    base.mkdir(exist_ok=True)
    program = ENGINES["1.4"] if major == 1 else ENGINE_2
    assert program is not None
    environment = {
        "PATH": os.defpath,
        "HOME": str(base),
        "LANG": "C.UTF-8",
        "LC_ALL": "C.UTF-8",
        "BORG_BASE_DIR": str(base),
        "BORG_PASSPHRASE": PASSPHRASE,
        "BORG_SELFTEST": "disabled",
        **variables,
    }
    ended = subprocess.run(
        [warm_program(program), *arguments], env=environment, capture_output=True, text=True, check=False
    )
    assert ended.returncode in (0, 1), ended.stderr
    return ended.stdout


def put_stranger(running: Running, major: int, path: Path) -> None:
    if major == 1:
        plain_engine(running, 1, "init", "-e", ENCRYPTION[1], str(path))
        plain_engine(running, 1, "create", f"{path}::of-a-stranger", str(running.new_source()))
    else:
        plain_engine(running, 2, "-r", str(path), "repo-create", "-e", ENCRYPTION[2])
        plain_engine(running, 2, "-r", str(path), "create", "of-a-stranger", str(running.new_source()))


def content_of(path: Path) -> dict[str, str]:
    return {
        str(file.relative_to(path)): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in sorted(path.rglob("*"))
        if file.is_file()
    }


def every_job(admin: Client, repository: dict[str, Any], archive: dict[str, Any]) -> Iterator[tuple[str, int]]:
    path = f"/api/repositories/{repository['id']}"
    yield "backup", admin.start_backup(repository)
    bodies: dict[str, dict[str, Any]] = {
        "check": {},
        "compact": {},
        "prune": {"keep_last" if repository["engine_version"] == 1 else "keep_daily": 1},
        "restore-check": {},
    }
    for kind, body in bodies.items():
        answer = admin.post(f"{path}/{kind}", json=body)
        assert answer.status_code == 200, answer.text
        yield kind, answer.json()["job_id"]
    answer = admin.post(f"{path}/resync")
    assert answer.status_code == 200, answer.text
    yield "resync", answer.json()["operations"][0]
    if repository["index_mode"] == "full":
        answer = admin.post(f"{path}/rebuild", json={"from": "history"})
        yield "history", answer.json()["operations"][0]
    restore = {
        "repository_id": repository["id"],
        "archive_id": archive["id"],
        "paths": [],
        "destination": repository["source_paths"][0] + "-restored",
        "destination_type": "local",
    }
    answer = admin.post("/api/restore/start", json=restore)
    assert answer.status_code == 200, answer.text
    yield "restore", answer.json()["job_id"]
    answer = admin.delete(f"/api/archives/{archive['id']}")
    assert answer.status_code == 200, answer.text
    yield "delete", answer.json()["job_id"]


@pytest.mark.parametrize("major", MAJORS)
def test_another_repository_at_the_path_is_neither_written_to_nor_mistaken_for_the_registered_one(
    running: Running, major: int
) -> None:
    admin = running.admin
    repository = new_repository(running, major, index_mode="full")
    backed_up(admin, repository)
    idle(running)
    before = archives(admin, repository)
    path, kept = Path(repository["path"]), running.new_path("kept")
    path.rename(kept)
    put_stranger(running, major, path)
    stranger = content_of(path)

    for kind, job in every_job(admin, repository, next(iter(before.values()))):
        ended = admin.wait_for_end(job)
        assert (kind, ended["status"], ended["error_key"]) == (kind, "failed", "repository.replaced")
    base = f"/api/repositories/{repository['id']}"
    assert error_of(admin.post(f"{base}/break-lock")) == (409, "repository.replaced")
    assert error_of(admin.get(f"{base}/key")) == (409, "repository.replaced")
    assert error_of(admin.get("/api/archives/list", params={"repository_id": repository["id"]})) == (
        409,
        "repository.replaced",
    )
    assert error_of(admin.post(f"{base}/wipe-preview", json={"run_compact": False}))[1] == "repository.replaced"

    idle(running)
    assert content_of(path) == stranger
    assert archives(admin, repository).keys() == before.keys()
    shutil.rmtree(path)
    kept.rename(path)
    backed_up(admin, repository)


@pytest.mark.parametrize("major", ENGINE_1_FIRST)
def test_an_admin_can_accept_the_replacement_of_a_repository(running: Running, major: int) -> None:
    admin = running.admin
    repository = new_repository(running, major)
    backed_up(admin, repository)
    idle(running)
    path = Path(repository["path"])
    shutil.rmtree(path)
    put_stranger(running, major, path)
    accept = f"/api/repositories/{repository['id']}/accept-replacement"
    operator = running.client_with_right(repository, "operator")

    assert error_of(operator.post(accept, json={})) == (403, "access.forbidden")
    assert admin.post(accept, json={}).status_code == 200

    backed_up(admin, repository)
    idle(running)
    assert len(archives(admin, repository)) == 2
    assert admin.get(f"/api/repositories/{repository['id']}").json()["engine_id"] != repository["engine_id"]
    actions = [entry["action"] for entry in admin.get("/api/audit").json()["entries"]]
    assert "repository.replacement_accepted" in actions


@pytest.mark.parametrize("major", MAJORS)
def test_an_older_copy_is_used_after_confirmation_and_missing_archives_are_shown_as_lost(
    running: Running, major: int
) -> None:
    admin = running.admin
    repository = new_repository(running, major)
    backed_up(admin, repository)
    path, copy = Path(repository["path"]), running.new_path("copy")
    idle(running)
    shutil.copytree(path, copy)
    first = set(archives(admin, repository))
    backed_up(admin, repository)
    idle(running)
    shutil.rmtree(path)
    shutil.copytree(copy, path)

    failed = admin.wait_for_end(admin.start_backup(repository))
    assert (failed["status"], failed["error_key"]) == ("failed", "engine.repository_older")
    confirm = f"/api/repositories/{repository['id']}/confirm-older"
    assert error_of(admin.post(f"/api/repositories/{repository['id']}/confirm-relocation")) == (
        409,
        "engine.repository_older",
    )
    told = admin.post(confirm, json={"dry_run": True})
    assert told.status_code == 200, told.text
    lost = [name for name in archives(admin, repository) if name not in first]
    assert [archive["name"] + archive["engine_id"] for archive in told.json()["missing"]] == lost
    assert admin.wait_for_end(admin.start_backup(repository))["error_key"] == "engine.repository_older"

    answer = admin.post(confirm, json={})
    assert (answer.status_code, answer.json()["missing_count"]) == (200, 1), answer.text
    backed_up(admin, repository)
    idle(running)
    known = archives(admin, repository)
    assert [name for name, archive in known.items() if archive["lost_at"]] == lost
    assert len(known) == 3
    assert admin.get(f"/api/repositories/{repository['id']}").json()["archive_count"] == 2
    gone = known[lost[0]]
    files = f"/api/repositories/{repository['id']}/archives/{gone['id']}/download"
    assert error_of(admin.get(files, params={"path": ""})) == (409, "archives.lost")
    restore = {
        "repository_id": repository["id"],
        "archive_id": gone["id"],
        "paths": [],
        "destination": str(running.new_path("restored")),
        "destination_type": "local",
    }
    assert error_of(admin.post("/api/restore/start", json=restore)) == (409, "archives.lost")


@pytest.mark.parametrize("major", ENGINE_1_FIRST)
def test_an_older_copy_is_imported_after_the_lost_repositorys_record_was_deleted(running: Running, major: int) -> None:
    admin = running.admin
    repository = new_repository(running, major)
    backed_up(admin, repository)
    idle(running)
    path, copy = Path(repository["path"]), running.new_path("copy")
    shutil.copytree(path, copy)
    backed_up(admin, repository)
    idle(running)
    assert admin.delete(f"/api/repositories/{repository['id']}").status_code == 204
    shutil.rmtree(path)
    body = {
        "name": running.new_name("hydrated"),
        "path": str(copy),
        "engine_version": major,
        "passphrase": PASSPHRASE,
        "source_paths": repository["source_paths"],
    }

    assert error_of(admin.post("/api/repositories/import", json=body)) == (409, "engine.repository_older")
    answer = admin.post("/api/repositories/import", json={**body, "older_ok": True})

    assert answer.status_code == 201, answer.text
    backed_up(admin, answer.json())


@pytest.mark.parametrize("major", ENGINE_1_FIRST)
def test_a_moved_repository_is_fixed_by_changing_its_path(running: Running, major: int) -> None:
    admin = running.admin
    repository = new_repository(running, major)
    other = new_repository(running, major)
    backed_up(admin, repository)
    idle(running)
    place = f"/api/repositories/{repository['id']}"
    moved = running.new_path("moved")
    Path(repository["path"]).rename(moved)

    assert error_of(admin.put(place, json={"path": str(running.new_path())})) == (422, "engine.repository_missing")
    assert error_of(admin.put(place, json={"path": other["path"]})) == (409, "repository.path_taken")
    stranger = running.new_path("stranger")
    put_stranger(running, major, stranger)
    assert error_of(admin.put(place, json={"path": str(stranger)})) == (409, "repository.replaced")
    answer = admin.put(place, json={"path": str(moved)})

    assert (answer.status_code, answer.json().get("path")) == (200, str(moved)), answer.text
    backed_up(admin, answer.json())


@pytest.mark.parametrize("major", MAJORS)
def test_a_lock_of_a_dead_engine_of_this_machine_does_not_stop_a_backup(running: Running, major: int) -> None:
    """A user's own engine was killed: the engine clears its lock, whatever name the service takes locks under."""
    repository = new_repository(running, major)
    holder = leave_lock(running, major, Path(repository["path"]))

    backed_up(running.admin, repository)

    assert str(holder) not in json.dumps(content_of_locks(Path(repository["path"])))


def test_the_holder_of_the_engines_lock_is_named(running: Running) -> None:
    repository = new_repository(running, 1)
    running.outside.leave_lock(repository["path"])

    answer = running.admin.get("/api/archives/list", params={"repository_id": repository["id"]})

    assert error_of(answer) == (423, "engine.locked")
    (holder,) = answer.json()["detail"]["params"]["holders"]
    assert holder["host"] == "another-machine@1"
    assert f"process {holder['pid']} of another-machine@1 since {holder['since']}" in answer.json()["detail"]["message"]


def leave_lock(running: Running, major: int, path: Path) -> int:
    """Kill an engine that holds the lock, run without any of the service's variables."""
    base = running.folder / "plain"
    base.mkdir(exist_ok=True)
    program = ENGINES["1.4"] if major == 1 else ENGINE_2
    assert program is not None
    place = (["with-lock", str(path)], ["-r", str(path), "with-lock"])[major - 1]
    environment = {
        "PATH": os.defpath,
        "HOME": str(base),
        "BORG_BASE_DIR": str(base),
        "BORG_PASSPHRASE": PASSPHRASE,
        "BORG_SELFTEST": "disabled",
    }
    holder = subprocess.Popen(
        [program, *place, "sh", "-c", "echo held; cat"],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    os.killpg(holder.pid, 9)
    holder.communicate()
    wait_until(lambda: content_of_locks(path), what="the lock is left")
    return holder.pid


def content_of_locks(path: Path) -> list[str]:
    found = [str(file) for file in path.glob("lock.exclusive/*")]
    return found + [file.read_text() for file in (*path.glob("lock.roster"), *path.glob("locks/*"))]


@pytest.mark.parametrize("major", MAJORS)
def test_a_key_changed_outside_the_service_is_updated_in_the_store(running: Running, major: int) -> None:
    """Otherwise a process that restores the key would use the old one, which the new passphrase does not open."""
    admin = running.admin
    repository = new_repository(running, major, encryption={1: "keyfile-blake2", 2: "keyfile-aes256-ocb"}[major])
    backed_up(admin, repository)
    idle(running)
    engine = str(running.process.data_dir / "engine")
    place = (["key", "change-passphrase", repository["path"]], ["-r", repository["path"], "key", "change-passphrase"])
    changed = {"BORG_BASE_DIR": engine, "HOME": engine, "BORG_NEW_PASSPHRASE": "another passphrase"}
    plain_engine(running, major, *place[major - 1], **changed)

    failed = admin.wait_for_end(admin.start_backup(repository))
    assert (failed["status"], failed["error_key"]) == ("failed", "engine.passphrase_wrong")
    url = f"/api/repositories/{repository['id']}"
    assert admin.put(url, json={"passphrase": "another passphrase"}).status_code == 200
    for file in Path(engine, ".config", "borg", "keys").iterdir():
        file.unlink()
    backed_up(admin, repository)
