"""Upload the reports of jobs to the service: start, log lines, progress and ending, in this order and each once.

Every report is on disk before it is sent and stays there until the service has acknowledged it. After an interruption
the agent sends unacknowledged reports again, and the service recognises duplicates by their numbers.
"""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import replace

from backup_agent.backoff import Backoff
from backup_agent.client import NoAnswer, NotAllowed, Refusal, TooLarge, Unknown
from backup_agent.job_folder import Ending, JobFolder
from backup_agent.resilient_loop import ResilientLoop
from backup_agent.runtime_api import RuntimeApi
from backup_protocol import (
    LARGEST_LOG_BATCH,
    MOST_LOG_ENTRIES,
    TERMINAL_JOB_STATUSES,
    Acknowledgement,
    Canceled,
    Complete,
    Fail,
    JobStatus,
    LogBatch,
)

log = logging.getLogger(__name__)

TURN_SECONDS = 1.0
STATUS_SECONDS = 2.0
"""Interval at which a job with nothing to report checks whether it has been cancelled."""
REFUSED_SECONDS = 30.0
"""Pause before a refused report is sent again."""
BATCHES_PER_TURN = 5
BATCH_BYTES = LARGEST_LOG_BATCH * 3 // 4
SMALL_BATCH_BYTES = 32 * 1024
SLOW_SECONDS = 10.0
"""A batch that took longer occupies the connection for too long, which heartbeats need, too."""
REFUSED_LINE = "(the service does not accept this line)"
RESULT_REFUSED = frozenset({"agents.too_many_parts", "agents.parts_too_large"})
RESULT_TOO_LARGE = "engine.result_too_large"
ENDED_BY_SERVICE = "the service has ended the job"


