"""The bodies of the runtime routes, `/api/agents/…`, and their answers. Times are ISO 8601 with an offset."""

from dataclasses import field
from typing import Any

from backup_engine.frozen import frozen
from backup_protocol.enums import JobStatus
from backup_protocol.jobs import Job, OfferedCall


@frozen
class EngineVersion:
    major: int
    version: str
    path: str


@frozen
class Register:
    """`POST /register`: the only call that needs no credential, but a one-time token."""

    enrollment_token: str = field(repr=False)
    name: str
    hostname: str
    os: str
    arch: str
    agent_version: str
    engine_versions: tuple[EngineVersion, ...] = ()
    capabilities: tuple[str, ...] = ()


@frozen
class Registered:
    agent_id: str
    agent_token: str = field(repr=False)
    server_time: str
    poll_interval_seconds: int
    heartbeat_interval_seconds: int = 30


@frozen
class UnstartedService:
    """A service that a backup has stopped and that does not start again."""

    name: str
    error: str


@frozen
class Heartbeat:
    """`POST /heartbeat`. `sent_at` lets the server measure how far the agent's clock is off."""

    agent_id: str
    hostname: str
    agent_version: str
    engine_versions: tuple[EngineVersion, ...] = ()
    capabilities: tuple[str, ...] = ()
    running_job_ids: tuple[int, ...] = ()
    sent_at: str | None = None
    last_error: str | None = None
    unstarted_services: tuple[UnstartedService, ...] = ()


@frozen
class HeartbeatAnswer:
    server_time: str
    poll_interval_seconds: int
    cancel_job_ids: tuple[int, ...] = ()
    heartbeat_interval_seconds: int = 30


@frozen
class Polled:
    """The answer of `GET /jobs/poll?limit=&wait=`."""

    jobs: tuple[Job, ...] = ()
    calls: tuple[OfferedCall, ...] = ()


@frozen
class Claimed:
    """The answer of `POST /jobs/{id}/claim`, also when it is claimed again: `job` is what to run, with its secrets."""

    status: str
    job: Job | None = None


@frozen
class Start:
    """`POST /jobs/{id}/start`."""

    started_at: str


@frozen
class Progress:
    """`POST /jobs/{id}/progress`. Sizes in bytes, speed in bytes per second; unknown values are None."""

    progress_percent: float | None = None
    current_file: str | None = None
    original_size: int | None = None
    compressed_size: int | None = None
    deduplicated_size: int | None = None
    nfiles: int | None = None
    backup_speed: int | None = None
    estimated_time_remaining: int | None = None
    more_than_expected: bool | None = None
    """More was read than the last backup held: the percentage is not known."""
    message: str | None = None


@frozen
class LogEntry:
    """One line of a job's log: `POST /jobs/{id}/logs` takes one, or a `LogBatch`."""

    sequence: int
    stream: str
    message: str
    created_at: str


@frozen
class LogBatch:
    entries: tuple[LogEntry, ...]


@frozen
class LogAnswer:
    """How many lines of the upload were new, and how many were known."""

    accepted: int
    duplicate: int


@frozen
class ResultPart:
    """`POST /jobs/{id}/parts`: a slice of a result that is too large for one body, such as a long list of archives.

    Parts count from 0; sending one again changes nothing. `Result.parts` is their number.
    """

    part: int
    items: tuple[dict[str, Any], ...]


@frozen
class PartAnswer:
    id: int
    part: int


@frozen
class Stats:
    original_size: int | None = None
    compressed_size: int | None = None
    deduplicated_size: int | None = None
    nfiles: int | None = None


@frozen
class Result:
    """The result of a job.

    `details` is the kind's own: see `details`. `warnings` are objects with `path` and `message`.
    """

    return_code: int = 0
    archive_name: str | None = None
    stats: Stats | None = None
    warnings: tuple[dict[str, Any], ...] = ()
    details: dict[str, Any] | None = None
    parts: int = 0


@frozen
class Complete:
    """`POST /jobs/{id}/complete`."""

    completed_at: str
    result: Result = field(default_factory=Result)


@frozen
class Fail:
    """`POST /jobs/{id}/fail`. `error_key` is one of the published keys, such as `engine.disk_full`.

    `result` is what the job still achieved, such as the archives that a failed deletion has deleted.
    """

    completed_at: str
    error_message: str
    return_code: int | None = None
    error_key: str | None = None
    result: Result | None = None


@frozen
class Canceled:
    """`POST /jobs/{id}/canceled`: the process ended because the job was cancelled."""

    completed_at: str
    return_code: int | None = None
    result: Result | None = None


@frozen
class Acknowledgement:
    """The answer of start, progress, complete, fail, canceled, and of `GET /jobs/{id}`."""

    id: int
    status: JobStatus
    cancel_requested: bool = False
    next_sequence: int | None = None
    """Of `GET /jobs/{id}`: every log line below this number is stored."""
