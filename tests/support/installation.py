"""A whole installation for tests that kill and restart its processes: data folder, paced engine, one repository."""

import contextlib
import json
import os
import signal
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.paced_engine import PacedEngine
from tests.support.processes import processes_naming
from tests.support.service import Client, ServiceProcess, wait_until
from tests.support.warm_engines import warm_program

PASSPHRASE = "a passphrase of the installation"


@dataclass
class Installation:
    folder: Path
    engine: PacedEngine
    database_url: str | None = None
    environment: dict[str, str] = field(default_factory=dict)
    repository: dict[str, Any] = field(default_factory=dict)
    token: str = ""
    main: ServiceProcess | None = None
    """The process that serves requests, for tests that share one."""

    def service(self, role: str = "all") -> ServiceProcess:
        environment = {"HOLDFAST_BORG1": str(self.engine.program), **self.environment}
        return ServiceProcess(self.data_dir, environment, database_url=self.database_url, role=role)

    @property
    def data_dir(self) -> Path:
        return self.folder / "data"

    @property
    def spools(self) -> Path:
        return self.data_dir / "spool"

    def prepare(self, service: ServiceProcess) -> None:
        """Log in and create the repository, through a running service."""
        client = service.client().login()
        self.token = client.headers["X-Backup-Authorization"]
        self.repository = client.create_repository(
            self.folder / "repository", [self.engine.source("quick")], passphrase=PASSPHRASE
        )

    def up(self) -> ServiceProcess:
        """The process that serves requests, restarted if a test killed or stopped it."""
        assert self.main is not None
        if self.main.process is None or self.main.process.poll() is not None:
            self.main.restart()
        return self.main

    def client(self, service: ServiceProcess) -> Client:
        return Client(base_url=service.url, headers={"X-Backup-Authorization": self.token})

    def start_backup(self, service: ServiceProcess, pace: str) -> int:
        with self.client(service) as client:
            return client.start_backup(self.repository, source_paths=[str(self.engine.source(pace))])

    # --- engines and processes --------------------------------------------------------------------------------------

    def engine_pid(self, operation_id: int) -> int:
        """The pid of the engine that creates the archive, once it exists."""
        pattern = f"{operation_id}/*/create/engine.json"

        def pid() -> int | None:
            for record in self.spools.glob(pattern):
                with contextlib.suppress(OSError, ValueError):
                    return int(json.loads(record.read_bytes())["pid"])
            return None

        return wait_until(pid, pause=0.01, what=f"the engine of operation {operation_id} runs")

    def wait_for_lines(self, operation_id: int, count: int = 2) -> str:
        """Wait until the engine has printed some lines; return its run."""
        pid = self.engine_pid(operation_id)

        def run() -> str | None:
            mine = [run.id for run in self.engine.runs() if run.id.startswith(f"{pid}.")]
            return mine[-1] if mine and self.engine.said(mine[-1]) >= count else None

        return wait_until(run, pause=0.01, what=f"the engine of operation {operation_id} says {count} lines")

    def processes_of(self, operation_id: int) -> dict[int, str]:
        """The live shims of an operation."""
        return processes_naming(f"{self.spools}/{operation_id}/")

    def archives_with(self, key: str) -> int:
        """The number of archives with this key, counted with the engine itself."""
        listed = ask_engine(self.engine, self.data_dir, "list", "--format={comment}{NL}", self.repository["path"])
        return sum(f"holdfast:{key}" in line.split() for line in listed.splitlines())

    def end_everything(self) -> None:
        """Leave no process behind."""
        for pid in processes_naming(str(self.folder)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def ask_engine(engine: PacedEngine, data_dir: Path, *arguments: str) -> str:
    """Run the real engine under an installation's identity, so that it may remove locks of killed engines."""
    environment = {
        "PATH": os.environ["PATH"],
        "LANG": "C.UTF-8",
        "BORG_BASE_DIR": str(data_dir / "engine"),
        "BORG_HOST_ID": (data_dir / "install-id").read_text().strip(),
        "BORG_PASSPHRASE": PASSPHRASE,
        "BORG_RELOCATED_REPO_ACCESS_IS_OK": "yes",
        "BORG_SELFTEST": "disabled",
    }
    program = warm_program(engine.engine)
    ran = subprocess.run(
        [program, "--lock-wait", "20", *arguments], env=environment, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, f"borg {arguments} ended with {ran.returncode}: {ran.stderr}"
    return ran.stdout
