"""/api/ssh-connections"""

import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.contract.fields import error_of
from tests.support import networks
from tests.support.processes import all_pids
from tests.support.running import Running
from tests.support.service import Client, free_port
from tests.support.sshd import PASSWORD, Sshd, sshd

CONNECTION = {
    *("id", "name", "host", "port", "username", "engine_path", "status", "host_key", "key_fingerprint"),
    *("engine_version", "python_version", "last_test", "last_seen_at", "repository_ids", "created_at", "updated_at"),
}
STEPS = ["reach", "host_key", "key", "engine", "python", "disk"]


@pytest.fixture
def connection(running: Running, admin: Client, machine: Sshd) -> Iterator[int]:
    """A connection to the shared machine: an account can have only one."""
    number = machine.connection(admin, running.new_name("machine"))
    yield number
    assert admin.delete(f"/api/ssh-connections/{number}").status_code == 204


def tried(admin: Client, connection: int, **body: Any) -> dict[str, Any]:
    answer = admin.post(f"/api/ssh-connections/{connection}/test", json=body)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    assert [step["step"] for step in found["steps"]] == STEPS
    return found


def verdicts(test: dict[str, Any]) -> dict[str, str]:
    return {step["step"]: step["verdict"] for step in test["steps"]}


def failed_step(test: dict[str, Any]) -> dict[str, Any]:
    (step,) = [step for step in test["steps"] if step["verdict"] == "failed"]
    assert step["message"].endswith("."), "a sentence that says what to do"
    found: dict[str, Any] = step
    return found


def test_a_connection_can_be_added_read_changed_and_deleted(running: Running, admin: Client) -> None:
    name = running.new_name("nas")
    body = {"name": name, "host": "NAS.example", "username": "backup"}
    added = admin.post("/api/ssh-connections", json=body)

    assert added.status_code == 201, added.text
    assert set(added.json()) == CONNECTION
    assert (added.json()["host"], added.json()["port"], added.json()["status"]) == ("nas.example", 22, "unknown")
    place = f"/api/ssh-connections/{added.json()['id']}"
    changed = admin.put(place, json={"port": 2222, "engine_path": "/opt/borg/bin/borg"})
    assert (changed.json()["port"], changed.json()["engine_path"]) == (2222, "/opt/borg/bin/borg")
    assert admin.get(place).json() == changed.json()
    assert changed.json() in admin.get("/api/ssh-connections").json()["connections"]
    assert admin.delete(place).status_code == 204
    assert error_of(admin.get(place)) == (404, "ssh.not_found")


@pytest.mark.parametrize(
    "wrong",
    [
        {"host": "-oProxyCommand=id"},
        {"host": "a b"},
        {"username": "-l"},
        {"username": "a b"},
        {"port": 0},
        {"engine_path": "borg; id"},
        {"unknown": 1},
    ],
)
def test_values_that_ssh_could_misread_are_refused(running: Running, admin: Client, wrong: dict[str, Any]) -> None:
    body = {"name": running.new_name("bad"), "host": "nas.example", "username": "backup", **wrong}

    assert admin.post("/api/ssh-connections", json=body).status_code == 422


def test_neither_a_name_nor_an_account_can_be_used_twice(running: Running, admin: Client) -> None:
    name, host = running.new_name("nas"), f"{running.new_name('host')}.example"
    body = {"name": name, "host": host, "username": "backup"}
    number = admin.post("/api/ssh-connections", json=body).json()["id"]

    other_name = {**body, "name": running.new_name("nas")}
    assert error_of(admin.post("/api/ssh-connections", json={**body, "username": "x"})) == (409, "ssh.name_taken")
    assert error_of(admin.post("/api/ssh-connections", json=other_name)) == (409, "ssh.account_taken")
    admin.delete(f"/api/ssh-connections/{number}")


def test_the_system_key_is_created_once_and_its_private_half_is_never_shown(running: Running, admin: Client) -> None:
    first = admin.get("/api/ssh-connections/system-key").json()

    assert first["public_key"].startswith("ssh-ed25519 ")
    assert first == admin.get("/api/ssh-connections/system-key").json()
    assert set(first) == {"id", "public_key", "fingerprint", "created_at"}


