"""Claim a job, run it in its own thread, and record how it ended."""

import logging
import signal
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import field
from pathlib import Path
from typing import Any

from backup_agent import private_files
from backup_agent.backoff import MOST_SECONDS, Backoff
from backup_agent.backup_sources import AgentSources
from backup_agent.client import NoAnswer, NotAllowed, Refusal
from backup_agent.dump_rule import DumpRule
from backup_agent.engines import Engines
from backup_agent.host import AgentHost
from backup_agent.job_folder import Ending, JobFolder, secrets_of
from backup_agent.job_payload import Opened, UnsupportedJob, open_repository, payload_of
from backup_agent.job_work import AgentPlace, ReceiveWork
from backup_agent.jobs import KINDS
from backup_agent.jobs.dump_databases import AgentDumpWork
from backup_agent.jobs.run_script import ScriptWork
from backup_agent.machine import now
from backup_agent.message_bounds import bounded_details, bounded_warnings
from backup_agent.places import Places
from backup_agent.protected_places import own_folders
from backup_agent.restore_to import RestoreTo
from backup_agent.runtime_api import RuntimeApi
from backup_agent.script_rule import ScriptRule
from backup_agent.secret_store import SecretStore
from backup_agent.stopped_services import StoppedServices
from backup_engine.detect import EngineNotInstalled, EngineUnsupported
from backup_engine.frozen import frozen
from backup_engine.process import spools_below
from backup_engine.requests import InvalidRequest
from backup_engine.stream_reader import NO_SPACE
from backup_jobs.bodies import attempt as attempt_at
from backup_jobs.endings import Completed, Ended, Failed, Stopped, TryAgain
from backup_jobs.host import Stopping
from backup_jobs.stopped_services import ServicesToStop
from backup_jobs.work import Work
from backup_protocol import (
    TERMINAL_JOB_STATUSES,
    UNSUPPORTED_JOB,
    BackupBlock,
    Canceled,
    Claimed,
    Complete,
    DumpBlock,
    Fail,
    JobStatus,
    Payload,
    RestoreBlock,
    Result,
    ScriptBlock,
    SecretMissing,
    Stats,
    is_warning,
)

log = logging.getLogger(__name__)

ATTEMPTS = 3
DISK_TRIES = 5
DISK_PAUSE_SECONDS = 10.0
RUN_BEFORE = frozenset({JobStatus.RUNNING, JobStatus.CANCEL_REQUESTED})


class JobLost(Exception):
    """The service does not give this agent the job, or has taken it away."""


@frozen
class Tools:
    """What all jobs of an agent share."""

    places: Places
    api: RuntimeApi
    engines: Engines
    secrets: SecretStore
    stopping: threading.Event
    grace_seconds: float = 30.0
    max_backoff_seconds: float = MOST_SECONDS
    restore_to: RestoreTo = field(default_factory=RestoreTo)
    scripts: ScriptRule = field(default_factory=ScriptRule)
    databases: DumpRule = field(default_factory=DumpRule)
    services: StoppedServices | None = None


