"""All that the runtime routes need, and the threads that keep it true."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

import structlog

from backup_engine.redact import Redactor
from holdfast.agents import jobs, store
from holdfast.agents.board import Board
from holdfast.agents.calls import Calls, Offer
from holdfast.agents.credentials import Credentials, KnownAgent
from holdfast.agents.fleet import Fleet
from holdfast.agents.intake import Intake
from holdfast.agents.jobs import Jobs
from holdfast.agents.payload import Payloads
from holdfast.errors import Unavailable
from holdfast.kit import clock
from holdfast.operations.kinds import Registry
from holdfast.operations.models import Operation
from holdfast.repositories.location import Opener
from holdfast.runner.progress import ProgressBoard
from holdfast.settings import Settings
from holdfast.storage.session import Database

log = structlog.get_logger("holdfast.agents")

TICK_SECONDS = 0.3
FLUSH_SECONDS = 1.0
LOOK_SECONDS = 5.0
EXPIRY_SECONDS = 60.0
MOST_REDACTORS = 1000


@dataclass
class _Due:
    """Something that is done every so many seconds."""

    every: float
    action: Callable[[], None]
    last: float = float("-inf")

    def is_due(self, now: float) -> bool:
        if now - self.last < self.every:
            return False
        self.last = now
        return True


class Gateway:
    def __init__(self, settings: Settings, database: Database, registry: Registry, opener: Opener) -> None:
        self.settings = settings
        self.database = database
        self.registry = registry
        self.credentials = Credentials(database)
        self.fleet = Fleet(settings, database)
        self.intake = Intake(self.fleet)
        self.board = Board(database)
        self.progress = ProgressBoard()
        self.payloads = Payloads(registry, opener)
        self.calls = Calls(settings.calls_dir, self.payloads, self.board.call)
        self.jobs = Jobs(database, registry, self.payloads, self.fleet, self.progress, settings.logs_dir)
        self._redactors: dict[int, Redactor] = {}
        self._stopping = threading.Event()

    def start(self) -> None:
        threading.Thread(target=self._follow_board, name="agents-board", daemon=True).start()
        threading.Thread(target=self._follow_calls, name="agents-calls", daemon=True).start()
        threading.Thread(target=self._tick_forever, name="agents-ticks", daemon=True).start()

    def stop(self) -> None:
        self._stopping.set()
        self.database.notify()
        self.board.wake_everybody()
        self._despite_trouble(self._store_all)

    @property
    def is_stopping(self) -> bool:
        return self._stopping.is_set()

    def redactor(self, job_id: int) -> Redactor | None:
        """The redactor of a running job, where memory has it: progress comes too often to ask the store each time."""
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
            store.seen(session, agent.id)
            return self.calls.offers(session, agent)

    # --- threads ---------------------------------------------------------------------------------------------------

    def _follow_board(self) -> None:
        while not self.is_stopping:
            self._despite_trouble(lambda: self.board.follow(self._stopping))

    def _follow_calls(self) -> None:
        while not self.is_stopping:
            self._despite_trouble(lambda: self.calls.follow(self._stopping))

    def _tick_forever(self) -> None:
        due = [
            _Due(0.0, self.credentials.check),
            _Due(FLUSH_SECONDS, lambda: self.progress.flush(self.database)),
            _Due(min(LOOK_SECONDS, self.settings.agent_offline_seconds / 4), self._look_after_fleet),
            _Due(EXPIRY_SECONDS, self._expire),
        ]
        while not self._stopping.wait(TICK_SECONDS):
            now = time.monotonic()
            for task in due:
                if task.is_due(now):
                    self._despite_trouble(task.action)

    def _look_after_fleet(self) -> None:
        self.fleet.store_seen()
        self.fleet.find_silent()
        self._forget_ended_jobs()

    def _forget_ended_jobs(self) -> None:
        """A job may have told its end to another process. What is known is noted first: a job that begins stays."""
        remembered = self.progress.known() | frozenset(self._redactors)
        if not remembered:
            return
        for ended in remembered - self.board.refreshed().running.keys():
            self.progress.forget(ended)
            self._redactors.pop(ended, None)

    def _expire(self) -> None:
        hours = self.settings.agent_job_expiry_hours
        if hours is not None:
            jobs.expire(self.database, clock.now() - timedelta(hours=hours))

    def _store_all(self) -> None:
        self.progress.flush(self.database)
        self.fleet.store_seen(at_once=True)

    def _despite_trouble(self, action: Callable[[], None]) -> None:
        """Do something that will be done again soon: a failure must not end the thread."""
        try:
            action()
        except Unavailable as error:
            log.warning("the store is unreachable", reason=str(error.__cause__))
            self._stopping.wait(1.0)
        except Exception:
            log.exception("a step of the agents' gateway failed; it goes on")
            self._stopping.wait(1.0)
