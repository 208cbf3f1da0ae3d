"""The objects behind the runtime routes, and the threads that keep them current."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

from backup_engine.redact import Redactor
from holdfast.agents import jobs, lost_jobs, store
from holdfast.agents.calls import Calls, Offer
from holdfast.agents.credentials import Credentials, KnownAgent
from holdfast.agents.fleet import Fleet
from holdfast.agents.heartbeat_batches import HeartbeatBatches
from holdfast.agents.jobs import Jobs
from holdfast.agents.lost_jobs import MissingJobs
from holdfast.agents.payload import Payloads
from holdfast.agents.work_cache import WorkCache
from holdfast.api.parts import Part
from holdfast.kit import clock
from holdfast.kit.supervisor import Supervisor
from holdfast.operations.kinds import Registry
from holdfast.operations.models import Operation
from holdfast.repositories.location import Opener
from holdfast.runner.progress import ProgressCache
from holdfast.settings import Settings
from holdfast.storage.session import Database

TICK_SECONDS = 0.3
WORK_CACHE_SECONDS = 2.0
"""Hints may be missed, so the store is read at least this often."""
REFRESH_PAUSE_SECONDS = 0.02
CALLS_SECONDS, CALLS_REST_SECONDS = 0.05, 1.0
"""Intervals of checks for new calls, while agents poll for work and while none does."""
FLUSH_SECONDS = 1.0
CHECK_SECONDS = 5.0
EXPIRY_SECONDS = 60.0
MOST_REDACTORS = 1000


@dataclass
class _Due:
    """A task that runs at an interval."""

    name: str
    every: float
    action: Callable[[], None]
    last: float = float("-inf")

    def is_due(self, now: float) -> bool:
        if now - self.last < self.every:
            return False
        self.last = now
        return True


class Gateway:
    def __init__(
        self, settings: Settings, database: Database, registry: Registry, opener: Opener, supervisor: Supervisor
    ) -> None:
        self.settings = settings
        self.database = database
        self.registry = registry
        self.credentials = Credentials(database)
        self.fleet = Fleet(settings, database)
        self.heartbeat_batches = HeartbeatBatches(self.fleet)
        self.work_cache = WorkCache(database)
        self.progress = ProgressCache()
        self.payloads = Payloads(registry, opener)
        self.calls = Calls(settings.calls_dir, self.payloads, self.work_cache.call)
        self.jobs = Jobs(
            database,
            registry,
            self.payloads,
            self.fleet,
            self.progress,
            settings.logs_dir,
            most_log_bytes=settings.operation_log_mib * 1024 * 1024,
            most_parts=settings.agent_job_parts,
            most_part_bytes=settings.agent_job_parts_mib * 1024 * 1024,
        )
        self.missing_jobs = MissingJobs(settings.agent_offline_seconds)
        self._redactors: dict[int, Redactor] = {}
        self._supervisor = supervisor
        self._stopping = threading.Event()

    def start(self) -> None:
        self._supervisor.keep_running("agent-work-cache", self._refresh_work_cache)
        self._supervisor.keep_running("agents-calls", self._watch_calls)
        self._supervisor.keep_running("agents-ticks", self._tick_forever)

    def stop(self) -> None:
        self._stopping.set()
        self.database.notify()
        self.work_cache.wake_everybody()
        self._supervisor.attempt("agents-last-flush", self._store_all)

    @property
    def is_stopping(self) -> bool:
        return self._stopping.is_set()

    def redactor(self, job_id: int) -> Redactor | None:
        """Return the cached redactor of a running job: progress arrives too often to read the store each time."""
        return self._redactors.get(job_id)

    def remember_redactor(self, job_id: int) -> Redactor:
        with self.database.reading() as session:
            operation = session.get_one(Operation, job_id)
            redactor = self.payloads.redactor(session, operation)
        if len(self._redactors) >= MOST_REDACTORS:
            self._redactors.clear()
        self._redactors[job_id] = redactor
        return redactor

    def offered_calls(self, agent: KnownAgent) -> list[Offer]:
        with self.database.reading() as session:
            store.require_admitted(session, agent.id)
            return self.calls.offers(session, agent)

    # --- threads ---------------------------------------------------------------------------------------------------

    def _refresh_work_cache(self) -> None:
        """Refresh the work cache while agents poll for work: after every hint, and regularly even without one."""
        seen = -1
        while not self.is_stopping:
            seen = self.database.work.wait(seen, WORK_CACHE_SECONDS)
            if self.calls.agents_are_polling:
                self._supervisor.attempt("agent-work-cache", self.work_cache.look_again)
            self._stopping.wait(REFRESH_PAUSE_SECONDS)

    def _watch_calls(self) -> None:
        while not self._stopping.wait(CALLS_SECONDS if self.calls.agents_are_polling else CALLS_REST_SECONDS):
            self._supervisor.attempt("agents-calls", self.calls.look)

    def _tick_forever(self) -> None:
        due = [
            _Due("agents-credentials", 0.0, self._check_credentials),
            _Due("agents-progress", FLUSH_SECONDS, partial(self.progress.flush, self.database)),
            _Due("agents-fleet", self._check_seconds, self._maintain_fleet),
            _Due("agents-abandoned-jobs", self._check_seconds, self._end_abandoned_jobs),
            _Due("agents-expiry", EXPIRY_SECONDS, self._expire),
        ]
        while not self._stopping.wait(TICK_SECONDS if self.credentials.is_in_use else FLUSH_SECONDS):
            now = time.monotonic()
            for task in due:
                if task.is_due(now):
                    self._supervisor.attempt(task.name, task.action)

    @property
    def _check_seconds(self) -> float:
        return min(CHECK_SECONDS, self.settings.agent_offline_seconds / 4)

    def _end_abandoned_jobs(self) -> None:
        """End jobs that agents have lost and jobs whose cancellation was never confirmed, so that no lane is held
        indefinitely.
        """
        if reported := self.missing_jobs.take_reported():
            with self.database.writing() as session:
                lost_jobs.note_reports(session, reported)
        self.missing_jobs.keep_only(self.work_cache.refreshed().running.keys())
        for job in self.missing_jobs.lost():
            with self.database.writing() as session:
                lost_jobs.end_lost(session, self.registry, job, self.settings.agent_offline_seconds)
            self.missing_jobs.forget(job)
        # Start early, so that the job has ended when the threshold is reached, whatever the timing of the ticks.
        patience = timedelta(seconds=self.settings.agent_offline_seconds - 2 * self._check_seconds)
        with self.database.reading() as session:
            unconfirmed = lost_jobs.unconfirmed_since(session, clock.now() - patience)
        for job in unconfirmed:
            with self.database.writing() as session:
                lost_jobs.end_unconfirmed(session, self.registry, job)
        jobs.end_orphans(self.database, self.registry)

    def _check_credentials(self) -> None:
        """End long polls of agents that another process may have shut out."""
        if self.credentials.check() and (waiting := self.work_cache.waiting()):
            with self.database.reading() as session:
                shut_out = waiting - store.admitted(session)
            self.work_cache.call(shut_out)

    def _maintain_fleet(self) -> None:
        self.fleet.store_seen()
        self.fleet.find_silent()
        self._forget_ended_jobs()

    def _forget_ended_jobs(self) -> None:
        """Drop cached data of jobs whose end may have been reported to another process.

        The cached jobs are listed before the store is read, so that a job that starts in between is kept.
        """
        remembered = self.progress.known() | frozenset(self._redactors)
        if not remembered:
            return
        for ended in remembered - self.work_cache.refreshed().running.keys():
            self.progress.forget(ended)
            self._redactors.pop(ended, None)

    def _expire(self) -> None:
        hours = self.settings.agent_job_expiry_hours
        if hours is not None:
            jobs.expire(self.database, clock.now() - timedelta(hours=hours))

    def _store_all(self) -> None:
        self.progress.flush(self.database)
        self.fleet.store_seen(at_once=True)


GATEWAY = Part[Gateway]("gateway")
