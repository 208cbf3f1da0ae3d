"""Repositories with `execution_target: ssh`: the engine runs on the machine, and no data passes through the service."""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from holdfast.repositories.models import Repository
from tests.contract.fields import error_of
from tests.contract.machines.every_job import back_up, live, maintain, read
from tests.support.engines import ENGINES
from tests.support.gate import FLAG
from tests.support.running import PASSPHRASE, Running, Services
from tests.support.scraped import wait_for_series
from tests.support.service import Client, wait_until
from tests.support.sshd import Sshd
from tests.support.warm_engines import warm_program

ENGINE = str(warm_program(ENGINES["1.4"]))


@pytest.fixture(scope="module")
def connection(services: Services, machine: Sshd) -> int:
    running = services.get()
    return machine.connection(running.admin, running.new_name("machine"), engine_path=ENGINE)


@pytest.fixture(scope="module")
def shared(services: Services, connection: int) -> dict[str, Any]:
    """A repository that several tests back up to."""
    return created(services.get(), connection)


def created(running: Running, connection: int, **more: Any) -> dict[str, Any]:
    path = running.new_path("there")
    body = {
        "name": path.name,
        "path": str(path),
        "execution_target": "ssh",
        "ssh_connection_id": connection,
        "passphrase": PASSPHRASE,
        "source_paths": [str(running.new_source())],
        "custom_flags": [FLAG],
        "index_mode": "off",
        **more,
    }
    answer = running.admin.post("/api/repositories/", json=body)
    assert answer.status_code == 201, answer.text
    found: dict[str, Any] = answer.json()
    return found


def far_spools(machine: Sshd) -> list[Path]:
    return list((machine.home / ".cache" / "holdfast-shim" / "runs").glob("*"))


def near_sides(running: Running, job_id: int) -> list[int]:
    """The process that holds the link to a backup's engine, once it has started."""
    record = running.process.data_dir / "spool" / str(job_id) / "1" / "create" / "engine.json"
    return [json.loads(record.read_bytes())["pid"]] if record.exists() else []


@pytest.fixture
def nothing_left(machine: Sshd) -> Iterator[None]:
    yield
    assert far_spools(machine) == []


@pytest.mark.campaign
@pytest.mark.usefixtures("nothing_left")
def test_every_job_works_with_the_engine_on_the_machine(
    running: Running, admin: Client, machine: Sshd, connection: int
) -> None:
    before = running.engine_calls()
    repository = created(running, connection, index_mode="full")
    assert (repository["execution_target"], repository["ssh_connection_id"]) == ("ssh", connection)
    assert (Path(repository["path"]) / "config").is_file()

    archives = back_up(running, repository)
    listed = admin.get("/api/operations/", params={"repository_id": repository["id"], "kind": "backup"}).json()
    first_line = admin.log_lines(listed["items"][0]["id"])[0]
    assert first_line.startswith(f"$ [{machine.username}@127.0.0.1] {ENGINE} ")
    read(running, repository, archives)
    maintain(running, repository, archives)
    assert admin.delete(f"/api/repositories/{repository['id']}").status_code == 204
    body = {
        "name": running.new_name("again"),
        "path": repository["path"],
        "execution_target": "ssh",
        "ssh_connection_id": connection,
        "passphrase": "wrong",
    }
    wrong = admin.post("/api/repositories/import", json=body)
    assert error_of(wrong) == (422, "engine.passphrase_wrong")
    right = admin.post("/api/repositories/import", json={**body, "passphrase": PASSPHRASE, "index_mode": "off"})
    assert right.status_code == 201, right.text
    assert running.engine_calls() == before, "no engine was run on the service's own machine"


def test_archives_on_the_machine_are_indexed_by_chunks_and_parts_of_files_can_be_read(
    running: Running, admin: Client, connection: int
) -> None:
    repository = created(running, connection, index_mode="full")
    source = Path(repository["source_paths"][0])
    (source / "large").write_bytes(bytes(range(256)) * 4000)
    place = f"/api/repositories/{repository['id']}"
    assert admin.wait_for_end(admin.start_backup(repository))["status"] == "completed"

    def indexed() -> list[dict[str, Any]]:
        found = admin.get(f"{place}/archives").json()["archives"]
        return [one for one in found if one["history_state"] == "indexed"]

    (archive,) = wait_until(indexed, what="the archive is in the index")
    listed = admin.get("/api/operations/", params={"repository_id": repository["id"], "kind": "history"}).json()
    runs = [admin.wait_for_end(run["id"]) for run in listed["items"]]
    assert {"chunks": 1} in [run["result"]["routes"] for run in runs], runs
    before = running.engine_calls()
    files, asked = f"{place}/archives/{archive['id']}/files", {"path": f"{source}/large"}
    part = admin.get(files, params=asked, headers={"Range": "bytes=300-511"})
    assert (part.status_code, part.content) == (206, bytes(range(256))[44:])
    assert admin.get(files, params=asked).content == (source / "large").read_bytes()
    assert admin.get(f"{place}/archives/{archive['id']}/preview", params={"path": f"{source}/file-1"}).json()["text"]
    assert running.engine_calls() == before, "no engine was run"


def test_the_same_path_cannot_be_registered_in_two_ways(
    running: Running, admin: Client, connection: int, shared: dict[str, Any]
) -> None:
    body = {
        "name": running.new_name("again"),
        "path": shared["path"],
        "repository_type": "ssh",
        "ssh_connection_id": connection,
        "passphrase": PASSPHRASE,
    }

    assert error_of(admin.post("/api/repositories/import", json=body)) == (409, "repository.path_taken")


