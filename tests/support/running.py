"""A running service with everything that tests of the contract commonly need."""

import itertools
import os
import shlex
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from sqlalchemy.orm import Session

from holdfast.alarms.models import Alarm
from holdfast.kit import clock
from holdfast.operations.kinds import Kind, retry_when_interrupted
from holdfast.operations.outcome import Outcome
from holdfast.operations.queue import Origin, Subject, enqueue
from holdfast.operations.status import Status, Trigger
from holdfast.storage.session import Database
from tests.support.engines import ENGINE_2, ENGINES
from tests.support.gate import FLAG, Gate
from tests.support.outside import Outside
from tests.support.postgres import PostgresServer, postgres_server
from tests.support.service import Client, ServiceProcess, wait_until
from tests.support.stores import postgres_template
from tests.support.warm_engines import warm_command

PASSPHRASE = "a passphrase of the tests"
PASSWORD = "a password of the tests"
# Some tests wait for the service to give up waiting.
IMPATIENT = {
    "HOLDFAST_INLINE_WAIT_SECONDS": "1",
    "HOLDFAST_ENGINE_LOCK_WAIT_SECONDS": "1",
    "HOLDFAST_SSH_PATIENCE_HOURS": "0.05",  # a machine that ended with its test is not searched for all day
}
QUICK = "BORG_SELFTEST=disabled"
"""Skips the engine's self-test at each start, which takes a third of a short run."""
# The service runs queued backups under its own kind; here the kind is only a name in the queue.
BACKUP = Kind(
    name="backup",
    category="backup",
    limit_group="backup",
    run=lambda _context: Outcome(Status.FAILED),
    params=BaseModel,
    on_interrupted=retry_when_interrupted,
)