class JobReporter:
    """One thread that reports all jobs of the agent."""

    def __init__(self, api: RuntimeApi, *, turn_seconds: float = TURN_SECONDS, backoff: Backoff | None = None) -> None:
        self._api = api
        self._turn_seconds = turn_seconds
        self._jobs: dict[int, JobFolder] = {}
        self._answered_at: dict[int, float] = {}
        self._refused_until: dict[int, float] = {}
        self._lock = threading.Lock()
        self._woken = threading.Event()
        self._stopping = threading.Event()
        self._backoff = backoff or Backoff()
        self._not_before = 0.0
        self._loop = ResilientLoop("Reporting")
        self._batch_bytes = BATCH_BYTES
        self.trouble: str | None = None
        """Why reports are refused, for the next heartbeat; None if they are not."""
        self._thread = threading.Thread(target=self._run, name="job-reporter", daemon=True)
        self.on_done: Callable[[JobFolder, Ending | None], None] | None = None
        """Called with the ending when the service has received everything about a job; the job's folder is then
        gone.
        """

    def start(self) -> None:
        self._thread.start()

    def stop(self, seconds: float) -> None:
        self._stopping.set()
        self._woken.set()
        self._thread.join(seconds)

    def add(self, job: JobFolder) -> None:
        job.wake = self._woken.set
        with self._lock:
            if not job.is_removed:  # the worker may get here after the job was reported completely
                self._jobs[job.job_id] = job
        self._woken.set()

    def retry_now(self) -> None:
        """Retry now: the service is responding again."""
        self._not_before = 0.0
        self._woken.set()

    def remove(self, job: JobFolder) -> None:
        with self._lock:
            self._jobs.pop(job.job_id, None)
            self._answered_at.pop(job.job_id, None)
            self._refused_until.pop(job.job_id, None)

    @property
    def is_busy(self) -> bool:
        """Whether any job still has reports to upload."""
        return bool(self._jobs)

    # --- the thread -------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._woken.wait(self._pause())
            self._woken.clear()
            if self._stopping.is_set() or time.monotonic() < self._not_before:
                continue
            pause = self._loop.turn(self._timed_turn)
            self._not_before = max(self._not_before, time.monotonic() + pause)

    def _timed_turn(self) -> float:
        self.turn()
        return 0.0

    def _pause(self) -> float | None:
        if not self._jobs:
            return None
        return max(self._turn_seconds, self._not_before - time.monotonic())

    def turn(self) -> None:
        """Send pending reports of all jobs. A failure of one job does not delay the others."""
        with self._lock:
            jobs = list(self._jobs.values())
        for job in jobs:
            if time.monotonic() < self._refused_until.get(job.job_id, 0.0):
                continue
            try:
                self.deliver(job)
                self._backoff.succeeded()
            except (NoAnswer, NotAllowed) as failure:
                retry_after = failure.retry_after if isinstance(failure, NoAnswer) else 0.0
                if self._backoff.failures == 0:
                    log.warning("Reports cannot be sent right now: %s", failure)
                self._not_before = time.monotonic() + self._backoff.failed(retry_after)
                return
            except Unknown as refusal:
                self._not_wanted(job, refusal)
            except Refusal as refusal:
                self._refused_until[job.job_id] = time.monotonic() + REFUSED_SECONDS
                job.note_sent(parts=0)  # the service is missing some: send all of them again
                self.trouble = str(refusal)
                log.error("Job %s: the service refuses a report: %s (%s)", job.job_id, refusal, refusal.key)  # noqa: TRY400
            except OSError as error:
                log.error("Job %s: its folder cannot be used: %s", job.job_id, error)  # noqa: TRY400
            except Exception:  # one faulty job must not prevent reports of the others
                self._refused_until[job.job_id] = time.monotonic() + REFUSED_SECONDS
                log.exception("Job %s cannot be reported right now.", job.job_id)

    def deliver(self, job: JobFolder) -> None:
        """Send pending reports of one job, up to the limit of a turn."""
        self._send_start(job)
        if not self._send_lines(job):
            self._woken.set()
            return
        ending = job.ending()
        if ending is None:
            self._send_progress(job)
            self._ask_if_silent(job)
        elif job.sent.log >= job.log.next_sequence:  # the ending is stored after the last line
            self._send_ending(job, *ending)

    def _send_start(self, job: JobFolder) -> None:
        start = job.start
        if start is not None and not job.sent.start:
            self._note(job, self._api.start(job.job_id, start))
            job.note_sent(start=True)

    def _send_lines(self, job: JobFolder) -> bool:
        """Send batches of lines. Return False if some are left for the next turn."""
        for _ in range(BATCHES_PER_TURN):
            entries = job.log.entries(job.sent.log, MOST_LOG_ENTRIES, self._batch_bytes)
            if not entries:
                return True
            batch, began = LogBatch(tuple(entries)), time.monotonic()
            try:
                self._api.logs(job.job_id, batch)
                if time.monotonic() - began > SLOW_SECONDS:
                    self._halve_batches()
            except NoAnswer as failure:
                if failure.was_sent:  # a slow link, or a proxy, may never let a batch of this size through
                    self._halve_batches()
                raise
            except Refusal as refusal:
                if isinstance(refusal, NotAllowed | Unknown):
                    raise
                if isinstance(refusal, TooLarge) and len(entries) > 1:
                    self._send_less(refusal)
                    continue
                self._send_one_by_one(job, batch)
            job.note_sent(log=entries[-1].sequence + 1)
        return job.sent.log >= job.log.next_sequence

    def _send_less(self, refusal: TooLarge) -> None:
        """Use smaller batches from now on: a proxy that has refused a large body will refuse the next one too."""
        if self.trouble is None:
            log.warning("Log lines are sent in smaller batches: %s", refusal)
        self.trouble = str(refusal)
        self._batch_bytes = max(1, self._batch_bytes // 2)

    def _halve_batches(self) -> None:
        """Use smaller batches from now on, down to a size that every link carries."""
        self._batch_bytes = min(self._batch_bytes, max(SMALL_BATCH_BYTES, self._batch_bytes // 2))

    def _send_one_by_one(self, job: JobFolder, batch: LogBatch) -> None:
        """Send lines one by one. A line that the service does not accept keeps its number, but its text is replaced."""
        for entry in batch.entries:
            try:
                self._api.logs(job.job_id, LogBatch((entry,)))
            except Refusal as refusal:
                if isinstance(refusal, NotAllowed | Unknown):
                    raise
                self._api.logs(job.job_id, LogBatch((replace(entry, message=REFUSED_LINE),)))

    def _send_progress(self, job: JobFolder) -> None:
        unsent = job.unsent_progress()
        if unsent is None:
            return
        number, progress = unsent
        try:
            self._note(job, self._api.progress(job.job_id, progress))
        except Refusal as refusal:
            if isinstance(refusal, NotAllowed | Unknown):
                raise
            log.warning("Job %s: the service refuses the progress: %s", job.job_id, refusal)
        job.note_sent(progress=number)

    def _ask_if_silent(self, job: JobFolder) -> None:
        if time.monotonic() - self._answered_at.get(job.job_id, 0.0) >= STATUS_SECONDS:
            self._note(job, self._api.status(job.job_id))

    def _send_ending(self, job: JobFolder, ending: Complete | Fail | Canceled, parts: int) -> None:
        try:
            for number in range(job.sent.parts, parts):
                self._api.part(job.job_id, job.part(number))
                job.note_sent(parts=number + 1)
        except TooLarge as refusal:
            if refusal.key not in RESULT_REFUSED:
                raise
            ending = Fail(ending.completed_at, str(refusal), error_key=RESULT_TOO_LARGE)
        match ending:
            case Complete():
                answer = self._api.complete(job.job_id, ending)
            case Fail():
                answer = self._api.fail(job.job_id, ending)
            case Canceled():
                answer = self._api.canceled(job.job_id, ending)
        log.info("Job %s: reported %s; answer: %s.", job.job_id, type(ending).__name__.lower(), answer.status)
        self._done(job, ending)

    # --- the service's answers --------------------------------------------------------------------------------------

    def _note(self, job: JobFolder, answer: Acknowledgement) -> None:
        self._answered_at[job.job_id] = time.monotonic()
        if answer.cancel_requested or answer.status is JobStatus.CANCEL_REQUESTED:
            job.cancel("cancellation was requested")
        elif answer.status in TERMINAL_JOB_STATUSES and not job.is_ended:
            job.cancel(ENDED_BY_SERVICE)

    def _not_wanted(self, job: JobFolder, refusal: Unknown) -> None:
        """Stop a job that the service does not know. Once it has stopped, drop it: there is nothing to report."""
        job.cancel("the service does not know the job")
        if job.is_ended:
            log.warning("Job %s is not known to the service (%s); dropping its record.", job.job_id, refusal)
            self._done(job, None)

    def _done(self, job: JobFolder, ending: Ending | None) -> None:
        with self._lock:
            job.is_removed = True
        self.remove(job)
        try:
            job.remove()
        except OSError as error:
            log.error("Job %s: its folder cannot be removed: %s", job.job_id, error)  # noqa: TRY400
        if self.on_done is not None:
            self.on_done(job, ending)
