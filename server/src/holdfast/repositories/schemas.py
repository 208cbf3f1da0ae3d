"""Requests and responses about repositories."""

import shlex
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self, get_args

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, model_validator

from backup_engine.borg1 import init as borg1
from backup_engine.borg2 import init as borg2
from holdfast.access.roles import Role
from holdfast.kit.fields import PlainText, RowId, Timestamp
from holdfast.kit.schema import Closed, Schema

IndexMode = Literal["full", "archives", "off"]
Encryption = Literal[
    "repokey-blake2",
    "repokey",
    "keyfile-blake2",
    "keyfile",
    "authenticated-blake2",
    "authenticated",
    "none",
    "aes256-ocb",
    "aes256-ocb-blake3",
    "chacha20-poly1305",
    "chacha20-poly1305-blake3",
    "keyfile-aes256-ocb",
    "keyfile-aes256-ocb-blake3",
    "keyfile-chacha20-poly1305",
    "keyfile-chacha20-poly1305-blake3",
    "authenticated-sha256",
    "authenticated-blake3",
]
MODES_OF_ENGINE = {1: borg1.ENCRYPTION_MODES, 2: frozenset(borg2.ENCRYPTION_MODES)}
UNPROTECTED = frozenset({"none"})
NOT_ENCRYPTED = UNPROTECTED | {mode for mode in get_args(Encryption) if mode.startswith("authenticated")}
"""Modes that do not hide data from anyone with the files; the engine opens an unknown one only after confirmation."""
Name = Annotated[str, PlainText(1, 200), AfterValidator(str.strip), Field(min_length=1)]
PathText = Annotated[str, PlainText(1, 4096)]
Patterns = Annotated[list[Annotated[str, PlainText(1, 4096)]], Field(max_length=1000)]
CONFIRMS = "Back up sources that contain the service's own data and keys. Only admins can then read them in archives."
SourcePaths = Annotated[list[PathText], Field(max_length=1000)]


def _split_flags(value: Any) -> Any:
    """Accept flags given as one string, as related products store them."""
    if isinstance(value, str):
        try:
            return shlex.split(value)
        except ValueError as error:
            raise ValueError("the flags cannot be split into words") from error
    return value


Flags = Annotated[list[Annotated[str, PlainText(1, 400)]], BeforeValidator(_split_flags), Field(max_length=100)]
Passphrase = Annotated[SecretStr, AfterValidator(lambda secret: _plain_secret(secret, 4096))]
KeyFile = Annotated[SecretStr, AfterValidator(lambda secret: _plain_secret(secret, 65536))]
Keep = Annotated[int, Field(ge=0, le=100_000)] | None
Labels = Annotated[
    dict[Annotated[str, PlainText(1, 60)], Annotated[str, PlainText(0, 200)]],
    Field(max_length=50, examples=[{"site": "north"}]),
]
Within = Annotated[str, Field(pattern=r"^[1-9][0-9]{0,5}[HdwmyMS]$")]
Compression = Annotated[
    str,
    Field(
        pattern=r"^(none|lz4|zstd(,\d{1,2})?|zlib(,\d)?|lzma(,\d)?|auto,(lz4|zstd(,\d{1,2})?|zlib(,\d)?|lzma(,\d)?))$"
    ),
]


def _plain_secret(secret: SecretStr, maximum: int) -> SecretStr:
    value = secret.get_secret_value()
    try:
        size = len(value.encode())
    except UnicodeEncodeError as error:
        raise ValueError("may not hold a lone surrogate") from error
    if not 0 < size <= maximum or "\0" in value:
        raise ValueError(f"must have 1 to {maximum} bytes and no NUL")
    return secret


class Retention(Closed):
    """Which archives a prune keeps."""

    keep_within: Within | None = None
    keep_last: Keep = None
    keep_minutely: Keep = None
    keep_hourly: Keep = None
    keep_daily: Keep = None
    keep_weekly: Keep = None
    keep_monthly: Keep = None
    keep_quarterly: Keep = None
    keep_yearly: Keep = None


