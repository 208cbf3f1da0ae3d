"""Engine 2 stores a repository on a remote itself, through its own rclone, and everything works as in a folder."""

import filecmp
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.contract.archives.world import get, wait_for_index
from tests.contract.engine2.world import deleted, live, run
from tests.contract.fields import error_of
from tests.real.mirror.engine2_remotes import OnRemote, on_remote
from tests.support.engines import ENGINE_2
from tests.support.processes import processes_naming
from tests.support.rclone import PASSWORD, serving
from tests.support.running import PASSPHRASE, Services
from tests.support.service import free_port, wait_until

pytestmark = pytest.mark.skipif(ENGINE_2 is None, reason="engine 2 is not installed")
AT_LENGTH = pytest.mark.campaign
MEBIBYTE = 1 << 20


@pytest.fixture(scope="module")
def world(services: Services, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OnRemote]:
    with serving("webdav", tmp_path_factory.mktemp("served")) as backend:
        yield on_remote(services.get(), backend)


@pytest.fixture(scope="module")
def kept(world: OnRemote) -> dict[str, Any]:
    """A repository on the remote."""
    return world.create()


def test_a_backup_is_stored_on_the_remote_and_restored_from_it(
    world: OnRemote, kept: dict[str, Any], tmp_path: Path
) -> None:
    folder = world.backend.seen(kept["path"].split(":", 2)[2])
    assert (kept["repository_type"], kept["rclone_remote_id"]) == ("rclone", world.remote["id"])
    assert (folder / "config" / "id").read_text() != ""

    made = world.back_up(kept)

    assert (folder / "archives" / made["result"]["archive"]["id"]).is_file()
    archives = get(world.admin, f"/api/repositories/{kept['id']}/archives")["archives"]
    source = Path(kept["source_paths"][0])
    restored = restore(world, kept, archives[0]["id"], tmp_path / "restored")
    assert {file.name: file.read_bytes() for file in restored.iterdir()} == {
        file.name: file.read_bytes() for file in source.iterdir()
    }
    assert world.companions() == []
    assert_no_secret_is_told(world)


@AT_LENGTH
@pytest.mark.parametrize("provider", ["webdav", "s3", "sftp"])
def test_every_kind_of_operation_works_on_the_remote(services: Services, tmp_path: Path, provider: str) -> None:
    with serving(provider, tmp_path / "served") as backend:
        world = on_remote(services.get(), backend)
        running, admin = world.running, world.admin
        repository = world.create(index_mode="full")
        url, source = f"/api/repositories/{repository['id']}", Path(repository["source_paths"][0])
        assert (repository["repository_type"], repository["rclone_remote_id"]) == ("rclone", world.remote["id"])
        word = repository["path"].rsplit("/", 1)[-1].rsplit(":", 1)[-1]
        assert (backend.seen(word) / "config" / "id").is_file()

        first = world.back_up(repository)["result"]["archive"]["id"]
        (source / "file-1").write_text("another content\n")
        second = world.back_up(repository)["result"]["archive"]["id"]
        wait_for_index(admin, repository)
        assert set(live(running, repository)) == {first, second}
        known = {one["engine_id"]: one for one in get(admin, f"{url}/archives")["archives"]}
        assert {one["history_state"] for one in known.values()} == {"indexed"}
        changed = get(admin, f"{url}/history", path=f"{source}/file-1".lstrip("/"))["entries"]
        assert {entry["change"] for entry in changed} == {"added", "modified"}
        entries = get(admin, f"{url}/archives/{known[first]['id']}/browse", path=str(source))["entries"]
        assert {entry["name"] for entry in entries} == {"file-0", "file-1", "file-2"}

        restored = restore(world, repository, known[second]["id"], tmp_path / "restored")
        assert filecmp.dircmp(source, restored).diff_files == []
        assert {file.name for file in restored.iterdir()} == {file.name for file in source.iterdir()}

        def done(word: str, **body: Any) -> dict[str, Any]:
            ended = run(running, repository, word, **body)
            wait_for_index(admin, repository)  # its operations need the repository exclusively, like all others
            assert ended["status"] == "completed", ended
            return ended

        assert done("check", verify_data=True)["result"]["problems"] == []
        done("prune", keep_last=1)
        assert (set(live(running, repository)), deleted(running, repository)) == ({second}, [first])
        done(f"deleted-archives/{first}/undelete")
        assert set(live(running, repository)) == {first, second}
        gone = world.end(admin.delete(f"/api/archives/{known[second]['id']}").json()["job_id"])
        wait_for_index(admin, repository)
        assert (gone["status"], deleted(running, repository)) == ("completed", [second])
        done("compact")
        assert (set(live(running, repository)), deleted(running, repository)) == ({first}, [])
        assert admin.get(f"{url}/key").json()["key"].startswith("BORG_KEY ")
        assert admin.post(f"{url}/break-lock").status_code == 200

        assert admin.delete(url).status_code == 204
        again = admin.post("/api/repositories/import", json=import_body(repository))
        assert again.status_code == 201, again.text
        assert set(live(running, again.json())) == {first}
        assert world.companions() == []
        assert_no_secret_is_told(world)


