"""Packages and their install jobs as clients see them."""

from typing import Annotated, Any

from pydantic import AfterValidator, Field

from holdfast.kit.fields import PlainText, Timestamp
from holdfast.kit.schema import Closed, Schema

Name = Annotated[str, PlainText(1, 200), AfterValidator(str.strip), Field(min_length=1)]
Argument = Annotated[str, PlainText(0, 4096)]
Description = Annotated[str, PlainText(0, 4000)]


def _with_program(command: list[str]) -> list[str]:
    if not command[0].strip():
        raise ValueError("the first argument is the program")
    return command


InstallCommand = Annotated[list[Argument], Field(min_length=1, max_length=200), AfterValidator(_with_program)]


class NewPackage(Closed):
    name: Name
    install_command: InstallCommand = Field(description="Program and arguments, run as is, without a shell.")
    description: Description | None = None


class PackageChange(Closed):
    """Omitted fields stay unchanged."""

    name: Name | None = None
    install_command: InstallCommand | None = None
    description: Description | None = None


class InstallParams(Closed):
    package_id: int
    install_command: list[str]


class PackageAnswer(Schema):
    id: int
    name: str
    install_command: list[str]
    description: str | None
    status: str = Field(description="not_installed, pending, installing, installed or failed.")
    installed_at: Timestamp | None
    created_at: Timestamp
    updated_at: Timestamp


class PackageList(Schema):
    packages: list[PackageAnswer]


class PackageJob(Schema):
    id: int
    package_id: int
    package_name: str | None
    status: str = Field(description="Job status, except that a running job shows `installing`.")
    install_command: list[str]
    started_at: Timestamp | None
    completed_at: Timestamp | None
    created_at: Timestamp
    exit_code: int | None
    stdout: str | None = Field(description="Output from the log; null in lists.")
    stderr: str | None
    stdout_complete: bool | None = Field(description="False if only the end of the output is included here.")
    stderr_complete: bool | None
    error_message: str | None
    error_key: str | None
    has_logs: bool
    triggered_by: str | None
    cancel_requested: bool
    queued_reason: str | None
    queued_behind_id: int | None
    params: dict[str, Any]


class PackageJobs(Schema):
    jobs: list[PackageJob]
    next_cursor: str | None