@dataclass(eq=False)
class Running:
    """One service with one store and one engine. Tests share it, so each creates its own repositories and users."""

    folder: Path
    process: ServiceProcess
    engine: str
    _numbers: "itertools.count[int]" = field(default_factory=lambda: itertools.count(1))

    @cached_property
    def admin(self) -> Client:
        return self.process.client().login()

    def anonymous(self) -> Client:
        return self.process.client()

    # --- folders --------------------------------------------------------------------------------------------------

    def new_name(self, word: str) -> str:
        return f"{word}-{next(self._numbers)}"

    def new_folder(self, word: str = "folder") -> Path:
        folder = self.folder / self.new_name(word)
        folder.mkdir()
        return folder

    def new_source(self, files: int = 3) -> Path:
        folder = self.new_folder("source")
        for number in range(files):
            (folder / f"file-{number}").write_text(f"the content of file {number} in {folder.name}\n")
        return folder

    def new_path(self, word: str = "repository") -> Path:
        return self.folder / self.new_name(word)

    def gate(self) -> Gate:
        return Gate(self.new_path("gate"))

    # --- repositories and backups ---------------------------------------------------------------------------------

    def new_repository(self, **more: Any) -> dict[str, Any]:
        """Create a repository over HTTP; by default it opens quickly and causes no further work."""
        path = more.pop("path", None) or self.new_path()
        sources = more.pop("source_paths", None)
        if sources is None:
            sources = [self.new_source()]
        encryption = more.pop("encryption", "none")
        passphrase = more.pop("passphrase", None if encryption == "none" else PASSPHRASE)
        settings = {"custom_flags": [FLAG], "index_mode": "off", **more}
        return self.admin.create_repository(path, sources, encryption=encryption, passphrase=passphrase, **settings)

    @cached_property
    def known(self) -> "Finished":
        """A repository with a finished backup that tests may read but must not change."""
        repository = self.new_repository(encryption="repokey-blake2")
        job_id = self.admin.start_backup(repository)
        assert self.admin.wait_for_end(job_id)["status"] == "completed"
        return Finished(repository, job_id)

    @cached_property
    def warned(self) -> int:
        """A finished backup with a long log: the engine reports each of forty missing sources."""
        repository = self.new_repository()
        sources = [*repository["source_paths"], *(str(self.new_path("missing")) for _ in range(40))]
        job_id = self.admin.start_backup(repository, source_paths=sources)
        assert self.admin.wait_for_end(job_id)["status"] == "completed_with_warnings"
        return job_id

    @cached_property
    def several(self) -> tuple[dict[str, Any], dict[str, int]]:
        """A repository with one backup for each ending, by status. The failed one is a retry of the cancelled one."""
        repository = self.new_repository()
        missing = str(self.new_path("missing"))
        with self.held_backup(repository) as (completed, _gate):
            cancelled = self.admin.start_backup(repository, source_paths=[missing])
            assert self.admin.post(f"/api/backup/cancel/{cancelled}").json()["status"] == "cancelled"
        warned = self.admin.start_backup(repository, source_paths=[*repository["source_paths"], missing])
        failed = self.admin.post(f"/api/backup/jobs/{cancelled}/retry").json()["job_id"]
        jobs = {self.admin.wait_for_end(job)["status"]: job for job in (completed, cancelled, warned, failed)}
        assert set(jobs) == {"completed", "completed_with_warnings", "cancelled", "failed"}
        return repository, jobs

    def enqueue_backup(self, repository: dict[str, Any], trigger: str) -> int:
        """Queue a backup as another part of the service would, for triggers without a route."""
        database = Database(self.process.database_url or f"sqlite:///{self.process.data_dir / 'holdfast.db'}")
        subject = Subject(repository["id"], repository["name"], repository["path"])
        try:
            with database.writing() as session:
                return enqueue(session, BACKUP, {}, Origin(Trigger(trigger)), subject=subject).id
        finally:
            database.dispose()

    @contextmanager
    def store(self) -> Iterator[Session]:
        """One transaction on the service's store, for facts that no route shows."""
        database = Database(self.process.database_url or f"sqlite:///{self.process.data_dir / 'holdfast.db'}")
        try:
            with database.writing() as session:
                yield session
        finally:
            database.dispose()

    def new_alarm(self, repository: dict[str, Any]) -> int:
        """An alarm that has already cleared, so that the service's rounds leave it unchanged."""
        now = clock.now()
        with self.store() as session:
            alarm = Alarm(
                kind="damaged",
                subject=f"repository:{repository['id']}",
                repository_id=repository["id"],
                severity="critical",
                state="cleared",
                since=now,
                seen_at=now,
                cleared_at=now,
                evidence={},
            )
            session.add(alarm)
            session.flush()
            return alarm.id

    def wait_until_idle(self) -> None:
        """Wait until nothing is running or waiting: other tests that use this service may have left work behind."""
        wait_until(
            lambda: not self.admin.get("/api/operations/queue").json()["repositories"], what="the service is idle"
        )

    @cached_property
    def scratch(self) -> dict[str, Any]:
        """A repository that tests may change; each first sets what it relies on."""
        return self.new_repository()

    @contextmanager
    def held_backup(self, repository: dict[str, Any], **more: Any) -> Iterator[tuple[int, Gate]]:
        """Start a backup and wait until the engine is waiting at a gate; let it pass at the end, in any case."""
        gate = self.gate()
        sources = [*repository["source_paths"], str(gate.path)]
        job_id = self.admin.start_backup(repository, source_paths=sources, **more)
        try:
            gate.wait_until_reached()
            yield job_id, gate
        finally:
            if self.admin.operation(job_id)["status"] in ("pending", "running"):
                gate.open()
            gate.forget()
            self.admin.wait_for_end(job_id)

    @contextmanager
    def held_backup_with_progress(self, repository: dict[str, Any]) -> Iterator[int]:
        """Like `held_backup`, but after the engine has reported that it is past all files of the repository's sources.

        It reports progress when it proceeds to another file, at most every 0.2 seconds.
        """
        first, last = self.gate(), self.gate()
        sources = [*repository["source_paths"], str(first.path), str(self.new_source()), str(last.path)]
        job_id = self.admin.start_backup(repository, source_paths=sources)
        first.wait_until_reached()
        reached = time.monotonic()
        wait_until(lambda: time.monotonic() > reached + 0.25, what="the engine is due to tell its progress")
        first.open()
        try:
            last.wait_until_reached()
            yield job_id
        finally:
            last.open()
            self.admin.wait_for_end(job_id)

    # --- users ----------------------------------------------------------------------------------------------------

    def new_user(self, role: str = "viewer", **more: Any) -> dict[str, Any]:
        body = {
            "username": self.new_name(role),
            "password": PASSWORD,
            "role": role,
            "must_change_password": False,
            **more,
        }
        answer = self.admin.post("/api/users", json=body)
        assert answer.status_code == 201, answer.text
        created: dict[str, Any] = answer.json()
        return created

    def client_of(self, user: dict[str, Any]) -> Client:
        return self.process.client().login(user["username"], PASSWORD)

    def client_with_right(self, repository: dict[str, Any], role: str) -> Client:
        """A client of a new user with this role, both globally and for this repository."""
        user = self.new_user(role)
        path = f"/api/users/{user['id']}/repositories/{repository['id']}"
        answer = self.admin.put(path, json={"role": role})
        assert answer.status_code == 200, answer.text
        return self.client_of(user)

    @cached_property
    def stranger(self) -> Client:
        """A client of a user who has a role but no right on any repository."""
        return self.client_of(self.new_user("operator"))

    def account_token(self, of: Client | None = None) -> str:
        answer = (of or self.admin).post("/api/settings/tokens", json={"name": self.new_name("token")})
        assert answer.status_code == 201, answer.text
        token: str = answer.json()["token"]
        return token

    @cached_property
    def token(self) -> str:
        """An account token of the admin."""
        return self.account_token()

    # --- the engine -----------------------------------------------------------------------------------------------

    @cached_property
    def outside(self) -> Outside:
        return Outside(ENGINES[self.engine], self.new_folder("outside"))

    def engine_calls(self) -> list[str]:
        """The command lines of all engine calls so far, except for the version, which the service may check at any
        time.
        """
        return [call for call in _calls_file(self.folder).read_text().splitlines() if call != "--version"]


