"""The fixed words of the contract."""

from enum import StrEnum

SCHEMA_VERSION = 1
"""Of job payloads. An agent fails a job of another version with `UNSUPPORTED_JOB`."""

AUTHORIZATION_HEADER = "X-Backup-Agent-Authorization"
ENROLLMENT_TOKEN_PREFIX = "bk_enroll_"  # noqa: S105 - the beginning of every token, not one
AGENT_TOKEN_PREFIX = "bk_agent_"  # noqa: S105

UNSUPPORTED_JOB = "unsupported_job"
"""The error key of a job whose schema version or kind the agent does not know."""


class AgentStatus(StrEnum):
    PENDING = "pending"
    ONLINE = "online"
    OFFLINE = "offline"
    DISABLED = "disabled"
    REVOKED = "revoked"


class JobStatus(StrEnum):
    QUEUED = "queued"
    CLAIMED = "claimed"
    RUNNING = "running"
    CANCEL_REQUESTED = "cancel_requested"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELED = "canceled"


TERMINAL_JOB_STATUSES = frozenset({JobStatus.COMPLETED, JobStatus.FAILED, JobStatus.CANCELED})


class JobKind(StrEnum):
    """Kinds of jobs for an agent. Each is also the name of a capability."""

    ENGINE_CALL = "engine.call"
    """Not a job: see `calls`."""

    BACKUP_CREATE = "backup.create"
    REPOSITORY_INIT = "repository.init"
    REPOSITORY_CHECK = "repository.check"
    REPOSITORY_PRUNE = "repository.prune"
    REPOSITORY_COMPACT = "repository.compact"
    REPOSITORY_BREAK_LOCK = "repository.break_lock"
    ARCHIVE_DELETE = "archive.delete"
    ARCHIVES_LIST = "archives.list"
    RESTORE_EXTRACT = "restore.extract"
    RESTORE_RECEIVE = "restore.receive"
    SCRIPT_RUN = "script.run"
    """The agent supports scripts; whether it runs them is decided by the machine's own `config.toml`."""

    BACKUP_DUMP = "backup.dump"
    """Dumps of databases; which ones is decided by the machine's own `config.toml`."""


class Capability(StrEnum):
    """Capabilities of an agent besides the kinds of jobs."""

    BACKUP_CANCEL = "backup.cancel"
    LOGS_STREAM = "logs.stream"
    SERVICE_HOLD = "service.hold"
    """To stop services for a backup; which ones is decided by the machine's own `config.toml`."""

    FOLDERS_LOOK = "folders.look"
    """To list folders of the machine for a call, so that sources and destinations can be chosen: see `calls`."""

    CHUNKS_READ = "chunks.read"
    """To read metadata chunks of archives for a call (`read_chunks`, `try_chunks`), so that they are indexed by what
    differs from the archive before."""

    ARCHIVES_PROTECTED = "archives.protected"
    """To leave the archives alone that a prune names as protected."""


class LogStream(StrEnum):
    STDOUT = "stdout"
    STDERR = "stderr"
    AGENT = "agent"
    """Job states as the agent reports them."""


def is_warning(return_code: int) -> bool:
    """Whether the engine finished its work with this code, but with warnings."""
    return return_code == 1 or 100 <= return_code <= 127
