"""An ssh machine in a network that can be cut, and what is known about its operations without querying the service."""

import contextlib
import os
import signal
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from tests.support.engines import ENGINES
from tests.support.networks import Network, network
from tests.support.paced_engine import PacedEngine
from tests.support.processes import processes_naming
from tests.support.running import Running
from tests.support.service import wait_until
from tests.support.sshd import Sshd, sshd
from tests.support.warm_engines import warm_program

ENGINE = ENGINES["1.4"]
STRIKES = ("service", "near side", "session", "engine there", "shim there")
LOCKS = ("lock.exclusive", "lock.roster")


@dataclass
class Site:
    running: Running
    machine: Sshd
    network: Network
    engine: PacedEngine
    repository: dict[str, Any]

    @property
    def path(self) -> Path:
        return Path(self.repository["path"])

    # --- requests to the service -----------------------------------------------------------------------------------

    def start(self, kind: str, destination: Path) -> int:
        """Start an operation that takes the engine a few seconds, most of which it sleeps."""
        admin, number = self.running.admin, self.repository["id"]
        match kind:
            case "backup":
                return admin.start_backup(self.repository, source_paths=[str(self.engine.source("exec"))])
            case "late backup":
                return admin.start_backup(self.repository, source_paths=[str(self.engine.source("around"))])
            case "check":
                answer = admin.post(f"/api/repositories/{number}/check", json={})
            case "prune":
                answer = admin.post(f"/api/repositories/{number}/prune", json={"keep_last": 1})
            case _:
                answer = self._start_restore(kind, destination)
        assert answer.status_code == 200, answer.text
        operation_id: int = answer.json().get("job_id") or answer.json()["id"]
        return operation_id

    def _start_restore(self, kind: str, destination: Path) -> Any:
        there = {"destination_machine_id": self.repository["ssh_connection_id"]} if kind == "restore there" else {}
        body = {
            "repository_id": self.repository["id"],
            "archive": "kept",
            "destination": str(destination),
            "destination_type": "ssh" if there else "local",
        }
        return self.running.admin.post("/api/restore/start", json={**body, **there})

    def have_archives(self) -> None:
        """Ensure one archive to restore from and one more, however many the prunes have removed."""
        names = [name for name, _ in self.archives()]
        if "kept" not in names:
            self.back_up(archive_name="kept")
        if len(names) < 2:
            self.back_up()

    def back_up(self, **more: Any) -> None:
        """Run an undisturbed backup."""
        sources = [str(self.engine.source("quick"))]
        started = self.running.admin.start_backup(self.repository, source_paths=sources, **more)
        ended = self.running.admin.wait_for_end(started)
        assert ended["status"] == "completed", (ended["error_key"], ended["error_message"])

    # --- disruptions -----------------------------------------------------------------------------------------------

    def strike(self, operation_id: int, victim: str) -> None:
        match victim:
            case "service":
                self.running.process.kill()
                self.running.process.restart()
            case "near side":
                _kill(f"{self.running.process.data_dir}/spool/{operation_id}/", "far/run.py")
            case "session":
                self.machine.cut_links()
            case "engine there":
                _kill(str(self.path), str(self.engine.engine))
                _kill(str(self.path), str(self.engine.program))
            case "shim there":
                _kill(f"{self.machine.home}/.cache", "/shim.py")

    # --- what is true ----------------------------------------------------------------------------------------------

    def archives(self) -> list[tuple[str, str]]:
        """Name and comment of each archive, as the engine itself reports them."""
        listed = subprocess.run(
            [warm_program(ENGINE), "--lock-wait", "20", "list", "--format={archive}{TAB}{comment}{NL}", self.path],
            env={
                "PATH": os.environ["PATH"],
                "BORG_BASE_DIR": str(self.machine.folder / "asking"),
                "BORG_HOST_ID": "the machine of the tests",
                "BORG_SELFTEST": "disabled",
                "BORG_RELOCATED_REPO_ACCESS_IS_OK": "yes",
                "BORG_UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK": "yes",
            },
            capture_output=True,
            text=True,
            check=True,
        )
        found = [line.split("\t") for line in listed.stdout.splitlines()]
        return [(name, comment) for name, comment in found]

    def key_of(self, operation_id: int) -> str:
        """The key that the comment of an archive carries, from the operation that created it."""
        with contextlib.closing(sqlite3.connect(self.running.process.data_dir / "holdfast.db")) as store:
            (key,) = store.execute("SELECT uuid FROM operations WHERE id = ?", (operation_id,)).fetchone()
        return str(key)

    def archives_of(self, operation_id: int) -> int:
        key = f"holdfast:{self.key_of(operation_id)}"
        return sum(key in comment.split() for _, comment in self.archives())

    def backups_begun(self, operation_id: int) -> list[str]:
        """Each start of the engine for a backup."""
        return self.engine.starts_of(self.key_of(operation_id))

    def recorded_archives(self) -> set[str]:
        found = self.running.admin.get(f"/api/repositories/{self.repository['id']}/archives").json()
        return {one["name"] for one in found["archives"]}

    def wait_until_quiet(self, seconds: float) -> None:
        """Wait until nothing works on the repository any more, and check that it is not locked."""
        wait_until(lambda: not processes_naming(str(self.path)), seconds, what="no engine is at work there")
        self.running.wait_until_idle()
        assert [name for name in LOCKS if (self.path / name).exists()] == []


def _kill(*words: str) -> None:
    for process in psutil.process_iter(["cmdline"]):
        line = " ".join(process.info["cmdline"] or ())
        if all(word in line for word in words):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGKILL)


@contextmanager
def cut_site(running: Running, folder: Path) -> Iterator[Site]:
    engine = PacedEngine(folder / "engine", ENGINE, before=25, after=12, pause=0.1)
    with network() as net, sshd(folder / "machine", address=net.address, prefix=net.inside()) as machine:
        name = running.new_name("machine")
        number = machine.connection(running.admin, name, engine_path=str(engine.program))
        repository = running.new_repository(
            source_paths=[engine.source("quick")],
            execution_target="ssh",
            ssh_connection_id=number,
            custom_flags=[],
        )
        yield Site(running, machine, net, engine, repository)
        net.heal()
