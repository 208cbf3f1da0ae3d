"""A job as an agent receives it: everything it needs to run the job without further requests."""

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any

from backup_engine.frozen import frozen
from backup_engine.named_database import NamedDatabase
from backup_protocol.enums import JobKind
from backup_protocol.reading import Malformed, read, write

Environment = dict[str, Any]
"""Maps a variable name to a value or to `{"secret_ref": name}`."""


@frozen
class RepositoryBlock:
    repository_id: int
    engine_version: int
    repository_path: str
    remote_path: str | None = None
    encryption: str | None = None
    relocated_ok: bool = False
    unencrypted_ok: bool = False
    engine_id: str | None = None
    """Expected id of the repository; the agent must not read or write a repository with a different id."""
    older: str = "refuse"
    """`accept` makes the engine forget that it has seen a newer state of the repository; `look` does so for this run
    only.
    """


@frozen
class Block:
    """Fields that the blocks of all kinds have."""

    environment: Environment = field(default_factory=dict)


@frozen
class BackupBlock(Block):
    archive_name: str = ""
    source_paths: tuple[str, ...] = ()
    exclude_patterns: tuple[str, ...] = ()
    compression: str | None = None
    comment: str | None = None
    """Contains `holdfast:<operation uuid>`, which identifies the archive as this job's even after a crash."""
    custom_flags: tuple[str, ...] = ()
    upload_ratelimit_kib: int | None = None
    within: tuple[str, ...] = ()
    """If set, the real paths of all sources must be inside these folders: the requesting user may back up nothing
    else.
    """
    service_places: tuple[dict[str, Any], ...] = ()
    """The service's own folders, each with its device and inode. They are excluded if the agent runs on the same
    machine.
    """
    services: tuple[str, ...] = ()
    """Units to stop while the engine runs. The agent stops only units that its own configuration lists."""


@frozen
class DatabaseBlock(NamedDatabase):
    """A database to dump."""

    password_ref: str | None = None
    """Name of the password among the payload's secrets. It never refers to a secret stored by the agent."""


@frozen
class DumpBlock(BackupBlock):
    """Dump these databases into one archive. There are no sources on disk; `source_paths` is not used."""

    databases: tuple[DatabaseBlock, ...] = ()


@frozen
class InitBlock(Block):
    encryption: str = ""
    make_parent_dirs: bool = True


@frozen
class CheckBlock(Block):
    max_duration: int | None = None
    verify_data: bool = False
    repair: bool = False


@frozen
class PruneBlock(Block):
    """`policy` maps the names of rules (`keep_daily`, …) to their values. It is never empty.

    If `names` (a regular expression) is set, every archive in the plan must match it; otherwise nothing is removed.
    `protected` lists the engine's ids of archives that stay, whatever the policy says.
    """

    policy: dict[str, Any] = field(default_factory=dict)
    glob: str | None = None
    names: str | None = None
    protected: tuple[str, ...] = ()


@frozen
class CompactBlock(Block):
    threshold: int | None = None


@frozen
class DeleteBlock(Block):
    """`archive_id` restricts the deletion to the archive with this engine id; a later archive of the same name
    stays.
    """

    archive: str = ""
    archive_id: str | None = None


@frozen
class ListBlock(Block):
    """List all archives of the repository."""

    with_info: bool = True
    """Also read the repository's sizes."""


@frozen
class RestoreBlock(Block):
    """`paths` contains strings, or `{"path_b64": …}` for names that are not valid UTF-8; empty means the whole archive.
    `archive_id` is the engine's id of the archive, if known: with engine 2, a name can refer to a whole series.
    """

    archive: str = ""
    archive_id: str | None = None
    paths: tuple[Any, ...] = ()
    destination: Any = ""
    """A string or `{"path_b64": …}`."""
    restore_layout: str = "preserve_path"
    overwrite: str = "fail"
    dry_run: bool = False
    without: tuple[Any, ...] = ()
    """Archived folders to leave out because the requesting user may not read them."""
    repositories: tuple[str, ...] = ()
    """Paths of repositories on the agent's machine; the restore never writes there."""
    service_places: tuple[dict[str, Any], ...] = ()
    """The service's own folders, each with its device and inode. They are protected if the agent runs on the same
    machine.
    """


@frozen
class CallBlock(Block):
    """An engine method and its request as JSON text. Paths that are not valid UTF-8 contain lone surrogates."""

    method: str = ""
    request: str = "{}"


