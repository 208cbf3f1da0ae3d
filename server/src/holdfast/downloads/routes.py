"""Routes for downloads from an archive."""

from threading import Event
from typing import Annotated, Any

from fastapi import Depends, Query, Request
from starlette.responses import Response

from backup_engine.frozen import frozen
from backup_jobs import paths as job_paths
from holdfast.access.caller import Caller, SignedIn
from holdfast.api.answers import documented
from holdfast.api.router import router
from holdfast.downloads import errors
from holdfast.downloads.lookup import ArchiveLookup, FoundArchive, TheLookup
from holdfast.downloads.opening import DOWNLOADS, Downloads, Format, Opened
from holdfast.downloads.response import DOWNLOAD_RULES, Download, DownloadRules, WantedFile
from holdfast.errors import Unprocessable
from holdfast.kit.fields import PlainText, RowId
from holdfast.repositories import archived_paths

routes = router("/api/repositories/{repository_id}/archives/{archive_id}", "restore")

PathText = Annotated[str, PlainText(0, 4096)]
ExactText = Annotated[str, PlainText(0, 8192)]


async def wanted_path(
    path: Annotated[PathText | None, Query(description="Path inside the archive.")] = None,
    path_b64: Annotated[
        ExactText | None, Query(description="The same path in base64, for names that are not valid UTF-8.")
    ] = None,
) -> bytes:
    """The bytes of the path; empty for the whole archive. Raise Unprocessable if both forms are given."""
    if path is not None and path_b64 is not None:
        raise Unprocessable("restore.path_unclear", "Specify either path or path_b64.")
    value: job_paths.Json = path or "" if path_b64 is None else {"path_b64": path_b64}
    wanted = archived_paths.inside_archive([value])
    return wanted[0] if wanted else b""


async def the_download_rules(request: Request, caller: SignedIn) -> DownloadRules:
    """Refuse downloads above the limit before the archive is looked up."""
    rules = DOWNLOAD_RULES.of(request.app)
    rules.limits.require_one(caller.user_id)
    return rules


TheDownloads = Annotated[Downloads, Depends(DOWNLOADS)]
TheDownloadRules = Annotated[DownloadRules, Depends(the_download_rules)]
WantedPath = Annotated[bytes, Depends(wanted_path)]


@frozen
class Choice:
    """The part of an archive that a caller has requested."""

    caller: Caller
    repository_id: int
    archive_id: int
    path: bytes
    downloads: Downloads
    lookup: ArchiveLookup

    def found(self) -> FoundArchive:
        """Look up the archive. Raise NotFound, or Forbidden if the caller may not read the path."""
        return self.lookup.found(self.caller, self.repository_id, self.archive_id, (self.path,))

    def found_file(self) -> FoundArchive:
        """Like `found`, but raise Unprocessable without a path."""
        if not self.path:
            raise errors.not_a_file()
        return self.found()


async def the_choice(
    caller: SignedIn,
    repository_id: RowId,
    archive_id: RowId,
    path: WantedPath,
    downloads: TheDownloads,
    lookup: TheLookup,
) -> Choice:
    return Choice(caller, repository_id, archive_id, path, downloads, lookup)


Chosen = Annotated[Choice, Depends(the_choice)]


def binary(*media_types: str) -> dict[int | str, dict[str, Any]]:
    content = {media_type: {"schema": {"type": "string", "format": "binary"}} for media_type in media_types}
    return {**documented(404, 423, 429), 200: {"content": content, "description": "The content."}}


PARTS: dict[int | str, dict[str, Any]] = {
    206: {"description": "The requested `Range`."},
    304: {"description": "Not modified: `If-None-Match` matches the `ETag`."},
    416: {"description": "The requested `Range` lies outside the file."},
}


@routes.get(
    "/files",
    summary="Download a file, or a range of it",
    response_class=Response,
    responses={**binary("application/octet-stream"), **PARTS},
)
@routes.head(
    "/files",
    summary="Get the size and ETag of a file",
    response_class=Response,
    responses={**binary("application/octet-stream"), **PARTS},
)
async def download_file(request: Request, chosen: Chosen, rules: TheDownloadRules) -> Response:
    """`Range` and `If-Range` are honoured if the response has `Accept-Ranges: bytes`: for archives of repositories on
    the service's machine whose index contains the chunks of files. Otherwise the whole file is sent. `If-None-Match` is
    honoured for every file with an `ETag`.

    If the connection breaks off, the content is incomplete.
    """
    wanted = WantedFile(chosen.downloads, rules, chosen.caller.user_id, chosen.found_file, chosen.path, request)
    return await wanted.answer()


@routes.get(
    "/download",
    summary="Download a folder or the whole archive as tar or zip",
    response_class=Response,
    responses=binary("application/x-tar", "application/zip"),
)
def download_folder(
    chosen: Chosen, rules: TheDownloadRules, form: Annotated[Format, Query(alias="format")] = "tar"
) -> Response:
    """The file is created while it is sent. If the connection breaks off, its content is incomplete."""
    repository, archive, hidden = chosen.found()
    paths = (chosen.path,) if chosen.path else ()

    def begin(gone: Event) -> Opened:
        return chosen.downloads.folder(repository, archive, paths, form, gone, hidden)

    return Download(begin, rules, chosen.caller.user_id)
