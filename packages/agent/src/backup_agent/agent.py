"""The running agent: sends heartbeats, polls for jobs, and starts a worker for each."""

import logging
import threading
import time
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING

from backup_agent import AGENT_VERSION, machine, private_files
from backup_agent.backoff import Backoff
from backup_agent.capabilities import CAPABILITIES
from backup_agent.client import Client, NoAnswer, NotAllowed, Refusal
from backup_agent.config import Config
from backup_agent.engines import Engines
from backup_agent.job_folder import Ending, JobFolder
from backup_agent.job_reporter import JobReporter
from backup_agent.places import Places
from backup_agent.resilient_loop import ResilientLoop
from backup_agent.runtime_api import RuntimeApi
from backup_agent.secret_store import SecretStore
from backup_protocol import (
    DEFAULT_HEARTBEAT_SECONDS,
    DEFAULT_POLL_SECONDS,
    LONGEST_POLL_WAIT,
    Heartbeat,
    Job,
    OfferedCall,
)

if TYPE_CHECKING:
    from backup_agent.calls import Calls
    from backup_agent.stopped_services import StoppedServices
    from backup_agent.worker import Worker

log = logging.getLogger(__name__)

FIRST_REFUSED_SECONDS, REFUSED_SECONDS = 5.0, 300.0
"""First and longest pause between attempts while the service refuses the agent: an admin may enable it again."""
STOP_SECONDS = 5.0
NOTABLE_SKEW_SECONDS = 60.0
NOT_GIVEN_SECONDS = 5.0


