"""A running installation to disrupt: its processes, repositories and engine."""

import contextlib
import json
import os
import signal
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from backup_engine import shim
from tests.support.engines import ENGINES
from tests.support.installation import PASSPHRASE, ask_engine
from tests.support.paced_engine import PacedEngine
from tests.support.postgres import postgres_server
from tests.support.processes import children_of, command_line, processes_naming
from tests.support.service import Client, ServiceProcess

REPOSITORIES = 2


@dataclass(frozen=True, slots=True)
class Variant:
    """`embedded`: one process on SQLite. `split`: one API process and two runners on PostgreSQL."""

    roles: str
    series: str

    def __str__(self) -> str:
        return f"{self.roles}, engine {self.series}"


VARIANTS = tuple(Variant(roles, series) for series in ENGINES for roles in ("embedded", "split"))


@dataclass(frozen=True, slots=True)
class Victim:
    """A process of an operation that may be killed."""

    pid: int
    operation_id: int

    def is_group_leader(self) -> bool:
        with contextlib.suppress(ProcessLookupError):
            return os.getpgid(self.pid) == self.pid
        return False


@dataclass
class World:
    folder: Path
    variant: Variant
    engine: PacedEngine = field(init=False)
    services: dict[str, ServiceProcess] = field(default_factory=dict)
    repositories: list[dict[str, Any]] = field(default_factory=list)
    token: str = ""
    database_url: str | None = None
    known_keys: dict[str, str] = field(default_factory=dict)
    """The key of each operation that created an archive in an earlier round, with the operation's description."""

    def __enter__(self) -> Self:
        try:
            self._build()
        except BaseException:
            self._end_everything()
            raise
        return self

    def _build(self) -> None:
        self.folder.mkdir(parents=True)
        self.engine = PacedEngine(self.folder / "engine", ENGINES[self.variant.series])
        if self.variant.roles == "split":
            self.database_url = postgres_server().create_database()
        for name, role in self._roles().items():
            self.services[name] = self._service(role)
            self.services[name].start()
        client = self.api.client().login()
        self.token = client.headers["X-Backup-Authorization"]
        for number in range(1, REPOSITORIES + 1):
            path = self.folder / f"repository-{number}"
            made = client.create_repository(path, [self.engine.source("quick")], passphrase=PASSPHRASE)
            self.repositories.append(made)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end_everything()

    def _end_everything(self) -> None:
        for service in self.services.values():
            if service.process is not None and service.process.poll() is None:
                service.kill()
        for pid in processes_naming(str(self.folder)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if self.database_url is not None:
            postgres_server().drop_database(self.database_url)

    def _roles(self) -> dict[str, str]:
        if self.variant.roles == "embedded":
            return {"service": "all"}
        return {"api": "api", "runner-1": "runner", "runner-2": "runner"}

    def _service(self, role: str) -> ServiceProcess:
        environment = {"HOLDFAST_BORG1": str(self.engine.program), "HOLDFAST_CANCEL_GRACE_SECONDS": "5"}
        return ServiceProcess(self.folder / "data", environment, database_url=self.database_url, role=role)

    @property
    def api(self) -> ServiceProcess:
        return self.services["service" if self.variant.roles == "embedded" else "api"]

    @property
    def spools(self) -> Path:
        return self.folder / "data" / "spool"

    def client(self, seconds: float = 30.0) -> Client:
        return Client(
            base_url=self.api.url, timeout=seconds, headers={"X-Backup-Authorization": self.token}, trust_env=False
        )

    def renew_token(self) -> None:
        """Log in again if the last token has expired."""
        with self.client() as client:
            if client.get("/api/operations/").status_code == 401:
                self.token = self.api.client().login().headers["X-Backup-Authorization"]

    # --- processes to kill -----------------------------------------------------------------------------------------

    def is_up(self, name: str) -> bool:
        process = self.services[name].process
        return process is not None and process.poll() is None

    def shims(self) -> list[Victim]:
        program = f"{shim.__file__} "
        found = processes_naming(program)
        spools = {pid: self._operation_of(arguments.split(program)[1].split()[0]) for pid, arguments in found.items()}
        return [Victim(pid, operation) for pid, operation in spools.items() if operation is not None]

    def engines(self) -> list[Victim]:
        """The leaders of the process groups of all living engines."""
        return [victim for record in self.spools.glob("*/*/*/engine.json") if (victim := self._engine(record))]

    def engine_children(self) -> list[Victim]:
        return [Victim(child, leader.operation_id) for leader in self.engines() for child in children_of(leader.pid)]

    def _engine(self, record: Path) -> Victim | None:
        try:
            identity = json.loads(record.read_bytes())
        except (OSError, ValueError):
            return None
        operation = self._operation_of(str(record.parent))
        alive = shim.process_start_time(identity["pid"]) == identity["start_time"] and command_line(identity["pid"])
        return Victim(identity["pid"], operation) if alive and operation is not None else None

    def _operation_of(self, spool: str) -> int | None:
        """The operation that owns this spool; None if it belongs to another installation."""
        path = Path(spool)
        if not path.is_relative_to(self.spools):
            return None
        return int(path.relative_to(self.spools).parts[0])

    # --- contents of the repositories --------------------------------------------------------------------------------

    def archive_comments(self, repository: dict[str, Any]) -> list[str]:
        """The comments of all archives, as listed by the engine."""
        return self.ask_engine("list", "--format={comment}{NL}", repository["path"]).splitlines()

    def ask_engine(self, *arguments: str) -> str:
        return ask_engine(self.engine, self.folder / "data", *arguments)
