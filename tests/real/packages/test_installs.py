"""Real installs, and installs that are interrupted."""

import contextlib
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.gate import Gate
from tests.support.processes import processes_naming
from tests.support.service import PATIENCE, Client, ServiceProcess, wait_until

APT = ["apt-get", "-o", "DPkg::Lock::Timeout=120", "install", "-y", "--no-install-recommends"]
TINY = ("libjs-underscore", "libjs-inherits", "hello")
"""The first two have no manual pages, whose index takes longer to update than the rest of an installation."""


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceProcess]:
    folder = tmp_path_factory.mktemp("packages")
    service = ServiceProcess(folder / "data")
    try:
        yield service.start()
    finally:
        for pid in processes_naming(str(folder)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if service.process is not None:
            service.process.wait(PATIENCE)


@pytest.fixture
def admin(service: ServiceProcess) -> Client:
    return service.client().login()


def install(admin: Client, name: str, command: list[str]) -> int:
    added = admin.post("/api/packages/", json={"name": name, "install_command": command})
    assert added.status_code == 201, added.text
    answer = admin.post(f"/api/packages/{added.json()['id']}/install")
    assert answer.status_code == 200, answer.text
    job_id: int = answer.json()["job_id"]
    return job_id


def job_of(admin: Client, job_id: int) -> dict[str, Any]:
    found: dict[str, Any] = admin.get(f"/api/packages/jobs/{job_id}").json()
    return found


def can_be_installed(package: str) -> bool:
    """True if we are root and the package is available, not installed yet and can be downloaded."""
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        return False
    if subprocess.run(["dpkg", "-s", package], capture_output=True, check=False).returncode == 0:
        return False
    fetched = [*APT, "--download-only", package]
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    return subprocess.run(fetched, capture_output=True, check=False, env=environment).returncode == 0


@pytest.fixture
def tiny_package() -> Iterator[str]:
    package = next((package for package in TINY if can_be_installed(package)), None)
    if package is None:
        pytest.skip("no package can be installed here")
    yield package
    subprocess.run(
        ["apt-get", "-o", "DPkg::Lock::Timeout=120", "remove", "-y", package], capture_output=True, check=True
    )


def test_a_debian_package_is_really_installed(admin: Client, tiny_package: str) -> None:
    job_id = install(admin, tiny_package, [*APT, tiny_package])

    admin.wait_for_end(job_id)

    job = job_of(admin, job_id)
    assert (job["status"], job["exit_code"]) == ("completed", 0), job
    assert f"Setting up {tiny_package}" in job["stdout"]
    known = subprocess.run(["dpkg", "-s", tiny_package], capture_output=True, text=True, check=True)
    assert "Status: install ok installed" in known.stdout


def held_command(gate: Gate, made: Path) -> list[str]:
    """Prints a line on each stream, waits at the gate, then writes a file."""
    return ["/bin/sh", "-c", f"echo begun; echo careful >&2; cat '{gate.path}'; echo 1 >> '{made}'"]


def test_an_install_continues_while_the_service_is_down_and_is_recorded_once(
    service: ServiceProcess, admin: Client, tmp_path: Path
) -> None:
    gate, made = Gate(tmp_path / "gate"), tmp_path / "made"
    job_id = install(admin, "goes-on", held_command(gate, made))
    gate.wait_until_reached()
    wait_until(lambda: job_of(admin, job_id)["stdout"] == "begun\n", what="its output is followed")

    service.kill()
    service.restart()
    again = service.client().login()
    assert job_of(again, job_id)["status"] == "installing"
    gate.open(b"and on\n")

    again.wait_for_end(job_id)
    job = job_of(again, job_id)
    assert (job["status"], job["exit_code"]) == ("completed", 0)
    assert (job["stdout"], job["stderr"]) == ("begun\nand on\n", "careful\n")
    assert made.read_text() == "1\n"


@pytest.mark.campaign
def test_an_install_that_was_killed_fails_and_is_not_retried(
    service: ServiceProcess, admin: Client, tmp_path: Path
) -> None:
    gate, made = Gate(tmp_path / "gate"), tmp_path / "made"
    job_id = install(admin, "is-killed", held_command(gate, made))
    gate.wait_until_reached()

    service.kill()
    killed = {**processes_naming(f"{service.data_dir}/spool/{job_id}/"), **processes_naming(str(gate.path))}
    for pid in killed:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    gate.forget()
    service.restart()

    again = service.client().login()
    again.wait_for_end(job_id)
    job = job_of(again, job_id)
    assert (job["status"], job["error_key"], job["exit_code"]) == ("failed", "operations.interrupted", None)
    assert job["stderr"] == "careful\n", "what it had said is kept"
    assert not made.exists()
    package = next(entry for entry in again.get("/api/packages/").json()["packages"] if entry["name"] == "is-killed")
    assert package["status"] == "failed"
