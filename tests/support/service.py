"""A real `holdfast serve` process, and a client for it."""

import ctypes
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import httpx2

from tests.support import stores, warm_starts, witnesses
from tests.support.warm_engines import warm_path

T = TypeVar("T")
PATIENCE = 300.0
"""Time limit in seconds for things that must happen.

Only a failing test waits this long, and a busy machine may need minutes for a second's work.
"""
ADMIN_PASSWORD = "correct horse battery"
ROUTE_VERDICTS = Path(__file__).resolve().parents[2] / ".cache" / "test-routes.json"
"""What earlier test runs found out about the engines' private interface, since the self-test takes seconds."""
PR_SET_PDEATHSIG = 1
PROGRAM = Path(sys.executable).parent / "holdfast"


SHORTEST_PAUSE, LONGEST_PAUSE = 0.05, 0.25


def wait_until(
    condition: Callable[[], T | None], seconds: float = PATIENCE, pause: float | None = None, what: str = ""
) -> T:
    """Poll a condition until it holds, and return its value. After the time limit, fail with what was awaited.

    By default, each pause is a tenth of the time waited so far, within bounds: a request costs a service milliseconds,
    and twenty per second would slow down what is awaited.
    """
    began = time.monotonic()
    while not (value := condition()):
        waited = time.monotonic() - began
        if waited > seconds:
            raise AssertionError(f"not within {seconds} s: {what or condition}{witnesses.accounts()}")
        time.sleep(min(max(waited / 10, SHORTEST_PAUSE), LONGEST_PAUSE) if pause is None else pause)
    return value


