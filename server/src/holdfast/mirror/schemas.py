"""Request and response schemas for remotes and mirrors."""

from typing import Annotated, Any, Literal

from pydantic import Field, StrictBool, StrictInt

from holdfast.kit.fields import PlainText, Timestamp
from holdfast.kit.schema import Closed, Schema
from holdfast.repositories.schemas import MirrorMode, NewMirror

StepName = Literal["program", "configuration", "reach", "credentials", "write", "read", "delete"]
RemoteName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$")]
OptionName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_]{0,59}$")]
OptionValue = Annotated[str, PlainText(0, 16384)] | StrictBool | StrictInt | None
GivenOptions = Annotated[dict[OptionName, OptionValue], Field(max_length=64)]
ProviderName = Annotated[str, PlainText(1, 60)]


class ProviderOption(Schema):
    name: str
    help: str
    type: str
    default: str
    required: bool
    secret: bool = Field(description="Write-only: its value is never returned.")
    advanced: bool


class ProviderAnswer(Schema):
    name: str
    description: str
    options: list[ProviderOption]


class ProviderList(Schema):
    providers: list[ProviderAnswer]


class NewRemote(Closed):
    name: RemoteName
    provider: ProviderName
    options: GivenOptions = {}


class RemoteChange(Closed):
    """Fields that are not given stay; an option set to null is removed."""

    name: RemoteName | None = None
    options: GivenOptions = {}


class RemoteAnswer(Schema):
    id: int
    name: str
    provider: str
    options: dict[str, str]
    secret_options: list[str] = Field(description="Names of the secret options that are set.")
    repository_ids: list[int] = Field(description="Repositories stored on or mirrored to it.")
    created_at: Timestamp
    updated_at: Timestamp


class RemoteList(Schema):
    remotes: list[RemoteAnswer]


class RemoteTest(Closed):
    path: Annotated[str, PlainText(0, 1024)] = Field(
        "", description="Path on the remote where the test file is written."
    )


class ProbeStep(Schema):
    step: StepName
    verdict: Literal["ok", "failed", "skipped"]
    key: str | None = None
    message: str | None = None
    details: dict[str, Any] | None = Field(None, description="`said`: rclone's own message.")


class RemoteVerdict(Schema):
    ok: bool
    steps: list[ProbeStep]


class MirrorSettings(NewMirror):
    """All settings of a mirror; those not given get their defaults."""


class MirrorAnswer(Schema):
    repository_id: int
    remote_id: int
    remote: str
    path: str
    mode: MirrorMode
    interval_minutes: int | None
    bandwidth_limit_kib: int | None
    shrink_threshold_percent: int
    verify: bool
    verify_sample: int
    last_sync_at: Timestamp | None = Field(description="Last completed sync.")
    verified_at: Timestamp | None = Field(description="When the mirror was last compared with the repository.")
    verified_by: Literal["hashes", "sizes", "sample"] | None = Field(
        description="How it was compared: hashes of every file; only sizes, if the remote has no hashes (changed bytes "
        "go unnoticed); or sizes plus the content of a sample of files."
    )
    mirrored_bytes: int | None
    mirrored_files: int | None
    sync_operation_id: int | None = Field(None, description="Sync queued by this request, if any.")


class SyncBody(Closed):
    override_sanity: StrictBool = Field(
        False, description="Mirror the repository even if it looks damaged or much smaller than before."
    )


class HydrateBody(Closed):
    destination: Annotated[str, PlainText(1, 4096)] = Field(
        description="Folder on the service's machine; must be empty or not exist yet."
    )
    confirm: StrictBool = False


class SyncParams(Closed):
    override_sanity: bool = False
    bandwidth: list[tuple[str, int | None]] | None = None
    """Upload limits in KiB/s, each with its starting time (`Mon-22:00`, UTC); None means no limit.

    They come from a schedule's windows.
    """


class HydrateParams(Closed):
    destination: str
