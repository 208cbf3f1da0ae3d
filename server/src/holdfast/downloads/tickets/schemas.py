"""Request and response schemas of download tickets."""

from typing import Literal

from pydantic import Field

from holdfast.access.schemas import AuditFilter
from holdfast.kit.fields import RowId
from holdfast.kit.schema import Closed, Schema
from holdfast.repositories.archived_paths import Paths


class ArchiveDownload(Closed):
    """What to download from an archive."""

    repository_id: RowId
    archive_id: RowId
    paths: Paths = Field([], description="Files, or folders with their contents. Empty: the whole archive.")
    format: Literal["file", "tar", "zip"] = Field(
        "zip", description="`file`: the content of one file. `tar`, `zip`: the paths, relative to their common folder."
    )


class LogDownload(Closed):
    """The log of a finished operation."""

    operation_id: RowId


class AuditDownload(Closed):
    """Audit entries as NDJSON, for admins."""

    audit: AuditFilter


class DownloadLink(Schema):
    url: str = Field(description="Path on this service, for one GET without a credential.")
    expires_in: int = Field(description="Seconds until the ticket expires; the download must start before.")