class RepositorySettings(Schema):
    """Settings of a repository, given when it is created or imported, and changed later."""

    name: Name
    compression: Compression = "lz4"
    source_paths: SourcePaths = []
    exclude_patterns: Patterns = []
    archive_name_template: Annotated[str, PlainText(1, 200)] = Field(
        "{repository}-{now}", description="Default with engine 2: `{repository}`."
    )
    custom_flags: Flags = []
    upload_ratelimit_kib: Annotated[int, Field(ge=1, le=100_000_000)] | None = None
    mode: Literal["full", "observe"] = "full"
    index_mode: IndexMode = "full"
    history_index_excludes: Patterns = []
    retention: Retention = Retention()
    labels: Labels = Field(
        {}, description="Used by schedules, together with its agent's labels, to select repositories."
    )


MirrorMode = Literal["after_backup", "interval", "manual"]


class MirrorWanted(Schema):
    """How a repository is to be mirrored."""

    path: Annotated[str, PlainText(1, 1024)] = Field(description="Folder (or bucket and folder) on the remote.")
    mode: MirrorMode = "after_backup"
    interval_minutes: Annotated[int, Field(ge=1, le=525_600)] | None = None
    bandwidth_limit_kib: Annotated[int, Field(ge=1, le=100_000_000)] | None = None
    shrink_threshold_percent: Annotated[int, Field(ge=1, le=100)] = 50
    verify: bool = True
    verify_sample: Annotated[int, Field(ge=0, le=1000)] = Field(
        0,
        description="Number of files read back after each sync and compared with the repository, if the remote has no "
        "hashes.",
    )


class NewMirror(MirrorWanted, extra="forbid"):
    """The mirror of a repository that is being created."""

    remote_id: RowId


class RepositoryPlace(RepositorySettings, extra="forbid"):
    path: PathText
    engine_version: Literal[1, 2] = 1
    repository_type: Literal["local", "ssh", "rclone"] = "local"
    execution_target: Literal["local", "ssh", "agent"] = "local"
    agent_machine_id: RowId | None = None
    ssh_connection_id: RowId | None = None
    remote_path: PathText | None = None
    passphrase_location: Literal["server", "agent"] = "server"  # noqa: S105
    passphrase: Passphrase | None = None
    own_places_confirmed: bool = Field(False, description=CONFIRMS)

    defaults_of_engine_2: ClassVar[Mapping[str, str]] = {"archive_name_template": "{repository}"}
    """With engine 2, archives with one name form a series, and the engine keys its cache of known files by it."""

    @model_validator(mode="before")
    @classmethod
    def _defaults_of_engine(cls, given: Any) -> Any:
        is_of_engine_2 = isinstance(given, dict) and given.get("engine_version") == 2
        return {**cls.defaults_of_engine_2, **given} if is_of_engine_2 else given

    def _with_mode_of_engine(self, encryption: str | None) -> Self:
        known = MODES_OF_ENGINE[self.engine_version]
        if encryption is not None and encryption not in known:
            raise ValueError(
                f"engine {self.engine_version} does not know this encryption; use one of {', '.join(sorted(known))}"
            )
        return self


class NewRepository(RepositoryPlace):
    encryption: Encryption = Field(
        "repokey-blake2",
        description="Each engine has its own modes; both have `none`. Default with engine 2: `aes256-ocb`.",
    )
    mirror: NewMirror | None = Field(None, description="Mirror it from the start; see PUT /{id}/mirror.")

    defaults_of_engine_2: ClassVar[Mapping[str, str]] = {
        **RepositoryPlace.defaults_of_engine_2,
        "encryption": "aes256-ocb",
    }

    @model_validator(mode="after")
    def _has_mode_of_engine(self) -> Self:
        return self._with_mode_of_engine(self.encryption)

    @model_validator(mode="after")
    def _has_passphrase(self) -> Self:
        if self.encryption not in UNPROTECTED and self.passphrase is None and self.passphrase_location == "server":  # noqa: S105
            raise ValueError("an encrypted repository needs a passphrase")
        return self


class ImportedRepository(RepositoryPlace):
    encryption: Encryption | None = Field(
        None,
        description="`none` and `authenticated…` confirm an unencrypted repository; otherwise the mode is detected.",
    )
    keyfile: KeyFile | None = Field(None, description="Exported key of a keyfile repository.")
    older_ok: bool = Field(
        False,
        description="Import it even if the engine here has seen a newer state of it, such as after restoring a mirror.",
    )

    @model_validator(mode="after")
    def _has_mode_of_engine(self) -> Self:
        return self._with_mode_of_engine(self.encryption)