def end_with_parent() -> None:
    """In a new process: have the kernel kill it when the tests end, so that no service outlives them."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Client(httpx2.Client):
    """An HTTP client with the requests that tests make often."""

    def __init__(self, **options: Any) -> None:
        # Plain HTTP to this machine: loading all certificate authorities takes a tenth of a second each time.
        super().__init__(**{"verify": False, "timeout": PATIENCE, **options})

    def login(self, username: str = "admin", password: str = ADMIN_PASSWORD) -> "Client":
        answer = self.post("/api/auth/login", data={"username": username, "password": password})
        assert answer.status_code == 200, answer.text
        self.headers["X-Backup-Authorization"] = f"Bearer {answer.json()['access_token']}"
        return self

    def create_repository(self, path: Path | str, sources: list[Path | str], **more: Any) -> dict[str, Any]:
        body = {
            "name": Path(path).name,
            "path": str(path),
            "encryption": "repokey-blake2",
            "passphrase": "a passphrase of the tests",
            "source_paths": [str(source) for source in sources],
            "index_mode": "off",  # only tests about it want index work after each backup
            **more,
        }
        answer = self.post("/api/repositories/", json=body)
        assert answer.status_code == 201, answer.text
        created: dict[str, Any] = answer.json()
        return created

    def start_backup(self, repository: dict[str, Any] | str, **more: Any) -> int:
        path = repository if isinstance(repository, str) else repository["path"]
        answer = self.post("/api/backup/start", json={"repository": path, **more})
        assert answer.status_code == 200, answer.text
        assert answer.json()["status"] == "pending"
        job_id: int = answer.json()["job_id"]
        return job_id

    def operation(self, operation_id: int) -> dict[str, Any]:
        answer = self.get(f"/api/operations/{operation_id}")
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    def wait_for_end(self, operation_id: int, seconds: float = PATIENCE) -> dict[str, Any]:
        """The operation, once it has reached a terminal status."""
        return wait_until(
            lambda: found if (found := self.operation(operation_id))["status"] not in ("pending", "running") else None,
            seconds,
            what=f"operation {operation_id} ends",
        )

    def wait_for_status(self, operation_id: int, status: str, seconds: float = PATIENCE) -> dict[str, Any]:
        return wait_until(
            lambda: found if (found := self.operation(operation_id))["status"] == status else None,
            seconds,
            pause=0.02,
            what=f"operation {operation_id} is {status}",
        )

    def log_lines(self, operation_id: int) -> list[str]:
        lines: list[str] = []
        while True:
            answer = self.get(f"/api/operations/{operation_id}/logs", params={"offset": len(lines), "limit": 5000})
            assert answer.status_code == 200, answer.text
            lines += [line["content"] for line in answer.json()["lines"]]
            if not answer.json()["has_more"]:
                return lines


@dataclass(eq=False)
class ServiceProcess:
    """Starts, kills and restarts the service on one data folder."""

    data_dir: Path
    environment: dict[str, str] = field(default_factory=dict)
    database_url: str | None = None
    role: str = "all"
    port: int = 0
    process: warm_starts.Process | None = None
    prefix: tuple[str, ...] = ()
    """A program that starts the service, with its arguments."""
    is_warm: bool = field(default_factory=lambda: "PYTEST_VERSION" in os.environ)
    """Whether to fork it from a process that has loaded the program; not if the start itself is measured, as in
    benches.
    """

    def start(self) -> "ServiceProcess":
        self.launch()
        if self.role != "runner":
            self.wait_until_ready()
        return self

    @property
    def log_file(self) -> Path:
        return self.data_dir.parent / f"{self.data_dir.name}.{self.role}.log"

    def account(self) -> str:
        if self.process is None or self.process.poll() is not None:
            return ""
        engines = witnesses.processes_of(f"{self.data_dir}/")
        return (
            f"service on port {self.port}, its log:\n{witnesses.end_of_file(self.log_file)}\n  its "
            f"processes:\n{engines}"
        )

    def launch(self) -> None:
        """Start the process without waiting for it to respond."""
        self.port = self.port or free_port()
        environment = {
            **os.environ,
            "PATH": warm_path(),
            "HOLDFAST_ADMIN_PASSWORD": ADMIN_PASSWORD,
            "HOLDFAST_LOG_FORMAT": "json",
            "HOLDFAST_ACCESS_TOKEN_MINUTES": "1440",  # users of a shared service log in once, for a run of an hour
            **({"HOLDFAST_DATABASE_URL": self.database_url} if self.database_url else {}),
            **self.environment,
        }
        self.data_dir.mkdir(parents=True, exist_ok=True)
        witnesses.call(self)
        self._seed_route_verdicts()
        self._seed_store()
        own_log = self.log_file
        arguments = ["serve", "--port", str(self.port), "--data-dir", str(self.data_dir), "--role", self.role]
        if self.is_warm and not self.prefix:
            self.process = warm_starts.start(arguments, environment, own_log)
            return
        with own_log.open("ab") as log:
            self.process = subprocess.Popen(
                [*self.prefix, str(PROGRAM), *arguments],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=end_with_parent,
            )

    def _seed_store(self) -> None:
        """Start a new store as a copy of one with tables: creating those takes longer than the rest of the start."""
        store = self.data_dir / "holdfast.db"
        if self.is_warm and not self.database_url and not store.exists():
            shutil.copyfile(stores.sqlite_template(), store)
            store.chmod(0o600)

    def _seed_route_verdicts(self) -> None:
        mine = self.data_dir / "history" / "routes.json"
        if ROUTE_VERDICTS.exists() and not mine.exists():
            mine.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            shutil.copy(ROUTE_VERDICTS, mine)

    def _keep_route_verdicts(self) -> None:
        mine = self.data_dir / "history" / "routes.json"
        if mine.exists() and not ROUTE_VERDICTS.exists():
            ROUTE_VERDICTS.parent.mkdir(exist_ok=True)
            part = ROUTE_VERDICTS.with_suffix(f".{os.getpid()}")
            shutil.copy(mine, part)
            part.replace(ROUTE_VERDICTS)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def wait_until_ready(self, seconds: float = PATIENCE) -> None:
        def ready() -> bool:
            assert self.process is not None
            assert self.process.poll() is None, (
                f"the service ended with {self.process.returncode}: {self.own_log()[-3000:]}"
            )
            try:
                return httpx2.get(f"{self.url}/health/ready", timeout=5, verify=False).status_code == 200
            except httpx2.TransportError:
                return False

        wait_until(ready, seconds, what="the service is ready")

    def own_log(self) -> str:
        return self.log_file.read_text(errors="replace")

    def client(self) -> Client:
        return Client(base_url=self.url)

    def kill(self) -> None:
        """Kill the service alone with SIGKILL; engines under their shims continue."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def stop(self, seconds: float = PATIENCE) -> int:
        assert self.process is not None
        self._keep_route_verdicts()
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(seconds)

    def restart(self) -> None:
        self.launch()
        if self.role != "runner":
            self.wait_until_ready()