def test_a_working_machine_passes_every_step_and_its_host_key_is_pinned(
    admin: Client, machine: Sshd, connection: int
) -> None:
    test = tried(admin, connection, path="/")

    assert verdicts(test) == dict.fromkeys(STEPS, "ok"), test
    details = {step["step"]: step["details"] for step in test["steps"]}
    assert details["engine"]["version"].startswith("1.")
    assert details["disk"]["free_bytes"] > 0
    read = admin.get(f"/api/ssh-connections/{connection}").json()
    assert (read["status"], read["last_test"]) == ("ok", test)
    assert read["host_key"]["fingerprint"] == details["host_key"]["fingerprint"]
    assert read["key_fingerprint"] == admin.get("/api/ssh-connections/system-key").json()["fingerprint"]
    (listed,) = [
        item
        for item in admin.get("/api/managed-machines/").json()["machines"]
        if (item["connection_type"], item["id"]) == ("ssh", connection)
    ]
    assert (listed["name"], listed["status"]) == (read["name"], "ok")


def test_the_private_key_is_in_the_data_folder_readable_only_by_its_owner(
    running: Running, admin: Client, connection: int
) -> None:
    tried(admin, connection)
    files = list((running.process.data_dir / "ssh").iterdir())

    assert any(file.name.startswith("identity-") for file in files)
    assert {file.stat().st_mode & 0o077 for file in files} == {0}


def test_a_port_without_a_listener_fails_as_connection_refused(running: Running, admin: Client) -> None:
    body = {"name": running.new_name("off"), "host": "127.0.0.1", "port": free_port(), "username": "backup"}
    number = admin.post("/api/ssh-connections", json=body).json()["id"]
    test = tried(admin, number)

    assert test["status"] == "failed"
    assert failed_step(test)["key"] == "ssh.connection_refused"
    assert set(verdicts(test).values()) == {"failed", "skipped"}


def test_a_host_without_an_address_fails_as_unknown(running: Running, admin: Client) -> None:
    body = {"name": running.new_name("off"), "host": "nowhere.invalid", "username": "backup"}
    number = admin.post("/api/ssh-connections", json=body).json()["id"]

    assert failed_step(tried(admin, number))["key"] == "ssh.host_unknown"
    admin.delete(f"/api/ssh-connections/{number}")


@pytest.mark.parametrize(
    ("greeting", "key"),
    [(b"220 mail.example ESMTP\r\n", "ssh.not_ssh"), (b"Not allowed at this time\r\n", "ssh.shut_out")],
)
def test_a_server_that_is_not_ssh_or_shuts_clients_out_is_reported(
    running: Running, admin: Client, greeting: bytes, key: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=lambda: server.accept()[0].sendall(greeting), daemon=True).start()
        port = server.getsockname()[1]
        body = {"name": running.new_name("mail"), "host": "127.0.0.1", "username": "backup", "port": port}
        number = admin.post("/api/ssh-connections", json=body).json()["id"]

        assert failed_step(tried(admin, number))["key"] == key
    admin.delete(f"/api/ssh-connections/{number}")


def test_a_refused_key_is_reported(admin: Client, machine: Sshd, connection: int) -> None:
    machine.authorized_keys.write_text("")
    test = tried(admin, connection)

    assert (failed_step(test)["step"], failed_step(test)["key"]) == ("key", "ssh.key_refused")


def test_a_missing_engine_is_reported_while_the_connection_stays_ok(
    admin: Client, machine: Sshd, connection: int
) -> None:
    admin.put(f"/api/ssh-connections/{connection}", json={"engine_path": "/nowhere/borg"})
    test = tried(admin, connection)

    assert test["status"] == "ok"
    assert failed_step(test)["key"] == "ssh.engine_missing"


def test_an_account_that_allows_no_commands_can_still_store_repositories(
    admin: Client, machine: Sshd, connection: int
) -> None:
    key = machine.authorized_keys.read_text()
    machine.authorize(f'command="borg serve",restrict {key.strip()}')
    test = tried(admin, connection)

    assert (test["status"], verdicts(test)["engine"]) == ("ok", "unknown")
    assert {step["key"] for step in test["steps"] if step["key"]} == {"ssh.no_commands"}