def restore(world: OnRemote, repository: dict[str, Any], archive_id: int, destination: Path) -> Path:
    body = {
        "repository_id": repository["id"],
        "archive_id": archive_id,
        "paths": repository["source_paths"],
        "destination": str(destination),
        "restore_layout": "contents_only",
    }
    answer = world.admin.post("/api/restore/start", json=body)
    assert answer.status_code == 200, answer.text
    ended = world.end(answer.json()["job_id"])
    assert ended["status"] == "completed", (ended, world.admin.log_lines(ended["id"]))
    return destination


def import_body(repository: dict[str, Any]) -> dict[str, Any]:
    kept = {name: repository[name] for name in ("name", "path", "repository_type", "engine_version")}
    return {**kept, "passphrase": PASSPHRASE, "index_mode": "off"}


def assert_no_secret_is_told(world: OnRemote) -> None:
    assert not any(PASSWORD in call for call in world.running.engine_calls())
    spooled = world.running.process.data_dir / "spool"
    assert not any(PASSWORD.encode() in file.read_bytes() for file in spooled.rglob("*") if file.is_file())
    assert not list(world.running.process.data_dir.rglob("rclone.conf"))


# --- refusals: nothing changes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "refusal"),
    [
        ({"pass": "not the password"}, "rclone.credentials_refused"),
        ({"url": f"http://127.0.0.1:{free_port()}"}, "rclone.unreachable"),
    ],
)
def test_a_remote_that_cannot_be_accessed_is_reported(world: OnRemote, wrong: dict[str, str], refusal: str) -> None:
    remote = world.add_remote(**wrong)
    address = world.address(world.running.new_name("refused"), remote["name"])

    with world.nothing_changes():
        created = world.admin.post("/api/repositories/", json=world.body(path=address))
        imported = world.admin.post("/api/repositories/import", json=world.body(path=address))

    assert error_of(created) == error_of(imported) == (422, refusal)


@pytest.mark.parametrize(
    ("path", "refusal"),
    [
        ("rclone:nobody:somewhere", "mirror.bad_address"),
        ("rclone:{remote}", "mirror.bad_address"),
        ("rclone:{remote}:up/../../out", "mirror.bad_path"),
        ("rclone:{remote}:a#b", "engine.invalid_request"),
        ("/a/folder/without/a/mirror", "mirror.address_missing"),
    ],
)
def test_an_invalid_path_on_a_remote_is_refused(world: OnRemote, path: str, refusal: str) -> None:
    with world.nothing_changes():
        answer = world.admin.post("/api/repositories/", json=world.body(path=path.format(remote=world.remote["name"])))

    assert error_of(answer) == (422, refusal)


def test_a_local_folder_is_refused_as_a_remote_and_a_repository_on_a_remote_gets_no_mirror(world: OnRemote) -> None:
    local = world.admin.post("/api/rclone/remotes", json={"name": world.running.new_name("disk"), "provider": "local"})
    folder = world.running.new_path("folder")
    mirror = {"remote_id": world.remote["id"], "path": "elsewhere"}

    with world.nothing_changes():
        on_disk = world.admin.post(
            "/api/repositories/", json=world.body(path=f"rclone:{local.json()['name']}:{folder}")
        )
        mirrored = world.admin.post("/api/repositories/", json=world.body(mirror=mirror))

    assert error_of(on_disk) == (422, "mirror.bad_path")
    assert error_of(mirrored) == (422, "mirror.not_local")
    assert not folder.exists()