class Agent:
    """Run the agent's threads: one for heartbeats and polls, one for uploads, and one per job.

    All requests share one connection. A long poll may occupy it, because the agent waits that long only while it has no
    jobs.
    """

    def __init__(self, places: Places, config: Config, client: Client) -> None:
        self._places = places
        self._config = config
        self._client = client
        self._api = RuntimeApi(client)
        self._engines = Engines(places, config.engines)
        self.stopping = threading.Event()
        self._reporter = JobReporter(self._api, backoff=Backoff(most=config.max_backoff_seconds))
        self._reporter.on_done = self._reported
        self._lock = threading.Lock()
        self._calls: Calls | None = None
        self._services: StoppedServices | None = None
        self._jobs: dict[int, JobFolder] = {}
        self._working: dict[int, Worker] = {}
        self._not_given: dict[int, float] = {}
        """The last job that was offered but could not be claimed, and when. The agent does not try it again at once."""
        self._changed = threading.Event()
        self._backoff = Backoff(most=config.max_backoff_seconds)
        self._refused = Backoff(FIRST_REFUSED_SECONDS, REFUSED_SECONDS)
        self._loop = ResilientLoop("A round of the agent")
        self._heartbeat_seconds = float(DEFAULT_HEARTBEAT_SECONDS)
        self._poll_seconds = float(DEFAULT_POLL_SECONDS)
        self._heartbeat_due = 0.0
        self._last_error: str | None = None
        self._has_worked = False
        self._idle_since: float | None = None
        self.on_reported: Callable[[Ending | None], None] | None = None
        """Called with a job's ending when the service has received all of it."""

    def stop(self) -> None:
        """Stop soon. Engines continue under their shims."""
        self.stopping.set()
        self._changed.set()
        self._client.interrupt()

    # --- running ----------------------------------------------------------------------------------------------------

    def run(self) -> bool:
        """Work until `stop`. Return True if the agent should restart: see `_is_used_up`."""
        self._begin()
        while not self.stopping.is_set():
            self._wait(self._loop.turn(lambda: self._round(poll=True)))
            if not self.stopping.is_set() and self._is_used_up():
                self._end()
                return True
        self._end()
        return False

    def _is_used_up(self) -> bool:
        """Whether the agent has worked and then been idle for a while.

        Modules that drive the engine stay in memory once loaded. A restart takes a tenth of a second and frees them.
        """
        is_busy = bool(self._jobs) or self._reporter.is_busy or (self._calls is not None and self._calls.is_busy)
        is_busy = is_busy or (self._services is not None and self._services.is_busy)
        if is_busy or not self._has_worked:
            self._idle_since = None
            return False
        self._idle_since = self._idle_since or time.monotonic()
        return time.monotonic() - self._idle_since >= self._config.renew_seconds

    def once(self) -> None:
        """Finish unfinished jobs; if there are none, poll once and run at most one job. Raise NoAnswer or
        NotAllowed.
        """
        self._begin()
        try:
            self._beat()
            if not self._jobs:
                for job in self._api.poll(1, 0).jobs[:1]:
                    self._accept(job)
            while self._jobs and not self.stopping.is_set():
                if time.monotonic() >= self._heartbeat_due:
                    self._round(poll=False)
                self._wait(1.0)
        finally:
            self._end()

    def _begin(self) -> None:
        private_files.make_folder(self._places.jobs)
        self._reporter.start()
        if any(self._places.holds.glob("*.json")):
            self._stopped_services().look_after()
        for job in JobFolder.all_below(self._places.jobs):
            log.info("Resuming unfinished job %s.", job.job_id)
            self._adopt(job)

    def _end(self) -> None:
        self.stopping.set()
        for worker in list(self._working.values()):
            worker.join(STOP_SECONDS)
        self._reporter.stop(STOP_SECONDS)
        self._client.close()

    def _wait(self, seconds: float) -> None:
        self._changed.wait(seconds)
        if not self.stopping.is_set():
            self._changed.clear()

    def _round(self, *, poll: bool) -> float:
        """Do what is due; return the seconds until the next round."""
        beats = time.monotonic() >= self._heartbeat_due
        try:
            if beats:
                self._beat()
            began = time.monotonic()
            found = self._poll() if poll else False
        except NotAllowed as refusal:
            return self._refused_by_service(refusal)
        except (NoAnswer, Refusal) as failure:
            return self._not_answered(failure)
        if beats or poll:  # without a request, nothing shows whether the service is back
            self._answered()
        if found:
            return 0.0
        until_heartbeat = self._heartbeat_due - time.monotonic()
        return max(0.0, min(until_heartbeat, self._poll_seconds - (time.monotonic() - began)))

    # --- heartbeat and poll -----------------------------------------------------------------------------------------

    def _beat(self) -> None:
        self._heartbeat_due = time.monotonic() + self._heartbeat_seconds
        sent, before = machine.moment(), time.monotonic()
        answer = self._api.heartbeat(
            Heartbeat(
                agent_id=self._config.agent_id,
                hostname=machine.hostname(),
                agent_version=AGENT_VERSION,
                engine_versions=self._engines.versions(),
                capabilities=CAPABILITIES,
                running_job_ids=tuple(sorted(self._jobs)),
                sent_at=sent.isoformat(),
                last_error=self._last_error or self._reporter.trouble,
                unstarted_services=self._services.not_started if self._services else (),
            )
        )
        self._poll_seconds = max(1.0, float(answer.poll_interval_seconds))
        self._heartbeat_seconds = max(1.0, float(answer.heartbeat_interval_seconds))
        self._heartbeat_due = before + self._heartbeat_seconds
        for job_id in answer.cancel_job_ids:
            job = self._jobs.get(job_id)
            if job is not None:
                job.cancel("cancellation was requested")
        self._note_status(heartbeat=True, skew=_skew(answer.server_time, sent, time.monotonic() - before))

    def _poll(self) -> bool:
        """Request jobs and calls. The service holds the request open while nothing else needs the connection.

        An agent at its job limit still polls, because users wait for the results of calls.
        """
        wait = 0 if self._jobs else int(min(self._poll_seconds, self._until_heartbeat(), LONGEST_POLL_WAIT))
        free = max(0, self._free())
        offered = self._api.poll(max(1, free), max(0, wait))
        accepted = [self._accept(job) for job in offered.jobs[:free]]
        return self._answer(offered.calls) or any(accepted)

    def _answer(self, calls: tuple[OfferedCall, ...]) -> bool:
        if not calls:
            return False
        if self._calls is None:
            from backup_agent.calls import Calls  # not loaded in an idle agent

            self._calls = Calls(self._places, self._api, self._engines, self.stopping)
            self._has_worked = True
        return self._calls.take(calls)

    def _until_heartbeat(self) -> float:
        return self._heartbeat_due - time.monotonic()

    def _free(self) -> int:
        """Number of further jobs that this agent accepts. A finished job that is still being reported does not
        count.
        """
        return self._config.max_jobs - len(self._working)

    # --- jobs -------------------------------------------------------------------------------------------------------

    def _accept(self, job: Job) -> bool:
        """Accept an offered job. Return False if the agent already has it."""
        if (
            job.id in self._jobs
            or time.monotonic() - self._not_given.get(job.id, -NOT_GIVEN_SECONDS) < NOT_GIVEN_SECONDS
        ):
            return False
        log.info("Job %s (%s): offered.", job.id, job.type)
        self._adopt(JobFolder.make(self._places.jobs, job))
        return True

    def _adopt(self, job: JobFolder) -> None:
        worker = self._worker(job)
        self._has_worked = True
        with self._lock:
            self._jobs[job.job_id] = job
            self._working[job.job_id] = worker
        if job.is_claimed or job.is_ended:
            self._reporter.add(job)
        else:
            job.on_claimed = self._reporter.add
        try:
            worker.start()
        except BaseException:  # without a thread, nothing would ever free the job's place
            with self._lock:
                self._jobs.pop(job.job_id, None)
                self._working.pop(job.job_id, None)
            self._reporter.remove(job)
            raise

    def _worker(self, job: JobFolder) -> "Worker":
        from backup_agent.dump_rule import DumpRule
        from backup_agent.protected_places import own_folders
        from backup_agent.restore_to import RestoreTo, own_places
        from backup_agent.script_rule import ScriptRule
        from backup_agent.worker import Tools, Worker  # drives the engine: not loaded in an idle agent

        tools = Tools(
            self._places,
            self._api,
            self._engines,
            SecretStore(self._places),
            self.stopping,
            self._config.cancel_grace_seconds,
            self._config.max_backoff_seconds,
            RestoreTo(self._config.restore_to, own_places(self._places, self._config.engines.values())),
            ScriptRule(self._config.scripts_accept, self._places.scripts),
            DumpRule(self._config.databases_allowed, self._config.database_programs, own_folders(self._places)),
            self._stopped_services(),
        )
        return Worker(job, tools, self._worked)

    def _stopped_services(self) -> "StoppedServices":
        if self._services is None:
            from backup_agent.stopped_services import StoppedServices  # an idle agent does without it

            self._services = StoppedServices(self._places.holds, self._config.services_allowed, self.stopping)
        return self._services

    def _worked(self, job: JobFolder, has_ending: bool) -> None:
        with self._lock:
            self._working.pop(job.job_id, None)
            if not has_ending:
                self._jobs.pop(job.job_id, None)
                self._not_given = {job.job_id: time.monotonic()}
        if has_ending:
            self._reporter.add(job)
        else:
            self._reporter.remove(job)
            job.remove()
        self._changed.set()

    def _reported(self, job: JobFolder, ending: Ending | None) -> None:
        with self._lock:
            self._jobs.pop(job.job_id, None)
        if self.on_reported is not None:
            self.on_reported(ending)
        self._changed.set()

    # --- the service's answers about this agent ---------------------------------------------------------------------

    def _answered(self) -> None:
        if self._backoff.failures or self._refused.failures:
            log.info("The service is reachable again.")
            self._backoff.succeeded()
            self._refused.succeeded()
            self._reporter.retry_now()

    def _not_answered(self, failure: NoAnswer | Refusal) -> float:
        if self.stopping.is_set():
            return 0.0
        self._last_error = str(failure)
        if self._backoff.failures == 0:
            log.warning("%s Running jobs continue and are reported once it is reachable again.", failure)
            self._note_status()
        return self._backoff.failed(failure.retry_after if isinstance(failure, NoAnswer) else 0.0)

    def _refused_by_service(self, refusal: NotAllowed) -> float:
        self._last_error = str(refusal)
        if self._refused.failures == 0:
            log.error(
                "The service refuses this agent: %s (%s). It was disabled, revoked or deleted; ask an administrator to "
                "enable it, or for a token to register it again. The agent retries every few minutes.",
                refusal,
                refusal.key or refusal.http_status,
            )
            self._note_status()
        return self._refused.failed()

    def _note_status(self, *, heartbeat: bool = False, skew: float | None = None) -> None:
        """Write the status file for `backup-agent status`, which runs in another process."""
        kept = private_files.read_json(self._places.status_file) or {}
        if heartbeat:
            self._last_error = None
            kept |= {"last_heartbeat_at": machine.now(), "clock_skew_seconds": skew}
            if skew is not None and abs(skew) >= NOTABLE_SKEW_SECONDS and not kept.get("told_of_skew"):
                log.warning("The clock of this machine is %.0f seconds off from the service's.", skew)
                kept["told_of_skew"] = True
        kept["last_error"] = self._last_error
        try:
            private_files.write_json(self._places.status_file, kept, durable=False)
        except OSError as error:
            log.warning("%s cannot be written: %s", self._places.status_file, error)


def _skew(server_time: str, sent: datetime, took: float) -> float | None:
    """Seconds by which the service's clock is ahead, as accurate as the travel time of the message permits."""
    try:
        return round(datetime.fromisoformat(server_time).timestamp() - sent.timestamp() - took / 2, 1)
    except (ValueError, TypeError):
        return None