@dataclass(frozen=True)
class Finished:
    repository: dict[str, Any]
    job_id: int


class Services:
    """Starts a service for each requested store and engine, and keeps it for the tests that follow."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._all: list[Running] = []
        self._shared: dict[tuple[str, str], Running | None] = {}
        self._databases: list[tuple[PostgresServer, str]] = []

    def get(self, store: str = "sqlite", engine: str = "1.4") -> Running:
        if (store, engine) not in self._shared:
            self._shared[store, engine] = None  # so that a service that does not start is waited for only once
            self._shared[store, engine] = self.new(store, engine)
        running = self._shared[store, engine]
        assert running is not None, f"the service with {store} and engine {engine} did not start"
        return running

    def new(self, store: str = "sqlite", engine: str = "1.4", **environment: str) -> Running:
        """Start a service that nobody else uses. It ends with the others."""
        folder = self._folder / f"service-{len(self._all) + 1}"
        folder.mkdir()
        programs = {"HOLDFAST_BORG1": str(recording_engine(folder, ENGINES[engine]))}
        if ENGINE_2 is not None:
            programs["HOLDFAST_BORG2"] = str(recording_engine(folder, ENGINE_2, "borg2"))
        settings = {**IMPATIENT, **programs, **environment}
        process = ServiceProcess(folder / "data", settings, database_url=self._database(store))
        running = Running(folder, process, engine)
        self._all.append(running)
        process.launch()
        process.wait_until_ready()
        return running

    @contextmanager
    def own(self, store: str = "sqlite", engine: str = "1.4", **environment: str) -> Iterator[Running]:
        """Like `new`, but temporary: an unused service costs the others time."""
        running = self.new(store, engine, **environment)
        try:
            yield running
        finally:
            running.process.stop()

    def stop(self) -> None:
        for running in self._all:
            if running.process.process is not None:
                running.process.stop()
        for server, url in self._databases:
            server.drop_database(url)

    def _database(self, store: str) -> str | None:
        if store == "sqlite":
            return None
        server = postgres_server()
        url = server.create_database(postgres_template())
        self._databases.append((server, url))
        return url


def recording_engine(folder: Path, program: Path, name: str = "borg", *, is_loaded: bool = True) -> Path:
    """Write a program that records each engine call and then becomes the engine, by default a preloaded one.

    A preloaded engine has the privileges of the tests, whoever starts it.
    """
    calls = _calls_file(folder)
    calls.touch()
    script = folder / name
    become = f"{QUICK} exec {shlex.join(warm_command(program) if is_loaded else [str(program)])}"
    script.write_text(f"#!/bin/sh\nprintf '%s\\n' \"$*\" >> '{calls}'\n{become} \"$@\"\n")
    script.chmod(script.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
    return script


def _calls_file(folder: Path) -> Path:
    return folder / "engine-calls"


def processes_with(text: str) -> list[int]:
    """The processes whose command line contains the text, except this one."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            if os.fsencode(text) in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def wait_until_no_process_with(text: str) -> None:
    wait_until(lambda: not processes_with(text), what=f"no process has {text} in its command line")