@pytest.mark.parametrize(
    ("more", "key"),
    [
        ({"ssh_connection_id": None}, "repository.connection_missing"),
        ({"ssh_connection_id": 7_654_321}, "repository.unknown_connection"),
        ({"path": "srv/repository"}, "repository.path_not_absolute"),
        ({"repository_type": "rclone"}, "repository.unsupported_target"),
    ],
)
def test_an_unusable_location_is_refused(
    running: Running, admin: Client, connection: int, more: dict[str, Any], key: str
) -> None:
    body = {"name": running.new_name("bad"), "path": "/srv/r", "execution_target": "ssh", "passphrase": PASSPHRASE}

    assert error_of(admin.post("/api/repositories/", json={**body, "ssh_connection_id": connection, **more})) == (
        422,
        key,
    )


def test_each_backup_measures_the_disk_space_of_the_machine(
    running: Running, admin: Client, shared: dict[str, Any]
) -> None:
    assert admin.wait_for_end(admin.start_backup(shared))["status"] == "completed"

    assert wait_for_series(admin, "holdfast_repository_storage_free_bytes", repository=shared["name"]) > 0
    with running.store() as session:
        measured = session.get_one(Repository, shared["id"])
    disk = os.statvfs(shared["path"])
    assert measured.storage_total_bytes == disk.f_blocks * disk.f_frsize
    assert measured.storage_seen_at is not None


def test_sources_missing_on_the_machine_are_reported(admin: Client, shared: dict[str, Any]) -> None:
    before = live(admin, f"/api/repositories/{shared['id']}")
    ended = admin.wait_for_end(admin.start_backup(shared, source_paths=["/nowhere/at all", "/nowhere/'x'"]))

    assert (ended["status"], ended["error_key"]) == ("failed", "engine.source_missing")
    assert ended["error_params"] == {"missing": ["/nowhere/at all", "/nowhere/'x'"], "count": 2}
    assert live(admin, f"/api/repositories/{shared['id']}") == before


def test_a_cut_link_does_not_end_the_backup(
    running: Running, admin: Client, machine: Sshd, shared: dict[str, Any]
) -> None:
    with running.held_backup(shared) as (job_id, gate):
        assert machine.cut_links() > 0
        gate.open()
        ended = admin.wait_for_end(job_id)

    assert (ended["status"], ended["attempt"]) == ("completed", 1), ended["error_message"]


@pytest.mark.campaign
def test_a_cancel_stops_the_engine_on_the_machine(running: Running, admin: Client, shared: dict[str, Any]) -> None:
    with running.held_backup(shared) as (job_id, _gate):
        admin.post(f"/api/backup/cancel/{job_id}")
        ended = admin.wait_for_end(job_id)

    assert ended["status"] == "cancelled"
    assert not [
        process
        for process in psutil.process_iter(["cmdline"])
        if shared["path"] + "::" in " ".join(process.info["cmdline"] or ())
    ]
    assert admin.wait_for_end(admin.start_backup(shared))["status"] == "completed"


def test_a_backup_survives_the_kill_of_the_process_that_holds_the_link(
    running: Running, admin: Client, shared: dict[str, Any]
) -> None:
    with running.held_backup(shared) as (job_id, gate):
        (pid,) = near_sides(running, job_id)
        psutil.Process(pid).send_signal(signal.SIGKILL)
        gate.open()
        ended = admin.wait_for_end(job_id)
        log = admin.log_lines(job_id)

    assert (ended["status"], ended["attempt"]) == ("completed", 1), ended["error_message"]
    assert len([line for line in log if line.startswith("$ ")]) == 1


@pytest.mark.campaign
def test_a_service_restarted_after_a_kill_finds_the_engine_on_the_machine(
    services: Services, own_machine: Sshd
) -> None:
    running, machine = services.new(), own_machine
    admin = running.admin
    repository = created(running, machine.connection(admin, "machine", engine_path=ENGINE))
    with running.held_backup(repository) as (job_id, gate):
        (pid,) = near_sides(running, job_id)
        running.process.kill()
        psutil.Process(pid).send_signal(signal.SIGKILL)
        machine.cut_links()
        running.process.restart()
        gate.open()
        ended = admin.wait_for_end(job_id)

    assert (ended["status"], ended["attempt"]) == ("completed", 1), ended["error_message"]
    live = admin.get(f"/api/repositories/{repository['id']}/archives/live").json()["archives"]
    assert [archive["name"] for archive in live] == [ended["archive_name"]]


@pytest.mark.campaign
def test_each_connection_failure_has_its_own_error_key(running: Running, admin: Client, own_machine: Sshd) -> None:
    number = own_machine.connection(admin, running.new_name("troubled"), engine_path=ENGINE)
    repository = created(running, number)

    def failure() -> tuple[str, str]:
        ended = admin.wait_for_end(admin.start_backup(repository))
        return ended["status"], ended["error_key"]

    key = own_machine.authorized_keys.read_text()
    own_machine.authorized_keys.write_text("")
    assert failure() == ("failed", "ssh.key_refused")
    own_machine.authorized_keys.write_text(key)
    own_machine.stop()
    assert failure() == ("failed", "engine.unreachable")
    own_machine.new_host_key()
    own_machine.start()
    assert failure() == ("failed", "ssh.host_key_changed")


def test_a_backup_is_retried_when_the_machine_is_briefly_unreachable(
    running: Running, admin: Client, own_machine: Sshd
) -> None:
    number = own_machine.connection(admin, running.new_name("away"), engine_path=ENGINE)
    repository = created(running, number)
    own_machine.stop()
    job_id = admin.start_backup(repository)
    wait_until(
        lambda: any("cannot be reached" in line for line in admin.log_lines(job_id)), what="the first attempt is over"
    )
    own_machine.start()
    ended = admin.wait_for_end(job_id)

    assert (ended["status"], ended["attempt"] > 1) == ("completed", True), (ended["error_key"], ended["error_message"])
