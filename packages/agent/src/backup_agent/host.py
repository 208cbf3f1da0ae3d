"""The agent as the host of a job: runs its engines, stores its log and progress."""

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from backup_agent.job_folder import JobFolder
from backup_engine.command import Command, Secret
from backup_engine.redact import Redactor
from backup_jobs.engine_host import EngineHost
from backup_protocol import LogStream, Progress

PROGRESS_SECONDS = 1.0
LONGEST_VALUE = {"current_file": 4096, "message": 1000}
KNOWN_PROGRESS = frozenset(each.name for each in fields(Progress))


@dataclass(frozen=True, slots=True, repr=False)
class JobEnvironment:
    """Variables of the payload, set in every engine run, and the redactor that removes the job's secrets from
    output.
    """

    redactor: Redactor
    variables: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, Secret] = field(default_factory=dict)

    def apply_to(self, command: Command) -> Command:
        if not self.variables and not self.secrets:
            return command
        return replace(
            command,
            environment={**command.environment, **self.variables},
            secrets={**command.secrets, **self.secrets},
        )


class AgentHost(EngineHost):
    """Hosts one attempt at a job."""

    poll_seconds = 0.2
    drain_seconds = 0.5
    syncs_lines = True

    def __init__(
        self,
        job: JobFolder,
        attempt: int,
        environment: JobEnvironment,
        stopping: threading.Event,
        grace_seconds: float,
        *,
        earlier: Mapping[str, Any] | None = None,
        ran_before: bool = False,
    ) -> None:
        super().__init__(job.folder / "steps" / str(attempt), stopping, job.cancelled, grace_seconds)
        self._job = job
        self._attempt = attempt
        self._earlier = earlier or {}
        self._ran_before = ran_before
        self._environment = environment
        self._reported_at = 0.0

    @property
    def attempt(self) -> int:
        return self._attempt

    @property
    def earlier(self) -> Mapping[str, Any]:
        return self._earlier

    @property
    def ran_before(self) -> bool:
        return self._ran_before

    def log(self, *lines: str) -> None:
        self._job.log.write(map(self._environment.redactor.redact, lines), LogStream.AGENT)

    def _write(self, lines: Sequence[str]) -> None:
        self._job.log.write(lines)

    def _with_environment(self, command: Command) -> Command:
        return self._environment.apply_to(command)

    def _redactor(self, command: Command) -> Redactor:
        del command  # the job's secrets include those of the command
        return self._environment.redactor

    def report(self, **progress: Any) -> None:
        if time.monotonic() - self._reported_at < PROGRESS_SECONDS:
            return
        self._reported_at = time.monotonic()
        known = {name: value for name, value in progress.items() if name in KNOWN_PROGRESS}
        for name, longest in LONGEST_VALUE.items():
            if known.get(name):
                known[name] = known[name][:longest]
        self._job.note_progress(Progress(**known))
