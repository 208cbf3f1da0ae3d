"""Request and response schemas for agents and administrators.

The runtime routes follow the contract in `backup_protocol`.
"""

from typing import Annotated, Any, Literal

from pydantic import Field

from holdfast.kit.fields import Moment, PlainText, RowId, Timestamp
from holdfast.kit.schema import Closed, Schema

Word = Annotated[str, PlainText(1, 60)]
HostName = Annotated[str, PlainText(0, 255)]
Sentence = Annotated[str, PlainText(0, 10_000)]
Capabilities = Annotated[list[Annotated[str, PlainText(1, 60)]], Field(max_length=100)]
Size = Annotated[int, Field(ge=0, le=2**63 - 1)]
Sequence = Annotated[int, Field(ge=0, le=2**53)]


class EngineVersion(Schema):
    major: Annotated[int, Field(ge=0, le=1000)]
    version: Word
    path: Annotated[str, PlainText(0, 4096)]


class UnstartedService(Schema):
    name: Annotated[str, PlainText(1, 255)]
    error: Annotated[str, PlainText(0, 500)]


EngineVersions = Annotated[list[EngineVersion], Field(max_length=50)]


# --- the runtime routes ----------------------------------------------------------------------------------------------


class RegisterBody(Schema):
    enrollment_token: Annotated[str, PlainText(1, 200)]
    name: Annotated[str, PlainText(1, 200)]
    hostname: HostName
    os: Word
    arch: Word
    agent_version: Word
    engine_versions: EngineVersions = []
    capabilities: Capabilities = []


class Registered(Schema):
    agent_id: str
    agent_token: str = Field(description="The agent's credential; shown once.")
    server_time: Timestamp
    poll_interval_seconds: int
    heartbeat_interval_seconds: int


class HeartbeatBody(Schema):
    agent_id: Annotated[str, PlainText(1, 64)]
    hostname: HostName
    agent_version: Word
    engine_versions: EngineVersions = []
    capabilities: Capabilities = []
    running_job_ids: Annotated[list[RowId], Field(max_length=1000)] = []
    sent_at: Moment | None = Field(None, description="The agent's clock, for measuring its skew.")
    last_error: Sentence | None = None
    unstarted_services: Annotated[list[UnstartedService], Field(max_length=20)] = Field(
        [], description="Services that a backup stopped and that fail to restart."
    )


class HeartbeatAnswer(Schema):
    server_time: Timestamp
    poll_interval_seconds: int
    cancel_job_ids: list[int] = Field(description="Jobs of this agent that should stop.")
    heartbeat_interval_seconds: int


class Job(Schema):
    id: int
    type: str
    created_at: Timestamp
    payload: dict[str, Any] = Field(description="Everything needed to run it, including its secrets.")
    status: str


class OfferedCall(Schema):
    id: str
    payload: dict[str, Any] = Field(description="Everything needed to run it, including its secrets.")


class Polled(Schema):
    jobs: list[Job]
    calls: list[OfferedCall] = Field(
        default_factory=list,
        exclude_if=lambda calls: not calls,
        description="Calls to run; send their output to `/calls/{id}/output`. Omitted if there are none.",
    )


class CallAnswer(Schema):
    id: str


class Claimed(Schema):
    status: str = "claimed"
    job: Job


class StartBody(Schema):
    started_at: Moment | None = None


class ProgressBody(Schema):
    """Omitted fields keep their values."""

    progress_percent: Annotated[float, Field(ge=0, le=100, allow_inf_nan=False)] | None = None
    current_file: Annotated[str, PlainText(0, 4096)] | None = None
    original_size: Size | None = None
    compressed_size: Size | None = None
    deduplicated_size: Size | None = None
    nfiles: Size | None = None
    backup_speed: Size | None = None
    estimated_time_remaining: Size | None = None
    more_than_expected: bool | None = None
    message: Annotated[str, PlainText(0, 1000)] | None = None

    def given(self) -> dict[str, Any]:
        """The given fields. If the job exceeds its expected size, earlier estimates are cleared."""
        unknown = {"progress_percent": None, "estimated_time_remaining": None} if self.more_than_expected else {}
        return {**self.model_dump(exclude_none=True), **unknown}


class LogEntryBody(Schema):
    sequence: Sequence
    stream: Annotated[str, PlainText(0, 20)] = "stderr"
    message: Annotated[str, Field(max_length=1024 * 1024)]
    created_at: Moment | None = None


class LogBatchBody(Schema):
    entries: list[LogEntryBody]


class LogsKept(Schema):
    accepted: int
    duplicate: int


class PartBody(Schema):
    part: Annotated[int, Field(ge=0, lt=100_000)]
    items: Annotated[list[dict[str, Any]], Field(max_length=10_000)]


class PartAnswer(Schema):
    id: int
    part: int


class StatsBody(Schema):
    original_size: Size | None = None
    compressed_size: Size | None = None
    deduplicated_size: Size | None = None
    nfiles: Size | None = None


