"""Packages and their installs over HTTP."""

import shlex
from typing import Any

import pytest

from tests.contract.fields import JOB_START, error_of, is_timestamp
from tests.support.running import Running
from tests.support.service import Client, wait_until

PACKAGE = {"id", "name", "install_command", "description", "status", "installed_at"}
JOB = {"id", "package_id", "package_name", "status", "stdout", "stderr", "exit_code", "started_at", "completed_at"}
NOBODY = 999_999


def script(text: str) -> list[str]:
    """A command that runs a shell, which packages may use like any program."""
    return ["/bin/sh", "-c", text]


def add(running: Running, command: list[str], **more: Any) -> dict[str, Any]:
    body = {"name": running.new_name("package"), "install_command": command, **more}
    answer = running.admin.post("/api/packages/", json=body)
    assert answer.status_code == 201, answer.text
    found: dict[str, Any] = answer.json()
    return found


def install(admin: Client, package: dict[str, Any]) -> int:
    answer = admin.post(f"/api/packages/{package['id']}/install")
    assert answer.status_code == 200, answer.text
    assert set(answer.json()) == JOB_START
    assert answer.json()["status"] == "pending"
    job_id: int = answer.json()["job_id"]
    return job_id


def job_of(admin: Client, job_id: int) -> dict[str, Any]:
    answer = admin.get(f"/api/packages/jobs/{job_id}")
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def ended(admin: Client, job_id: int) -> dict[str, Any]:
    admin.wait_for_end(job_id)
    return job_of(admin, job_id)


