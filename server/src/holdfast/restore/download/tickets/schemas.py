"""Download tickets as clients see them."""

from typing import Literal

from pydantic import ConfigDict, Field

from holdfast.access.schemas import AuditFilter
from holdfast.kit.fields import RowId
from holdfast.kit.schema import Schema
from holdfast.restore.schemas import Paths


class ArchiveDownload(Schema):
    """What to download out of an archive."""

    model_config = ConfigDict(extra="forbid")

    repository_id: RowId
    archive_id: RowId
    paths: Paths = Field([], description="Files, or folders with their contents. Empty: the whole archive.")
    format: Literal["file", "tar", "zip"] = Field(
        "zip", description="`file`: the content of one file. `tar`, `zip`: the paths, below the folder that all are in."
    )


class LogDownload(Schema):
    """The log of a finished operation."""

    model_config = ConfigDict(extra="forbid")

    operation_id: RowId


class AuditDownload(Schema):
    """The audit trail as NDJSON, for admins."""

    model_config = ConfigDict(extra="forbid")

    audit: AuditFilter


class DownloadLink(Schema):
    url: str = Field(description="Path on this service. GET it once, without a credential.")
    expires_in: int = Field(description="Seconds within which the download must be started.")