def test_the_path_of_a_repository_is_reserved_and_its_remote_cannot_be_deleted(
    world: OnRemote, kept: dict[str, Any]
) -> None:
    repository = kept
    remote = f"/api/rclone/remotes/{world.remote['id']}"
    below = f"{repository['path']}/below"

    assert error_of(world.admin.post("/api/repositories/", json=world.body(path=below))) == (409, "mirror.path_taken")
    other = world.running.new_repository()
    mirror = {"remote_id": world.remote["id"], "path": repository["path"].split(":", 2)[2]}
    taken = world.admin.put(f"/api/repositories/{other['id']}/mirror", json=mirror)
    assert error_of(taken) == (409, "mirror.path_taken")
    assert repository["id"] in world.admin.get(remote).json()["repository_ids"]
    assert error_of(world.admin.delete(remote)) == (409, "rclone.remote_in_use")


@AT_LENGTH
def test_a_backup_works_after_its_remote_was_renamed_and_fails_with_a_wrong_password(world: OnRemote) -> None:
    remote = world.add_remote()
    word = world.running.new_name("renamed")
    repository = world.create(path=world.address(word, remote["name"]))
    name = world.running.new_name("other")
    url = f"/api/rclone/remotes/{remote['id']}"

    assert world.admin.put(url, json={"name": name}).status_code == 200
    repository = world.admin.get(f"/api/repositories/{repository['id']}").json()
    assert repository["path"] == world.address(word, name)
    world.back_up(repository)

    assert world.admin.put(url, json={"options": {"pass": "not the password"}}).status_code == 200
    failed = world.end(world.admin.start_backup(repository))
    assert (failed["status"], failed["error_key"]) == ("failed", "rclone.credentials_refused")
    asked = world.admin.get(f"/api/repositories/{repository['id']}/archives/live")
    assert error_of(asked) == (422, "rclone.credentials_refused")


@AT_LENGTH
def test_a_missing_rclone_is_reported_and_changes_nothing(services: Services, world: OnRemote) -> None:
    program = services.new(HOLDFAST_RCLONE=str(world.running.folder / "my-rclone"))
    link = world.running.folder / "my-rclone"
    link.symlink_to(shutil.which("rclone") or "/nowhere")
    mine = on_remote(program, world.backend)
    repository = mine.create()
    link.unlink()

    with mine.nothing_changes():
        created = mine.admin.post("/api/repositories/", json=mine.body())
    failed = mine.end(mine.admin.start_backup(repository))

    assert error_of(created) == (422, "rclone.not_installed")
    assert (failed["status"], failed["error_key"]) == ("failed", "rclone.not_installed")


# --- interruptions ----------------------------------------------------------------------------------------------------


def engine_of(world: OnRemote, repository: dict[str, Any]) -> list[int]:
    engine_name = f"rclone:remote{world.remote['id']}:{repository['path'].split(':', 2)[2]}"
    return [pid for pid, said in processes_naming(engine_name).items() if " create " in said]


@AT_LENGTH
@pytest.mark.parametrize("target", ["engine", "service"])
def test_a_killed_backup_leaves_no_rclone_and_no_permanent_lock(world: OnRemote, target: str) -> None:
    repository = world.create()
    with world.running.held_backup(repository) as (job, gate):
        wait_until(world.companions, what="the engine has its rclone")
        if target == "service":
            world.running.process.kill()
            world.running.process.restart()
        else:
            for pid in engine_of(world, repository):
                os.kill(pid, signal.SIGKILL)
            wait_until(lambda: not world.companions(), what="the rclone of the killed engine is gone")
            gate.forget()
            gate.open()

    ended = world.end(job)
    assert (ended["status"], ended["attempt"]) == ("completed", 1 if target == "service" else 2)
    wait_until(lambda: not world.companions(), what="no rclone is left")
    assert run(world.running, repository, "compact")["status"] == "completed", "it wants the repository alone"
    world.back_up(repository)


@AT_LENGTH
def test_a_cancelled_backup_releases_its_lock_through_its_own_rclone(world: OnRemote) -> None:
    repository = world.create()
    with world.running.held_backup(repository) as (job, _gate):
        asked = world.admin.get(f"/api/repositories/{repository['id']}/archives/live")
        assert error_of(asked) == (423, "repository.busy"), "one engine at a time"
        assert world.admin.post(f"/api/operations/{job}/cancel").status_code == 200
        ended = world.end(job)

    assert (ended["status"], world.companions()) == ("cancelled", [])
    locks = world.backend.seen(repository["path"].split(":", 2)[2]) / "locks"
    assert not locks.exists() or list(locks.iterdir()) == []
    assert live(world.running, repository) == {}
