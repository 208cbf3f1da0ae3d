"""Repositories on a machine that is reached by ssh, opened by the engine on the service's own machine."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.contract.fields import error_of
from tests.contract.machines.every_job import back_up, done, maintain, read
from tests.support.engines import ENGINES
from tests.support.gate import FLAG
from tests.support.running import PASSPHRASE, Running, Services
from tests.support.service import Client
from tests.support.sshd import Sshd
from tests.support.warm_engines import warm_program


@pytest.fixture
def connection(running: Running, admin: Client, machine: Sshd) -> Iterator[int]:
    """A connection to the shared machine: an account can have only one."""
    known = {item["port"]: item["id"] for item in admin.get("/api/ssh-connections").json()["connections"]}
    if machine.port in known:
        machine.authorize(admin.get("/api/ssh-connections/system-key").json()["public_key"])
        yield known[machine.port]
        return
    yield machine.connection(admin, running.new_name("machine"), engine_path=str(warm_program(ENGINES["1.4"])))


def wanted(running: Running, **more: Any) -> dict[str, Any]:
    return {
        "name": running.new_name("far"),
        "repository_type": "ssh",
        "passphrase": PASSPHRASE,
        "source_paths": [str(running.new_source())],
        "index_mode": "off",
        "custom_flags": [FLAG],
        **more,
    }


def created(running: Running, connection: int, **more: Any) -> dict[str, Any]:
    body = wanted(running, path=str(running.new_path("far")), ssh_connection_id=connection, **more)
    answer = running.admin.post("/api/repositories/", json=body)
    assert answer.status_code == 201, answer.text
    found: dict[str, Any] = answer.json()
    return found


@pytest.mark.campaign
def test_every_job_works_on_a_repository_reached_by_ssh(services: Services, own_machine: Sshd) -> None:
    running = services.new(
        HOLDFAST_BORG1=str(warm_program(ENGINES["1.4"]))
    )  # the engine itself: its Python reads the chunks
    admin, machine = running.admin, own_machine
    connection = machine.connection(admin, "machine", engine_path=str(warm_program(ENGINES["1.4"])))
    repository = created(running, connection, index_mode="full")
    account = f"{machine.username}@127.0.0.1:{machine.port}"
    assert repository["path"].startswith(f"ssh://{account}/")
    assert (repository["ssh_connection_id"], repository["execution_target"]) == (connection, "local")
    there = Path(repository["path"].removeprefix(f"ssh://{account}"))
    assert (there / "config").is_file()

    archives = back_up(running, repository)
    listed = admin.get("/api/operations/", params={"repository_id": repository["id"], "kind": "history"}).json()
    reading = [line for item in listed["items"] for line in admin.log_lines(item["id"])]
    assert any("read by chunks" in line for line in reading), reading
    read(running, repository, archives)
    source, target = repository["source_paths"][0], running.new_folder("restored")
    body = {"repository_id": repository["id"], "archive": "first", "paths": [], "destination": str(target)}
    done(admin, admin.post("/api/restore/start", json=body))
    assert (target / source.lstrip("/") / "file-1").read_text() == (Path(source) / "file-1").read_text()
    maintain(running, repository, archives)

    assert admin.delete(f"/api/ssh-connections/{connection}").status_code == 409
    assert admin.delete(f"/api/repositories/{repository['id']}").status_code == 204
    body = wanted(running, path=f"ssh://127.0.0.1:{machine.port}{there}")
    imported = admin.post("/api/repositories/import", json=body)
    assert imported.status_code == 201, imported.text
    assert (imported.json()["path"], imported.json()["ssh_connection_id"]) == (repository["path"], connection)


def test_an_address_is_the_same_repository_however_it_is_spelled(
    running: Running, admin: Client, machine: Sshd, connection: int
) -> None:
    repository = created(running, connection)
    spelled = repository["path"].replace(f":{machine.port}/", f":{machine.port}//") + "/"
    again = admin.post("/api/repositories/import", json=wanted(running, path=spelled))

    assert error_of(again) == (409, "repository.path_taken")
    assert admin.post("/api/backup/start", json={"repository": spelled}).status_code == 200


@pytest.mark.parametrize(
    ("more", "key"),
    [
        ({"path": "/srv/repository"}, "repository.bad_address"),
        ({"path": "srv/repository"}, "repository.bad_address"),
        ({"path": "ssh://nobody@nowhere.invalid/srv/repository"}, "repository.unknown_account"),
        ({"path": "/srv/repository", "ssh_connection_id": 7_654_321}, "repository.unknown_connection"),
        ({"path": "/srv/r", "ssh_connection_id": 7_654_321, "repository_type": "local"}, "repository.not_by_ssh"),
    ],
)
def test_an_unusable_address_is_refused(running: Running, admin: Client, more: dict[str, Any], key: str) -> None:
    body = wanted(running, **more)
    before = len(admin.get("/api/repositories/").json()["repositories"])

    assert error_of(admin.post("/api/repositories/", json=body)) == (422, key)
    assert len(admin.get("/api/repositories/").json()["repositories"]) == before


def test_an_address_with_another_account_than_the_connections_is_refused(
    running: Running, admin: Client, machine: Sshd, connection: int
) -> None:
    body = wanted(running, path=f"ssh://other@127.0.0.1:{machine.port}/srv/r", ssh_connection_id=connection)

    assert error_of(admin.post("/api/repositories/", json=body)) == (422, "repository.other_account")


def test_each_connection_failure_has_its_own_error_key(running: Running, admin: Client, own_machine: Sshd) -> None:
    number = own_machine.connection(admin, running.new_name("troubled"), engine_path=str(warm_program(ENGINES["1.4"])))
    repository = created(running, number)
    place = f"/api/ssh-connections/{number}"

    def failure() -> tuple[str, str]:
        ended = admin.wait_for_end(admin.start_backup(repository))
        return ended["status"], ended["error_key"]

    assert admin.wait_for_end(admin.start_backup(repository))["status"] == "completed"
    admin.put(place, json={"engine_path": "/nowhere/borg"})
    assert failure() == ("failed", "engine.not_installed")
    admin.put(place, json={"engine_path": str(warm_program(ENGINES["1.4"]))})

    key = own_machine.authorized_keys.read_text()
    own_machine.authorized_keys.write_text("")
    assert failure() == ("failed", "ssh.key_refused")
    own_machine.authorized_keys.write_text(key)

    own_machine.stop()
    assert failure() == ("failed", "engine.unreachable")
    own_machine.new_host_key()
    own_machine.start()
    assert failure() == ("failed", "ssh.host_key_changed")
    live = admin.get(f"/api/repositories/{repository['id']}/archives/live")
    assert error_of(live) == (422, "ssh.host_key_changed")

    shown = admin.post(f"{place}/test", json={}).json()["steps"][1]["details"]["shown_fingerprint"]
    admin.post(f"{place}/host-key/accept", json={"fingerprint": shown})
    assert admin.wait_for_end(admin.start_backup(repository))["status"] == "completed"


@pytest.mark.campaign
def test_a_cut_link_fails_the_backup_and_the_next_one_finds_no_lock(
    running: Running, admin: Client, own_machine: Sshd
) -> None:
    number = own_machine.connection(admin, running.new_name("cut"), engine_path=str(warm_program(ENGINES["1.4"])))
    repository = created(running, number)

    with running.held_backup(repository) as (job_id, gate):
        assert own_machine.cut_links() > 0
        gate.open()
        ended = admin.wait_for_end(job_id)

    assert (ended["status"], ended["error_key"]) == ("failed", "engine.unreachable")
    assert admin.wait_for_end(admin.start_backup(repository))["status"] == "completed"


@pytest.mark.campaign
def test_changing_the_address_of_a_machine_changes_its_repositories_too(
    running: Running, admin: Client, own_machine: Sshd
) -> None:
    number = own_machine.connection(admin, running.new_name("moving"), engine_path=str(warm_program(ENGINES["1.4"])))
    repository = created(running, number, encryption="none", passphrase=None)
    assert admin.wait_for_end(admin.start_backup(repository))["status"] == "completed"
    place = f"/api/repositories/{repository['id']}"

    with running.held_backup(repository):
        refused = admin.put(f"/api/ssh-connections/{number}", json={"host": "localhost"})
        assert error_of(refused) == (409, "repository.operation_running")
    changed = admin.put(f"/api/ssh-connections/{number}", json={"host": "localhost"})

    assert changed.json()["host_key"] is not None, "it is the same machine"
    moved = admin.get(place).json()
    assert moved["path"] == repository["path"].replace("127.0.0.1", "localhost")
    ended = admin.wait_for_end(admin.start_backup(moved))
    assert (ended["status"], ended["error_key"]) == ("failed", "engine.repository_relocated")
    assert admin.post(f"{place}/confirm-relocation").status_code == 200
    assert admin.wait_for_end(admin.start_backup(moved))["status"] == "completed"