def read(admin: Client, package: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = next(
        entry for entry in admin.get("/api/packages/").json()["packages"] if entry["id"] == package["id"]
    )
    return found


def test_a_package_can_be_added_changed_and_removed(running: Running, admin: Client) -> None:
    package = add(running, ["/bin/true"], description="does nothing")
    assert set(package) >= PACKAGE
    assert (package["status"], package["installed_at"]) == ("not_installed", None)
    place = f"/api/packages/{package['id']}"

    changed = admin.put(place, json={"install_command": ["/bin/echo", "a b", ""], "description": None})

    assert changed.status_code == 200
    assert (changed.json()["install_command"], changed.json()["description"]) == (["/bin/echo", "a b", ""], None)
    assert changed.json()["name"] == package["name"]
    assert read(admin, package) == changed.json()
    assert admin.delete(place).status_code == 204
    assert error_of(admin.delete(place)) == (404, "packages.not_found")
    assert error_of(admin.put(place, json={})) == (404, "packages.not_found")
    assert error_of(admin.post(f"{place}/install")) == (404, "packages.not_found")


def test_an_install_keeps_both_streams_apart_and_reports_the_exit_code(running: Running, admin: Client) -> None:
    package = add(
        running, script("printf 'one\\ntwo \\\\ \\t end'; printf 'an error\\n' >&2; printf '\\377' >&2; exit 0")
    )

    job = ended(admin, install(admin, package))

    assert set(job) >= JOB
    assert (job["status"], job["exit_code"], job["error_key"]) == ("completed", 0, None)
    assert job["stdout"] == "one\ntwo \\ \t end"
    assert job["stderr"] == "an error\n\N{REPLACEMENT CHARACTER}"
    assert (job["stdout_complete"], job["stderr_complete"]) == (True, True)
    assert job["package_name"] == package["name"]
    after = read(admin, package)
    assert after["status"] == "installed"
    assert is_timestamp(after["installed_at"])
    log = admin.log_lines(job["id"])
    assert log[1:] == ["out| one", "out~ two \\\\ \\t end", "err| an error", "err~ \\xff"]
    detail = admin.operation(job["id"])
    assert (detail["kind"], detail["type"], detail["category"]) == ("package_install", "package", "system")
    assert detail["package_name"] == package["name"]


def test_the_command_is_not_interpreted_by_a_shell(running: Running, admin: Client) -> None:
    package = add(running, ["/bin/echo", "$HOME", ";", "false", "&&", "`id`", "*"])

    job = ended(admin, install(admin, package))

    assert job["stdout"] == "$HOME ; false && `id` *\n"


def test_the_command_does_not_receive_the_environment_of_the_service(running: Running, admin: Client) -> None:
    package = add(running, ["/usr/bin/env"])

    job = ended(admin, install(admin, package))

    assert "DEBIAN_FRONTEND=noninteractive" in job["stdout"].splitlines()
    assert "HOLDFAST" not in job["stdout"]


def test_a_failing_command_fails_the_install_with_its_exit_code(running: Running, admin: Client) -> None:
    package = add(running, script("echo no >&2; exit 7"))

    job = ended(admin, install(admin, package))

    assert (job["status"], job["exit_code"], job["error_key"]) == ("failed", 7, "packages.install_failed")
    assert job["stderr"] == "no\n"
    assert read(admin, package)["status"] == "failed"


def test_the_error_names_a_missing_program(running: Running, admin: Client) -> None:
    package = add(running, ["/no/such/program"])

    job = ended(admin, install(admin, package))

    assert (job["status"], job["exit_code"], job["error_key"]) == ("failed", None, "packages.not_started")
    assert "/no/such/program" in job["error_message"]


def test_only_one_install_runs_at_a_time(running: Running, admin: Client) -> None:
    gate = running.gate()
    held = add(running, script(f"echo begun; cat {shlex.quote(str(gate.path))}"))
    other = add(running, ["/bin/true"])
    first = install(admin, held)
    second = install(admin, other)
    gate.wait_until_reached()

    running_job = job_of(admin, first)
    waiting_job = job_of(admin, second)

    assert (running_job["status"], running_job["exit_code"]) == ("installing", None)
    wait_until(lambda: job_of(admin, first)["stdout"] == "begun\n", what="the output follows while it runs")
    assert (waiting_job["status"], waiting_job["queued_behind_id"]) == ("pending", first)
    assert (read(admin, held)["status"], read(admin, other)["status"]) == ("installing", "pending")
    assert error_of(admin.delete(f"/api/packages/{other['id']}")) == (409, "packages.install_active")
    gate.open(b"let go\n")
    assert ended(admin, first)["stdout"] == "begun\nlet go\n"
    assert ended(admin, second)["status"] == "completed"
    listed = admin.get("/api/packages/jobs", params={"limit": 2}).json()["jobs"]
    assert [entry["id"] for entry in listed] == [second, first]
    assert listed[0]["stdout"] is None


def test_a_running_install_can_be_cancelled(running: Running, admin: Client) -> None:
    gate = running.gate()
    package = add(running, ["/bin/cat", str(gate.path)])
    job_id = install(admin, package)
    gate.wait_until_reached()

    answer = admin.post(f"/api/operations/{job_id}/cancel")

    assert answer.status_code == 200
    gate.forget()
    job = ended(admin, job_id)
    assert (job["status"], job["exit_code"]) == ("cancelled", None)
    assert read(admin, package)["status"] == "failed"
    assert error_of(admin.post(f"/api/operations/{job_id}/cancel")) == (409, "operations.already_finished")


def test_an_install_repeated_with_its_idempotency_key_runs_once(running: Running, admin: Client) -> None:
    package = add(running, ["/bin/true"])
    headers = {"Idempotency-Key": running.new_name("key")}

    answers = [admin.post(f"/api/packages/{package['id']}/install", headers=headers) for _ in range(2)]

    assert answers[0].json() == answers[1].json()
    ended(admin, answers[0].json()["job_id"])


def test_a_name_cannot_be_used_twice(running: Running, admin: Client) -> None:
    first, second = add(running, ["/bin/true"]), add(running, ["/bin/true"])

    taken = admin.post("/api/packages/", json={"name": first["name"], "install_command": ["/bin/true"]})
    renamed = admin.put(f"/api/packages/{second['id']}", json={"name": first["name"]})

    assert error_of(taken) == (409, "packages.name_taken")
    assert error_of(renamed) == (409, "packages.name_taken")
    assert admin.put(f"/api/packages/{second['id']}", json={"name": second["name"]}).status_code == 200
    assert error_of(admin.put(f"/api/packages/{second['id']}", json={"name": None})) == (422, "packages.value_missing")


@pytest.mark.parametrize(
    "command", ["apt-get install hello", [], [""], ["  "], ["a\0b"], [1], ["x"] * 201, None, {"program": "x"}]
)
def test_a_command_that_is_not_an_array_of_arguments_is_refused(command: Any, running: Running, admin: Client) -> None:
    before = admin.get("/api/packages/").json()

    answer = admin.post("/api/packages/", json={"name": running.new_name("bad"), "install_command": command})

    assert answer.status_code == 422
    assert admin.get("/api/packages/").json() == before


def test_only_administrators_may_use_packages(running: Running) -> None:
    package = add(running, ["/bin/true"])
    operator, place = running.stranger, f"/api/packages/{package['id']}"
    calls: list[tuple[str, str, Any]] = [
        ("GET", "/api/packages/", None),
        ("POST", "/api/packages/", {"name": "n", "install_command": ["x"]}),
        ("PUT", place, {}),
        ("DELETE", place, None),
        ("POST", f"{place}/install", None),
        ("GET", "/api/packages/jobs", None),
        ("GET", f"/api/packages/jobs/{NOBODY}", None),
    ]

    assert [error_of(operator.request(method, path, json=body)) for method, path, body in calls] == [
        (403, "access.forbidden")
    ] * len(calls)


def test_an_account_token_may_not_install_a_package(running: Running) -> None:
    package = add(running, ["/bin/true"])
    with running.anonymous() as client:
        client.headers["Authorization"] = f"Bearer {running.account_token()}"
        answer = client.post(f"/api/packages/{package['id']}/install")

    assert error_of(answer) == (403, "auth.login_token_required")
    assert read(running.admin, package)["status"] == "not_installed"


def test_an_unknown_job_is_not_found(running: Running, admin: Client) -> None:
    assert error_of(admin.get(f"/api/packages/jobs/{NOBODY}")) == (404, "operations.not_found")
    assert error_of(admin.get(f"/api/packages/jobs/{running.known.job_id}")) == (404, "operations.not_found")
