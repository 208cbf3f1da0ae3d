"""A job as an agent gets it: everything needed to run it, without further requests to the server."""

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any

from backup_engine.frozen import frozen
from backup_engine.named_database import NamedDatabase
from backup_protocol.enums import JobKind
from backup_protocol.reading import Malformed, read, write

Environment = dict[str, Any]
"""Variable name to a value, or to `{"secret_ref": name}`."""


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
    """The id that the repository must have; a different repository must not be read or written."""
    older: str = "refuse"
    """`accept`: the engine is to forget that it has seen a newer state; `look`: only for this run."""


@frozen
class Block:
    """What every kind's block has."""

    environment: Environment = field(default_factory=dict)


@frozen
class BackupBlock(Block):
    archive_name: str = ""
    source_paths: tuple[str, ...] = ()
    exclude_patterns: tuple[str, ...] = ()
    compression: str | None = None
    comment: str | None = None
    """Carries `holdfast:<operation uuid>`, which identifies the archive as this job's, even after a crash."""
    custom_flags: tuple[str, ...] = ()
    upload_ratelimit_kib: int | None = None
    within: tuple[str, ...] = ()
    """If given, the sources must really be inside these folders: the requesting user may back up nothing else."""
    service_places: tuple[dict[str, Any], ...] = ()
    """The service's own folders, each with its device and inode: left out where the agent runs on the same machine."""
    services: tuple[str, ...] = ()
    """Units that are stopped while the engine runs. An agent stops those that its own configuration names."""


@frozen
class DatabaseBlock(NamedDatabase):
    """A database to dump."""

    password_ref: str | None = None
    """The name of its password among the secrets of the payload. A secret of the agent's own is never meant."""


@frozen
class DumpBlock(BackupBlock):
    """One archive of the dumps of these databases. It has no sources on disk; `source_paths` is not used."""

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
    """`policy` has the rules by name (`keep_daily`, …). It never is empty.

    With `names`, a regular expression, every archive that the plan names must match it; else nothing is removed.
    `protected` are the engine's ids of archives that stay, whatever the policy says.
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
    """With `archive_id`, only the archive that has this engine id: one of the same name made later is another one."""

    archive: str = ""
    archive_id: str | None = None


@frozen
class ListBlock(Block):
    """A complete list of the repository's archives: see `details.RepositoryDetails`."""

    with_info: bool = True
    """Also read the sizes of the repository."""


@frozen
class RestoreBlock(Block):
    """`paths`: strings, or `{"path_b64": …}` for a name that is not UTF-8; none means the whole archive.

    `archive_id` is the engine's id of the archive, where it is known: with engine 2 a name is that of a whole series.
    """

    archive: str = ""
    archive_id: str | None = None
    paths: tuple[Any, ...] = ()
    destination: Any = ""
    """A string, or `{"path_b64": …}`."""
    restore_layout: str = "preserve_path"
    overwrite: str = "fail"
    dry_run: bool = False
    without: tuple[Any, ...] = ()
    """Archived folders that are left out, because the requesting user may not read them."""
    repositories: tuple[str, ...] = ()
    """Paths of repositories on the agent's machine: nothing is written there."""
    service_places: tuple[dict[str, Any], ...] = ()
    """The service's own folders, each with its device and inode: protected where the agent runs on the same machine."""


@frozen
class CallBlock(Block):
    """A method of the engine, and its request as JSON text: paths that are not UTF-8 contain lone surrogates."""

    method: str = ""
    request: str = "{}"


@frozen
class ScriptBlock(Block):
    """A script to run once. An agent decides by its own configuration whether it does, see `docs/scripts.md`.

    `environment` holds secret parameters alone, `variables` everything else that the script gets to know.
    """

    name: str = ""
    event: str = "manual"
    """`before`, `after` or `manual`."""
    content: str | None = None
    installed_as: str | None = None
    """A file in the agent's own folder of scripts, instead of the content."""
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
"""For each kind the name under which a payload holds its block, and the type of that; `Block` itself if it has no
fields.
"""


@frozen
class Payload:
    """`block` is under the name that `BLOCKS` gives. Secret values are present only on the way to the agent."""

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
        """Given a payload of the schema version and a kind that are known, return it. Raise Malformed otherwise."""
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
    """A job of a poll. `payload` is left as it came: look at its `schema_version` and `job_kind` first."""

    id: int
    type: str
    created_at: str
    payload: dict[str, Any] = field(repr=False)
    status: str = "queued"


@frozen
class OfferedCall:
    """A call of a poll: a caller waits for the engine's output. See `calls`."""

    id: str
    payload: dict[str, Any] = field(repr=False)


class SecretMissing(LookupError):
    """A secret that the job refers to is neither in its payload nor on the agent."""

    def __init__(self, ref: str) -> None:
        super().__init__(f"the secret {ref} is not stored on this machine; set it with: backup-agent secret set {ref}")
        self.ref = ref


def resolved_environment(
    payload: Payload, local_secret: Callable[[str], str | None]
) -> tuple[dict[str, str], set[str]]:
    """Given a payload and a function that looks up a secret of this machine, return the variables and their secret
    values.

    Raise SecretMissing for an unknown reference.
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