class ResultBody(Schema):
    return_code: Annotated[int, Field(ge=-255, le=65535)] = 0
    archive_name: Annotated[str, PlainText(0, 4096)] | None = None
    stats: StatsBody | None = None
    warnings: Annotated[list[dict[str, Any]], Field(max_length=1000)] = []
    details: dict[str, Any] | None = None
    parts: Annotated[int, Field(ge=0, le=100_000)] = 0


class CompleteBody(Schema):
    completed_at: Moment | None = None
    result: ResultBody = ResultBody()


class FailBody(Schema):
    completed_at: Moment | None = None
    error_message: Sentence
    return_code: Annotated[int, Field(ge=-255, le=65535)] | None = None
    error_key: Annotated[str, Field(pattern=r"^[a-z_]{1,40}(\.[a-z_]{1,39})?$")] | None = None
    result: ResultBody | None = None


class CanceledBody(Schema):
    completed_at: Moment | None = None
    return_code: Annotated[int, Field(ge=-255, le=65535)] | None = None
    result: ResultBody | None = None


class Acknowledgement(Schema):
    id: int
    status: str
    cancel_requested: bool = False
    next_sequence: int | None = Field(None, description="All log lines with a lower number are stored.")


class Unregistered(Schema):
    agent_id: str
    status: str


# --- the management routes ------------------------------------------------------------------------------------------


class NewEnrollmentToken(Closed):
    name: Annotated[str, PlainText(1, 200)]
    expires_in_minutes: Annotated[int, Field(ge=5, le=43_200)]


class CreatedEnrollmentToken(Schema):
    id: int
    name: str
    token: str = Field(description="Shown once.")
    token_prefix: str
    expires_at: Timestamp


class EnrollmentTokenItem(Schema):
    id: int
    name: str
    token_prefix: str
    status: str = Field(description="unused, used, expired or revoked")
    created_by_user_id: int | None
    expires_at: Timestamp
    used_at: Timestamp | None
    used_by_agent_id: int | None
    revoked_at: Timestamp | None
    created_at: Timestamp


class EnrollmentTokens(Schema):
    tokens: list[EnrollmentTokenItem]


class MachineItem(Schema):
    id: int
    name: str
    connection_type: str
    status: str
    last_seen_at: Timestamp | None
    created_at: Timestamp
    updated_at: Timestamp


class MachineRow(MachineItem):
    key: str = Field(description="Unique among all machines, such as `agent:1` or `ssh:1`.")
    agent_version: str | None
    update_available: bool = Field(
        description="The service provides a different agent version; see Update in agents.md."
    )
    engine_versions: list[str] = Field(description="Engines found on the machine.")
    clock_skew_seconds: float | None = Field(
        description="How far the clock of an agent's machine is ahead, in seconds."
    )
    repository_count: int = Field(description="Repositories opened by this machine's engine.")
    last_backup_at: Timestamp | None = Field(description="Newest backup into one of these repositories.")
    running: int = Field(description="Operations currently running on them.")
    trouble: str | None = Field(
        description="Why the last ssh connection test failed, or the last error of an agent that is not online."
    )


class Machines(Schema):
    machines: list[MachineRow]


FindingVerdict = Literal["ok", "warning", "failed"]


class AgentFinding(Schema):
    step: str = Field(description="`access`, `connection`, `answer`, `engine`, `version`, `clock` or `last_error`.")
    verdict: FindingVerdict
    message: str


class AgentDiagnosis(Schema):
    verdict: FindingVerdict = Field(description="The worst of all findings.")
    findings: list[AgentFinding]


class AgentItem(Schema):
    id: int
    machine_id: int | None
    name: str
    agent_id: str
    token_prefix: str
    hostname: str
    os: str
    arch: str
    agent_version: str
    engine_versions: list[EngineVersion]
    capabilities: list[str]
    labels: dict[str, str]
    status: str
    last_seen_at: Timestamp | None
    last_error: str | None
    clock_skew_seconds: float | None = Field(description="Seconds that the agent's clock is ahead of the service's.")
    created_at: Timestamp
    updated_at: Timestamp


class Agents(Schema):
    agents: list[AgentItem]


class AgentChange(Closed):
    name: Annotated[str, PlainText(1, 200)] | None = None
    labels: (
        Annotated[dict[Annotated[str, PlainText(1, 60)], Annotated[str, PlainText(0, 200)]], Field(max_length=50)]
        | None
    ) = None


class NewBackupJob(Closed):
    repository_id: RowId
    source_paths: Annotated[list[Annotated[str, PlainText(1, 4096)]], Field(max_length=1000)] | None = None
    archive_name: Annotated[str, PlainText(1, 200)] | None = None


class AgentJobItem(Schema):
    id: int
    agent_machine_id: int | None
    agent_id: str | None
    agent_name: str | None
    job_type: str
    job_kind: str | None
    status: str
    operation_status: str
    repository_id: int | None
    repository: str | None
    payload: dict[str, Any] | None = Field(description="Secret values are omitted.")
    result: dict[str, Any] | None
    claimed_at: Timestamp | None
    started_at: Timestamp | None
    completed_at: Timestamp | None
    error_key: str | None
    error_message: str | None
    cancel_requested: bool
    created_at: Timestamp
    updated_at: Timestamp


class AgentJobs(Schema):
    jobs: list[AgentJobItem]
    next_cursor: str | None
