"""Request and response bodies of the runtime routes, `/api/agents/…`. Times are ISO 8601 with an offset."""

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
    """`POST /register`: the only request that carries a one-time token instead of a credential."""

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
    """A service that a backup stopped and that cannot be restarted."""

    name: str
    error: str


@frozen
class Heartbeat:
    """`POST /heartbeat`. `sent_at` lets the service measure the skew of the agent's clock."""

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
    """Response of `GET /jobs/poll?limit=&wait=`."""

    jobs: tuple[Job, ...] = ()
    calls: tuple[OfferedCall, ...] = ()


@frozen
class Claimed:
    """Response of `POST /jobs/{id}/claim`, including repeated claims. `job` is the job to run, with its secrets."""

    status: str
    job: Job | None = None


@frozen
class Start:
    """`POST /jobs/{id}/start`."""

    started_at: str


@frozen
class Progress:
    """`POST /jobs/{id}/progress`. Sizes are in bytes, speed in bytes per second; unknown values are None."""

    progress_percent: float | None = None
    current_file: str | None = None
    original_size: int | None = None
    compressed_size: int | None = None
    deduplicated_size: int | None = None
    nfiles: int | None = None
    backup_speed: int | None = None
    estimated_time_remaining: int | None = None
    more_than_expected: bool | None = None
    """The backup has already read more than the last one contained, so the percentage is unknown."""
    message: str | None = None


@frozen
class LogEntry:
    """One line of a job's log. `POST /jobs/{id}/logs` accepts one entry or a `LogBatch`."""

    sequence: int
    stream: str
    message: str
    created_at: str


@frozen
class LogBatch:
    entries: tuple[LogEntry, ...]


@frozen
class LogAnswer:
    """Number of uploaded lines that were new, and of those that were already stored."""

    accepted: int
    duplicate: int


@frozen
class ResultPart:
    """`POST /jobs/{id}/parts`: a slice of a result that is too large for one body, such as a long list of archives.

    Parts are numbered from 0; sending a part again changes nothing. `Result.parts` is their number.
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

    The content of `details` depends on the job kind. `warnings` contains objects with `path` and `message`.
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
    """`POST /jobs/{id}/fail`. `error_key` is a published key such as `engine.disk_full`.

    `result` describes what the job achieved before it failed, such as archives that were already deleted.
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
    """Response of start, progress, complete, fail, canceled, and of `GET /jobs/{id}`."""

    id: int
    status: JobStatus
    cancel_requested: bool = False
    next_sequence: int | None = None
    """Only in `GET /jobs/{id}`: the service has stored every log line below this number."""
