"""HTTP for downloads out of an archive."""

from collections.abc import Sequence
from threading import Event
from typing import Annotated, Any

from fastapi import Depends, Query, Request
from starlette.responses import Response

from backup_jobs import paths as job_paths
from holdfast.access.caller import Caller, SignedIn
from holdfast.access.roles import Role
from holdfast.api.answers import documented
from holdfast.api.dependencies import TheDatabase
from holdfast.api.router import router
from holdfast.errors import Unprocessable
from holdfast.kit.fields import PlainText, RowId
from holdfast.kit.frozen import frozen
from holdfast.repositories import archive_records
from holdfast.repositories import store as repositories
from holdfast.repositories.archive_records import Archive
from holdfast.repositories.models import Repository
from holdfast.repositories.own_places import Sealed, ServicePlaces, ThePlaces
from holdfast.restore import archived_paths, errors
from holdfast.restore.download.opening import DOWNLOADS, Downloads, Format, Opened
from holdfast.restore.download.response import DOWNLOAD_RULES, Download, DownloadRules, file_answer
from holdfast.storage.session import Database

routes = router("/api/repositories/{repository_id}/archives/{archive_id}", "restore")

PathText = Annotated[str, PlainText(0, 4096)]
ExactText = Annotated[str, PlainText(0, 8192)]


async def wanted_path(
    path: Annotated[PathText | None, Query(description="Path inside the archive.")] = None,
    path_b64: Annotated[
        ExactText | None, Query(description="The same in base64, for names that are not valid UTF-8.")
    ] = None,
) -> bytes:
    """The bytes of the path; empty for the whole archive. Raise Unprocessable unless it is given in one form."""
    if path is not None and path_b64 is not None:
        raise Unprocessable("restore.path_unclear", "Give either path or path_b64.")
    value: job_paths.Json = path or "" if path_b64 is None else {"path_b64": path_b64}
    wanted = archived_paths.inside_archive([value])
    return wanted[0] if wanted else b""


async def the_download_rules(request: Request, caller: SignedIn) -> DownloadRules:
    """Refuses downloads above the limit before the archive is looked up."""
    rules = DOWNLOAD_RULES.of(request.app)
    rules.turns.require_one(caller.user_id)
    return rules


TheDownloads = Annotated[Downloads, Depends(DOWNLOADS)]
TheDownloadRules = Annotated[DownloadRules, Depends(the_download_rules)]
WantedPath = Annotated[bytes, Depends(wanted_path)]


@frozen
class Choice:
    """What a caller wants of an archive."""

    caller: Caller
    repository_id: int
    archive_id: int
    path: bytes
    database: Database
    downloads: Downloads
    places: ServicePlaces

    def found(self) -> tuple[Repository, Archive, Sealed]:
        """Raise NotFound, or Forbidden if the caller may not read the path."""
        return found(self.database, self.caller, self.repository_id, self.archive_id, (self.path,), self.places)

    def found_file(self) -> tuple[Repository, Archive, Sealed]:
        """As `found`. Raise Unprocessable without a path."""
        if not self.path:
            raise errors.not_a_file()
        return self.found()


async def the_choice(
    caller: SignedIn,
    repository_id: RowId,
    archive_id: RowId,
    path: WantedPath,
    database: TheDatabase,
    downloads: TheDownloads,
    places: ThePlaces,
) -> Choice:
    return Choice(caller, repository_id, archive_id, path, database, downloads, places)


Chosen = Annotated[Choice, Depends(the_choice)]


def binary(*media_types: str) -> dict[int | str, dict[str, Any]]:
    content = {media_type: {"schema": {"type": "string", "format": "binary"}} for media_type in media_types}
    return {**documented(404, 423, 429), 200: {"content": content, "description": "The content."}}


PARTS: dict[int | str, dict[str, Any]] = {
    206: {"description": "The part that `Range` asks for."},
    304: {"description": "The client has it already: its `If-None-Match` names the `ETag`."},
    416: {"description": "The file has none of the bytes that `Range` asks for."},
}


@routes.get(
    "/files",
    summary="Download one file, or a part of it",
    response_class=Response,
    responses={**binary("application/octet-stream"), **PARTS},
)
@routes.head(
    "/files",
    summary="Size and ETag of a file",
    response_class=Response,
    responses={**binary("application/octet-stream"), **PARTS},
)
def download_file(request: Request, chosen: Chosen, rules: TheDownloadRules) -> Response:
    """`Range`, `If-Range` and `If-None-Match` count where the answer has `Accept-Ranges: bytes`: archives of a repository on
    the service's machine whose index knows the chunks of files. Elsewhere the whole file is sent.

    A connection that breaks off means that the content is not complete.
    """
    return file_answer(chosen.downloads, rules, chosen.caller, chosen.found_file(), chosen.path, request)


@routes.get(
    "/download",
    summary="Download a folder, or the whole archive, as tar or zip",
    response_class=Response,
    responses=binary("application/x-tar", "application/zip"),
)
def download_folder(
    chosen: Chosen, rules: TheDownloadRules, form: Annotated[Format, Query(alias="format")] = "tar"
) -> Response:
    """Created while it is sent. If the connection breaks off, the content is not complete."""
    repository, archive, sealed = chosen.found()
    paths = (chosen.path,) if chosen.path else ()

    def begin(gone: Event) -> Opened:
        return chosen.downloads.folder(repository, archive, paths, form, gone, sealed)

    return Download(begin, rules, chosen.caller.user_id)


def found(
    database: Database,
    caller: Caller,
    repository_id: int,
    archive_id: int,
    paths: Sequence[bytes],
    places: ServicePlaces,
) -> tuple[Repository, Archive, Sealed]:
    """Raise NotFound, or Forbidden if the caller may not read one of the paths."""
    with database.reading() as session:
        repository = repositories.require(session, caller, repository_id, Role.VIEWER)
        archive = archive_records.require_present(archive_records.of_repository(session, repository.id, archive_id))
        sealed = places.sealed(session, caller, repository)
    sealed.require(paths)
    return repository, archive, sealed
