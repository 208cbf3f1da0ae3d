"""How the service starts and stops: twice on one folder, during its start, on a full disk, in a container."""

import contextlib
import os
import random
import signal
import socket
import subprocess
import threading
from pathlib import Path

import pytest

from tests.contract.fields import error_of
from tests.real.processes.conftest import ENGINE
from tests.real.processes.paced_backups import key_of
from tests.support import networks
from tests.support.installation import Installation
from tests.support.paced_engine import PacedEngine
from tests.support.processes import children_of, command_line
from tests.support.running import processes_with
from tests.support.service import PATIENCE, PROGRAM, ServiceProcess, wait_until


def test_a_service_that_is_stopped_while_it_starts_exits_cleanly(
    embedded: Installation, service: ServiceProcess
) -> None:
    assert service.stop() == 0
    said = len(service.own_log())
    service.launch()
    wait_until(lambda: "listening" in service.own_log()[said:], pause=0.001, what="the service listens")

    assert service.stop() == 0


def test_a_service_stops_despite_a_download_that_nobody_reads_and_a_preview_of_a_silent_engine(tmp_path: Path) -> None:
    engine, is_silent = tmp_path / "borg", tmp_path / "is-silent"
    silence = f"case \" $* \" in *' list '*) if [ -e {is_silent} ]; then sleep {2 * PATIENCE:.0f}; fi;; esac"
    engine.write_text(f'#!/bin/sh\n{silence}\nexec {ENGINE} "$@"\n')
    engine.chmod(0o755)
    service = ServiceProcess(tmp_path / "data", {"HOLDFAST_BORG1": str(engine)}).start()
    admin = service.client().login()
    source = tmp_path / "source"
    source.mkdir()
    (source / "file").write_bytes(random.Random(1).randbytes(30 << 20))
    options = {"encryption": "none", "passphrase": None}
    repositories = [admin.create_repository(tmp_path / name, [source], **options) for name in ("one", "two")]
    made = [admin.wait_for_end(admin.start_backup(repository))["archive_name"] for repository in repositories]
    one = f"/api/repositories/{repositories[0]['id']}/archives"
    archive = wait_until(lambda: admin.get(one).json()["archives"], what="the archive is known")[0]["id"]
    is_silent.touch()
    preview = {"repository_id": repositories[1]["id"], "archive": made[1], "destination": str(tmp_path / "restored")}
    refusals: list[tuple[int, str]] = []

    def ask() -> None:
        refusals.append(error_of(admin.post("/api/restore/preview", json={**preview, "paths": []})))

    asking = threading.Thread(target=ask)
    with socket.create_connection(("127.0.0.1", service.port)) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        credential = f"X-Backup-Authorization: {admin.headers['X-Backup-Authorization']}"
        connection.sendall(f"GET {one}/{archive}/download HTTP/1.1\r\nHost: x\r\n{credential}\r\n\r\n".encode())
        assert connection.recv(4096).startswith(b"HTTP/1.1 200")
        asking.start()
        wait_until(lambda: len(processes_with(str(tmp_path / "data" / "spool"))) >= 2, what="both engines run")

        assert service.stop() == 0
    asking.join(PATIENCE)
    assert refusals == [(503, "api.stopping")]
    assert "Traceback" not in service.own_log()
    wait_until(lambda: not processes_with(str(tmp_path / "data")), what="the engines have ended")


def test_a_second_service_on_the_same_folder_reports_the_conflict_and_exits(
    embedded: Installation, service: ServiceProcess
) -> None:
    second = subprocess.run(
        [PROGRAM, "serve", "--port", "0", "--data-dir", embedded.data_dir],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )

    assert second.returncode == 75
    assert len(second.stderr.splitlines()) == 1
    assert str(embedded.data_dir) in second.stderr
    assert second.stdout == ""


def test_the_record_stays_true_when_the_disk_of_the_service_is_full(tmp_path: Path) -> None:
    """Logs, spools and store are on a disk that fills up while the engine runs; the repository is elsewhere."""
    if os.geteuid() != 0:
        pytest.skip("only root may mount a small file system")
    installation = Installation(tmp_path, PacedEngine(tmp_path / "engine", ENGINE))
    installation.data_dir.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=32m", "tmpfs", installation.data_dir], check=True)
    service = installation.service().start()
    try:
        installation.prepare(service)
        operation_id = installation.start_backup(service, "around")
        run = installation.wait_for_lines(operation_id)
        fill = installation.data_dir / "fill"
        with contextlib.suppress(OSError), fill.open("wb") as file:
            while True:
                file.write(b"\0" * 65536)
        wait_until(lambda: not installation.processes_of(operation_id), what="shim and engine have ended")
        fill.unlink()
        with installation.client(service) as client:
            ended = client.wait_for_end(operation_id)
        made = installation.archives_with(key_of(installation, run))
        assert (ended["status"] in ("completed", "completed_with_warnings")) == (made == 1), ended
        assert made <= 1
    finally:
        service.stop()
        installation.end_everything()
        subprocess.run(["umount", "--lazy", installation.data_dir], check=True)


def test_as_the_first_process_of_a_container_the_service_leaves_no_zombie_and_stops_on_sigterm(tmp_path: Path) -> None:
    of_a_container = ("--pid", "--fork", "--kill-child", "--mount-proc")
    if reason := networks.why_not(*of_a_container):
        pytest.skip(reason)  # as in a chroot, where no mount namespace can be created
    installation = Installation(tmp_path, PacedEngine(tmp_path / "engine", ENGINE))
    service = installation.service()
    service.prefix = ("unshare", *of_a_container)
    service.start()
    try:
        installation.prepare(service)
        operation_id = installation.start_backup(service, "held")
        installation.wait_for_lines(operation_id)
        assert service.process is not None
        (first,) = children_of(service.process.pid)
        for shim in installation.processes_of(operation_id):
            os.kill(shim, signal.SIGKILL)

        def orphans() -> list[int]:
            return [pid for pid in children_of(first) if str(installation.engine.program) in command_line(pid)]

        wait_until(orphans, what="the engine outlives its shim")
        left = set(orphans())
        with installation.engine.let_go(), installation.client(service) as client:
            ended = client.wait_for_end(operation_id)
        assert ended["status"] == "completed", ended
        wait_until(lambda: not left & set(children_of(first)), what="the orphan was taken leave of")

        os.kill(first, signal.SIGTERM)
        assert service.process.wait(PATIENCE) == 0
    finally:
        service.kill()
        installation.end_everything()