def test_a_changed_host_key_is_refused_until_it_is_accepted(running: Running, admin: Client, own_machine: Sshd) -> None:
    number = own_machine.connection(admin, running.new_name("moved"))
    place = f"/api/ssh-connections/{number}"
    assert tried(admin, number)["status"] == "ok"
    own_machine.stop()
    own_machine.new_host_key()
    own_machine.start()

    step = failed_step(tried(admin, number))
    assert (step["step"], step["key"]) == ("host_key", "ssh.host_key_changed")
    assert step["details"]["shown_fingerprint"] != step["details"]["pinned_fingerprint"]
    assert admin.get(place).json()["host_key"]["fingerprint"] == step["details"]["pinned_fingerprint"]

    wrong = admin.post(f"{place}/host-key/accept", json={"fingerprint": step["details"]["pinned_fingerprint"]})
    assert error_of(wrong) == (409, "ssh.other_fingerprint")
    right = admin.post(f"{place}/host-key/accept", json={"fingerprint": step["details"]["shown_fingerprint"]})
    assert right.json()["host_key"]["fingerprint"] == step["details"]["shown_fingerprint"]
    assert tried(admin, number)["status"] == "ok"


def test_the_key_is_rotated_on_the_machines_that_can_be_reached(
    running: Running, admin: Client, own_machine: Sshd, tmp_path: Path
) -> None:
    old = admin.get("/api/ssh-connections/system-key").json()
    with sshd(tmp_path / "away") as away:
        gone = away.connection(admin, running.new_name("away"))
        assert tried(admin, gone)["status"] == "ok"
    number = own_machine.connection(admin, running.new_name("here"))
    assert tried(admin, number)["status"] == "ok"
    own_machine.authorized_keys.write_text("ssh-ed25519 AAAA somebody else\n" + old["public_key"])

    answer = admin.post("/api/ssh-connections/system-key/rotate")

    assert answer.status_code == 200, answer.text
    new = answer.json()["system_key"]
    assert new["fingerprint"] != old["fingerprint"]
    assert number in answer.json()["moved"]
    assert {item["connection_id"]: item["key"] for item in answer.json()["failed"]}[gone] == "ssh.connection_refused"
    lines = own_machine.authorized_keys.read_text().splitlines()
    assert lines == ["ssh-ed25519 AAAA somebody else", new["public_key"]]
    assert tried(admin, number)["status"] == "ok"
    fingerprints = [admin.get(f"/api/ssh-connections/{one}").json()["key_fingerprint"] for one in (number, gone)]
    assert fingerprints == [new["fingerprint"], old["fingerprint"]]


def test_the_key_is_deployed_with_a_password_that_is_stored_nowhere(
    running: Running, admin: Client, tmp_path: Path
) -> None:
    if reason := networks.why_not("--mount"):
        pytest.skip(reason)  # an account with a password needs a mount namespace
    with sshd(tmp_path / "machine", takes_passwords=True) as machine:
        number = machine.unauthorized_connection(admin, running.new_name("fresh"))
        place = f"/api/ssh-connections/{number}"
        machine.authorized_keys.write_text("ssh-ed25519 AAAA somebody else")
        wrong = admin.post(f"{place}/deploy-key", json={"password": "not the password"})
        assert error_of(wrong) == (422, "ssh.password_refused")
        for _ in range(2):
            right = admin.post(f"{place}/deploy-key", json={"password": PASSWORD})
            assert right.status_code == 200, right.text

        lines = machine.authorized_keys.read_text().splitlines()
        public = admin.get("/api/ssh-connections/system-key").json()["public_key"]
        assert lines == ["ssh-ed25519 AAAA somebody else", public], "added once, to a file without a last line end"
        assert tried(admin, number)["status"] == "ok"
    for file in (running.process.data_dir / "ssh").iterdir():
        assert PASSWORD not in file.read_text()
    assert PASSWORD not in running.process.own_log()
    assert not [pid for pid in all_pids() if PASSWORD.encode() in command_line(pid)]


def command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
