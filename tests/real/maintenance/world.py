"""A service with an engine that can be held, and repositories with three archives each."""

import contextlib
import itertools
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tests.support.archive_sets import OwnEngine
from tests.support.engines import ENGINES
from tests.support.held_engine import HeldEngine
from tests.support.processes import processes_naming
from tests.support.service import PATIENCE, Client, ServiceProcess
from tests.support.warm_engines import warm_program

NAMES = ("first", "second", "third")


@dataclass
class World:
    folder: Path
    engine: HeldEngine
    service: ServiceProcess
    _numbers: "itertools.count[int]" = field(default_factory=lambda: itertools.count(1))
    token: str = ""

    @property
    def own_engine(self) -> OwnEngine:
        return OwnEngine(warm_program(self.engine.engine), self.service.data_dir)

    @property
    def admin(self) -> Client:
        if not self.token:
            self.token = self.service.client().login().headers["X-Backup-Authorization"]
        return Client(base_url=self.service.url, headers={"X-Backup-Authorization": self.token})

    def new_repository(self) -> dict[str, Any]:
        number = next(self._numbers)
        source = self.folder / f"source-{number}"
        source.mkdir()
        (source / "file").write_bytes(os.urandom(3000))
        repository = self.admin.create_repository(
            self.folder / f"repository-{number}", [source], encryption="none", passphrase=None, index_mode="off"
        )
        now = datetime.now(UTC).replace(microsecond=0)
        archives = [(name, now - timedelta(days=5 - number)) for number, name in enumerate(NAMES)]
        self.own_engine.make(repository, archives, source)
        return repository

    def names(self, repository: dict[str, Any]) -> set[str]:
        return set(self.own_engine.archives(repository))

    # --- starting work --------------------------------------------------------------------------------------------

    def start(self, kind: str, repository: dict[str, Any]) -> int:
        """Start work of a kind and return its operation."""
        place = f"/api/repositories/{repository['id']}"
        if kind == "wipe":
            return self.start_wipe(repository)
        if kind == "delete_archive":
            answer = self.admin.delete("/api/archives/second", params={"repository": repository["path"]})
        else:
            bodies: dict[str, dict[str, Any]] = {"prune": {"keep_last": 1}, "restore_check": {"full_archive": True}}
            answer = self.admin.post(f"{place}/{kind.replace('_', '-')}", json=bodies.get(kind, {}))
        assert answer.status_code == 200, answer.text
        job_id: int = answer.json()["job_id"]
        return job_id

    def start_wipe(self, repository: dict[str, Any]) -> int:
        place = f"/api/repositories/{repository['id']}"
        seen = self.admin.post(f"{place}/wipe-preview", json={})
        assert seen.status_code == 200, seen.text
        body = {
            "preview_id": seen.json()["id"],
            "preview_fingerprint": seen.json()["archive_fingerprint"],
            "confirmation_phrase": f"WIPE {repository['name']}",
            "understood": True,
        }
        answer = self.admin.post(f"{place}/wipe", json=body)
        assert answer.status_code == 200, answer.text
        job_id: int = answer.json()["id"]
        return job_id

    def wipe_job(self, repository: dict[str, Any], job_id: int) -> dict[str, Any]:
        found: dict[str, Any] = self.admin.get(f"/api/repositories/{repository['id']}/wipe-jobs/{job_id}").json()
        return found

    def allow_everything(self) -> None:
        names = ("backups", "restores", "maintenance", "index", "total")
        answer = self.admin.put("/api/operations/limits", json={f"max_running_{name}": 64 for name in names})
        assert answer.status_code == 200, answer.text

    # --- killing --------------------------------------------------------------------------------------------------

    def kill_engine(self, pid: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)

    def kill_with_shim(self, operation_id: int, pid: int) -> None:
        """Kill the shim first, so that no exit record is written."""
        for shim in processes_naming(f"{self.service.data_dir}/spool/{operation_id}/"):
            with contextlib.suppress(ProcessLookupError):
                os.kill(shim, signal.SIGKILL)
        self.kill_engine(pid)

    def end_everything(self) -> None:
        for pid in processes_naming(str(self.folder)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@contextmanager
def a_world(folder: Path, series: str = "1.4") -> Iterator[World]:
    engine = HeldEngine(folder / "engine", ENGINES[series])
    service = ServiceProcess(folder / "data", {"HOLDFAST_BORG1": str(engine.program)})
    world = World(folder, engine, service)
    try:
        service.start()
        yield world
    finally:
        world.end_everything()
        if service.process is not None:
            service.process.wait(PATIENCE)