class RepositoryChange(Closed):
    """Any of the settings; omitted ones stay unchanged."""

    path: PathText | None = Field(
        None, description="New location of a moved repository; its engine id must be the same."
    )
    name: Name | None = None
    compression: Compression | None = None
    source_paths: SourcePaths | None = None
    exclude_patterns: Patterns | None = None
    archive_name_template: Annotated[str, PlainText(1, 200)] | None = None
    custom_flags: Flags | None = None
    upload_ratelimit_kib: Annotated[int, Field(ge=1, le=100_000_000)] | None = None
    mode: Literal["full", "observe"] | None = None
    remote_path: PathText | None = None
    index_mode: IndexMode | None = None
    history_index_excludes: Patterns | None = None
    retention: Retention | None = None
    labels: Labels | None = Field(None, description="Replaces all labels: those left out are removed.")
    passphrase: Passphrase | None = None
    own_places_confirmed: bool = Field(False, description=CONFIRMS)
    agent_machine_id: RowId | None = Field(None, description="New agent on the same machine that opens it from now on.")


class RunningOperation(Schema):
    id: int
    kind: str
    status: str
    started_at: Timestamp | None


class SyncJob(Schema):
    id: int
    status: str
    triggered_by: str
    operation: Literal["sync", "hydrate"]
    started_at: Timestamp | None
    completed_at: Timestamp | None
    error_message: str | None


class RepositoryAnswer(Schema):
    id: int
    name: str
    path: str
    engine_id: str | None = Field(description="The engine's own id of the repository.")
    engine_version: int
    repository_type: str
    execution_target: str
    agent_machine_id: int | None
    ssh_connection_id: int | None
    rclone_remote_id: int | None = Field(description="Remote on which the engine itself stores the repository.")
    encryption: str
    compression: str
    source_paths: list[str]
    own_sources: list[str] = Field(description="Sources with the service's own data, confirmed by an admin.")
    exclude_patterns: list[str]
    archive_name_template: str
    custom_flags: list[str]
    upload_ratelimit_kib: int | None
    mode: str
    remote_path: str | None
    passphrase_location: str
    has_passphrase: bool
    has_keyfile: bool
    setup_state: str
    setup_operation_id: int | None
    index_mode: IndexMode
    history_index_excludes: list[str]
    retention: Retention
    labels: dict[str, str]
    last_backup: Timestamp | None
    last_check: Timestamp | None
    last_prune: Timestamp | None
    last_compact: Timestamp | None
    last_index: Timestamp | None
    last_restore_check: Timestamp | None
    archive_count: int | None
    total_size: int | None
    unique_size: int | None
    running_operation: RunningOperation | None
    latest_sync_job: SyncJob | None
    created_at: Timestamp
    updated_at: Timestamp
    my_role: Role = Field(description="Your role on this repository.")
    actions: list[str] = Field(description="Actions currently available to you.")
    refusals: dict[str, str] = Field(description="Unavailable actions, each with the error key that explains why.")


class RepositoryList(Schema):
    repositories: list[RepositoryAnswer]


class KeyAnswer(Schema):
    repository_id: int
    key: str = Field(description="The repository's key, still protected by its passphrase. Keep a copy elsewhere.")


class OlderConfirmation(Closed):
    dry_run: bool = Field(False, description="Only report which archives are missing.")


class MissingArchive(Schema):
    id: int
    engine_id: str
    name: str
    start: Timestamp


class OlderAnswer(Schema):
    repository_id: int
    confirmed: bool
    archives: int = Field(description="Number of archives in the repository.")
    missing: list[MissingArchive] = Field(description="Indexed archives missing from the repository; at most 1,000.")
    missing_count: int


class Replacement(Closed):
    passphrase: Passphrase | None = Field(
        None, description="New passphrase, if the other repository has a different one."
    )


class Done(Schema):
    repository_id: int
    message: str
    operation_id: int | None = Field(None, description="The operation that an agent runs for this, if any.")