class Worker:
    """Works on one job. When done, calls `on_end` with True if there is an ending to report, False if nothing began."""

    def __init__(self, job: JobFolder, tools: Tools, on_end: Callable[[JobFolder, bool], None]) -> None:
        self._job = job
        self._tools = tools
        self._on_end = on_end
        self._thread = threading.Thread(target=self._run, name=f"job-{job.job_id}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def join(self, seconds: float) -> None:
        self._thread.join(seconds)

    def _run(self) -> None:
        try:
            while not self._job.is_ended:
                self._claim_and_work_safely()
        except Stopping:
            return
        except JobLost as reason:
            log.info("Job %s no longer belongs to this agent: %s", self._job.job_id, reason)
            self._on_end(self._job, False)
            return
        self._on_end(self._job, True)

    def _claim_and_work_safely(self) -> None:
        try:
            self._claim_and_work()
        except (Stopping, JobLost):
            raise
        except Exception:  # no error may leave the job unattended
            log.exception("Job %s could not be processed; retrying.", self._job.job_id)
            if self._tools.stopping.wait(DISK_PAUSE_SECONDS):
                raise Stopping from None

    def _claim_and_work(self) -> None:
        try:
            if not self._job.is_claimed or self._job.secrets is None:
                self._claim()
        except JobLost as reason:
            if not self._job.is_claimed:
                raise
            self._give_up(str(reason))
            return
        self._work_despite_trouble()

    # --- the claim --------------------------------------------------------------------------------------------------

    def _claim(self) -> None:
        """Claim the job. After a restart, claim it again to get its secrets, which are never on disk."""
        answer = self._until_answered(lambda: self._tools.api.claim(self._job.job_id))
        if answer.status in TERMINAL_JOB_STATUSES:
            raise JobLost(f"its status is {answer.status}")
        if answer.job is not None and answer.job.status == JobStatus.CANCEL_REQUESTED:
            self._job.cancel("cancellation was requested")
        self._job.secrets = secrets_of(answer.job.payload) if answer.job else self._job.secrets or {}
        if not self._job.is_claimed:
            self._job.note_claimed()
            log.info("Job %s: claimed.", self._job.job_id)

    def _until_answered(self, ask: Callable[[], Claimed]) -> Claimed:
        backoff = Backoff(most=self._tools.max_backoff_seconds)
        while True:
            try:
                return ask()
            except NotAllowed as refusal:
                delay = backoff.failed()
                log.warning("Job %s waits: the service refuses this agent: %s", self._job.job_id, refusal)
            except Refusal as refusal:
                raise JobLost(str(refusal)) from refusal
            except NoAnswer as failure:
                delay = backoff.failed(failure.retry_after)
            if self._tools.stopping.wait(delay):
                raise Stopping

    def _give_up(self, reason: str) -> None:
        """Stop a job that the service has ended, and do not read the output of its engines.

        Without the job's secrets the output could not be redacted.
        """
        self._job.cancel(reason)
        self._stop_engines()
        self._job.end(Canceled(now()))

    # --- the work ---------------------------------------------------------------------------------------------------

    def _work_despite_trouble(self) -> None:
        """Run the job. If the disk is full, wait and retry: the work can be restarted from the beginning at any
        time.
        """
        for tries in range(1, DISK_TRIES + 1):
            try:
                self._work()
                return
            except Stopping:
                raise
            except OSError as error:
                log.exception("Job %s cannot be followed right now.", self._job.job_id)
                if error.errno not in NO_SPACE and tries == DISK_TRIES:
                    self._fail_for_trouble(error)
                    return
            except Exception as error:  # one faulty job must not stop the agent
                log.exception("Job %s cannot be run.", self._job.job_id)
                self._fail_for_trouble(error)
                return
            if self._tools.stopping.wait(DISK_PAUSE_SECONDS):
                raise Stopping
        self._work()

    def _fail_for_trouble(self, error: Exception) -> None:
        """Record a failure, but only after the engines have ended."""
        self._stop_engines()
        self._job.end(Fail(now(), f"The agent could not run the job: {type(error).__name__}.", None, "engine.failed"))

    def _stop_engines(self) -> None:
        spools = spools_below(self._job.folder / "steps")
        deadline = time.monotonic() + self._tools.grace_seconds
        while any(spool.is_alive() for spool in spools):
            for spool in spools:
                spool.signal_engine(signal.SIGTERM if time.monotonic() < deadline else signal.SIGKILL)
            if self._tools.stopping.wait(1.0):
                raise Stopping

    def _work(self) -> None:
        self._job.log.begin_replay()
        self._job.note_start()
        ended, ended_at = self._ended()
        items = ended.items if isinstance(ended, Completed) else None
        self._job.end(message_of(ended, ended_at), items)
        log.info("Job %s: %s.", self._job.job_id, type(ended).__name__.lower())

    def _ended(self) -> tuple[Ended, str]:
        """Run the job; return how it ended, and when."""
        job = self._job.job
        try:
            payload = payload_of(job.payload, self._job.secrets or {})
            opened = open_repository(payload, self._tools.secrets.get)
            needed = KINDS[payload.job_kind].needs_engine
            engine = self._tools.engines.engine(payload.repository.engine_version) if needed else None
        except UnsupportedJob as error:
            return Failed(UNSUPPORTED_JOB, str(error)), now()
        except SecretMissing as error:
            return Failed("engine.passphrase_missing", f"{str(error)[:1].upper()}{str(error)[1:]}."), now()
        except (InvalidRequest, EngineNotInstalled, EngineUnsupported) as error:
            return Failed(error.key, str(error)), now()
        ended, host = self._attempted(payload, opened, engine)
        host.wait_for_engines()
        return ended, host.ended_at().isoformat()

    def _attempted(self, payload: Payload, opened: Opened, engine: Any) -> tuple[Ended, AgentHost]:
        """Run attempts until one is final; return how it ended, and its host. An attempt that another follows is not
        final.
        """
        earlier: Mapping[str, Any] = {}
        for attempt in range(1, ATTEMPTS + 1):
            host = AgentHost(
                self._job,
                attempt,
                opened.environment,
                self._tools.stopping,
                self._tools.grace_seconds,
                earlier=earlier,
                ran_before=self._job.job.status in RUN_BEFORE,
            )
            ended = attempt_at(KINDS[payload.job_kind].body, self._work_of(payload, opened, engine, host))
            if not isinstance(ended, TryAgain):
                break
            host.log(f"Attempt {attempt} failed: {ended.message}")
            earlier = ended.details or earlier
            has_next = self._folder_of(attempt + 1).exists()
            if not has_next and host.is_cancelled():
                return Stopped(details=earlier), host
            if attempt == ATTEMPTS:
                return Failed(ended.error_key, ended.message, details=earlier), host
            if not has_next and self._tools.stopping.wait(ended.delay_seconds):
                raise Stopping
        if isinstance(ended, Stopped) and ended.message:
            host.log(ended.message)
        self._note_size(payload, ended)
        return ended, host

    def _work_of(self, payload: Payload, opened: Opened, engine: Any, host: AgentHost) -> Work[Any]:
        own, block = own_folders(self._tools.places), payload.block
        if isinstance(block, RestoreBlock):
            return ReceiveWork(
                host,
                engine,
                opened.location,
                block,
                known_place=AgentPlace(host, block, own, self._tools.restore_to),
                open_stream=lambda: self._tools.api.restore_stream(self._job.job_id),
            )
        if isinstance(block, ScriptBlock):
            values = {name: secret.value for name, secret in opened.environment.secrets.items()}
            return ScriptWork(host, engine, opened.location, block, rule=self._tools.scripts, secrets=values)
        if isinstance(block, DumpBlock):
            rule, passwords = self._tools.databases, {ref: one["value"] for ref, one in payload.secrets.items()}
            return AgentDumpWork(
                host, engine, opened.location, block, passwords=passwords, programs=rule.path, rule=rule
            )
        if isinstance(block, BackupBlock):
            expected = self._sizes().get(str(payload.repository.repository_id))
            sources = AgentSources(host, block, own, expected)
            stops = self._tools.services.of(host, block) if self._tools.services else ServicesToStop()
            return Work(host, engine, opened.location, block, sources, stops)
        return Work(host, engine, opened.location, block)

    def _sizes(self) -> dict[str, int]:
        """Size of the last complete backup from this machine, by repository."""
        return private_files.read_json(self._tools.places.sizes_file) or {}

    def _note_size(self, payload: Payload, ended: Ended) -> None:
        size = ended.stats.get("original_size") if isinstance(ended, Completed) else None
        if size is not None and not isinstance(payload.block, DumpBlock):
            sizes = {**self._sizes(), str(payload.repository.repository_id): size}
            private_files.write_json(self._tools.places.sizes_file, sizes, durable=False)

    def _folder_of(self, attempt: int) -> Path:
        return self._job.folder / "steps" / str(attempt)


def message_of(ended: Ended, ended_at: str) -> Ending:
    """Return the contract's message for how and when a job ended."""
    match ended:
        case Completed():
            return Complete(ended.ended_at.isoformat() if ended.ended_at else ended_at, result_of(ended))
        case Stopped():
            details = bounded_details(ended.details)
            result = Result(ended.return_code or 0, details=details) if details else None
            return Canceled(ended_at, ended.return_code, result)
        case Failed():
            details, warnings = bounded_details(ended.details), bounded_warnings(ended.warnings)
            result = Result(ended.return_code or 0, warnings=warnings, details=details) if details or warnings else None
            return Fail(ended_at, ended.message, ended.return_code, ended.error_key, result)
        case TryAgain():
            raise AssertionError("the last attempt ends")


def result_of(ended: Completed) -> Result:
    code = ended.return_code or 0
    if ended.warned != is_warning(code):
        code = 1 if ended.warned else 0  # in the contract this code means "with warnings"
    stats = Stats(**ended.stats) if ended.stats else None
    return Result(
        code, ended.archive_name, stats, bounded_warnings(ended.warnings), bounded_details(ended.details) or None
    )