@frozen
class ScriptBlock(Block):
    """A script to run once, if the agent's own configuration allows it: see `docs/scripts.md`.

    `environment` contains only secret parameters, `variables` all other variables of the script.
    """

    name: str = ""
    event: str = "manual"
    """`before`, `after` or `manual`."""
    content: str | None = None
    installed_as: str | None = None
    """Name of a file in the agent's own folder of scripts, used instead of `content`."""
    interpreter: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    timeout_seconds: int = 300
    variables: dict[str, str] = field(default_factory=dict)


BLOCKS: Mapping[JobKind, tuple[str, type[Block]]] = {
    JobKind.ENGINE_CALL: ("call", CallBlock),
    JobKind.BACKUP_CREATE: ("backup", BackupBlock),
    JobKind.REPOSITORY_INIT: ("init", InitBlock),
    JobKind.REPOSITORY_CHECK: ("check", CheckBlock),
    JobKind.REPOSITORY_PRUNE: ("prune", PruneBlock),
    JobKind.REPOSITORY_COMPACT: ("compact", CompactBlock),
    JobKind.REPOSITORY_BREAK_LOCK: ("break_lock", Block),
    JobKind.ARCHIVE_DELETE: ("delete", DeleteBlock),
    JobKind.ARCHIVES_LIST: ("list", ListBlock),
    JobKind.RESTORE_EXTRACT: ("restore", RestoreBlock),
    JobKind.RESTORE_RECEIVE: ("restore", RestoreBlock),
    JobKind.SCRIPT_RUN: ("script", ScriptBlock),
    JobKind.BACKUP_DUMP: ("dump", DumpBlock),
}
"""Maps each kind to the payload key of its block and the block's type, which is `Block` if it has no fields of its
own.
"""


@frozen
class Payload:
    """`block` is stored under the key given by `BLOCKS`. Values of secrets are present only on the way to the agent."""

    schema_version: int
    job_kind: JobKind
    repository: RepositoryBlock
    block: Block
    secrets: dict[str, dict[str, str]] = field(default_factory=dict, repr=False)

    def to_json(self) -> dict[str, Any]:
        return {
            "schema_version": self.schema_version,
            "job_kind": str(self.job_kind),
            "repository": write(self.repository),
            BLOCKS[self.job_kind][0]: write(self.block),
            "secrets": self.secrets,
        }

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> "Payload":
        """Parse a payload whose schema version and kind are supported. Raise Malformed if it is invalid."""
        head = read(_Head, value)
        name, expected = BLOCKS[head.job_kind]
        if name not in value:
            raise Malformed(f"the payload has no {name}")
        block = read(expected, value[name])
        return Payload(head.schema_version, head.job_kind, head.repository, block, head.secrets)


@frozen
class _Head:
    schema_version: int
    job_kind: JobKind
    repository: RepositoryBlock
    secrets: dict[str, dict[str, str]] = field(default_factory=dict, repr=False)


@frozen
class Job:
    """A job in the answer to a poll. `payload` is unparsed: check its `schema_version` and `job_kind` first."""

    id: int
    type: str
    created_at: str
    payload: dict[str, Any] = field(repr=False)
    status: str = "queued"


@frozen
class OfferedCall:
    """A call in the answer to a poll; a caller is waiting for the engine's output. See `calls`."""

    id: str
    payload: dict[str, Any] = field(repr=False)


class SecretMissing(LookupError):
    """The job refers to a secret that is neither in its payload nor stored by the agent."""

    def __init__(self, ref: str) -> None:
        super().__init__(f"the secret {ref} is not stored on this machine; set it with: backup-agent secret set {ref}")
        self.ref = ref


def resolved_environment(
    payload: Payload, local_secret: Callable[[str], str | None]
) -> tuple[dict[str, str], set[str]]:
    """Return the job's variables, and the set of values that are secret.

    `local_secret` looks up a secret stored on this machine. Raise SecretMissing for an unknown reference.
    """
    variables: dict[str, str] = {}
    secrets: set[str] = set()
    for name, value in payload.block.environment.items():
        if not isinstance(value, Mapping):
            variables[name] = str(value)
            continue
        ref = str(value.get("secret_ref", ""))
        found = payload.secrets.get(ref, {}).get("value")
        found = found if found is not None else local_secret(ref)
        if found is None:
            raise SecretMissing(ref)
        variables[name] = found
        secrets.add(found)
    return variables, secrets
