"""Enumerations and fixed strings of the contract."""

from enum import StrEnum

SCHEMA_VERSION = 1
"""Version of job payloads. An agent fails jobs of any other version with `UNSUPPORTED_JOB`."""

AUTHORIZATION_HEADER = "X-Backup-Agent-Authorization"
ENROLLMENT_TOKEN_PREFIX = "bk_enroll_"  # noqa: S105 - the prefix of every token, not a token
AGENT_TOKEN_PREFIX = "bk_agent_"  # noqa: S105

UNSUPPORTED_JOB = "unsupported_job"
"""Error key of a job whose schema version or kind the agent does not support."""


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
    """Kinds of agent jobs. Each value is also a capability."""

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
    """The agent can run scripts; the machine's own `config.toml` decides whether it does."""

    BACKUP_DUMP = "backup.dump"
    """The agent can dump databases; the machine's own `config.toml` decides which ones."""


class Capability(StrEnum):
    """Capabilities of an agent other than job kinds."""

    BACKUP_CANCEL = "backup.cancel"
    LOGS_STREAM = "logs.stream"
    SERVICE_HOLD = "service.hold"
    """Stop services during a backup; the machine's own `config.toml` decides which ones."""

    FOLDERS_LOOK = "folders.look"
    """List folders of the machine in a call, so that a user can choose sources and destinations: see `calls`."""

    CHUNKS_READ = "chunks.read"
    """Read metadata chunks of archives in a call (`read_chunks`, `try_chunks`). The service then indexes only what
    differs from the previous archive.
    """

    ARCHIVES_PROTECTED = "archives.protected"
    """Keep the archives that a prune lists as protected."""


class LogStream(StrEnum):
    STDOUT = "stdout"
    STDERR = "stderr"
    AGENT = "agent"
    """Job states reported by the agent."""


def is_warning(return_code: int) -> bool:
    """Whether this return code means that the engine finished its work, but with warnings."""
    return return_code == 1 or 100 <= return_code <= 127
