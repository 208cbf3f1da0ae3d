"""Handles requests below `/dav`. An account token identifies the caller, who sees only what their rights allow."""

import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from backup_jobs.paths import readable
from holdfast.access import audit
from holdfast.access.basic_auth import signed_in_by_basic
from holdfast.access.caller import Caller
from holdfast.api.errors import error_answer
from holdfast.api.threads import in_thread
from holdfast.archives.archive_index import ArchiveIndex
from holdfast.dav import places, properties
from holdfast.dav.files import Files
from holdfast.dav.places import Place, Places
from holdfast.dav.properties import Resource
from holdfast.downloads.lookup import ArchiveLookup
from holdfast.downloads.opening import Downloads
from holdfast.downloads.response import Download, DownloadRules, WantedFile
from holdfast.errors import Forbidden, HoldfastError, TooLarge, Unauthenticated
from holdfast.repositories.archive_records import Archive
from holdfast.repositories.own_places import NOTHING_HIDDEN, HiddenPaths
from holdfast.runner.engine_requests import EngineRequests
from holdfast.storage.session import Database

METHODS = "OPTIONS, GET, HEAD, PROPFIND"
REALM = 'Basic realm="Holdfast: your user name, and an account token as the password", charset="UTF-8"'
FINITE = '<?xml version="1.0" encoding="utf-8"?>\n<D:error xmlns:D="DAV:"><D:propfind-finite-depth/></D:error>\n'
LARGEST_BODY = 64 * 1024
TRAIL_SECONDS = 3600.0
MOST_NOTED = 10_000


@dataclass(eq=False, slots=True)
class Dav:
    """Lists folders from the index alone; the engine runs only to read files.

    Opening a large folder takes long, so it counts towards the limits of requests that need the engine, per user and
    overall.
    """

    database: Database
    index: ArchiveIndex
    places: Places
    lookup: ArchiveLookup
    downloads: Downloads
    rules: DownloadRules
    requests: EngineRequests
    _noted: dict[tuple[int, int], float] = field(default_factory=dict)
    """When a user's read access to an archive was last audited."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive, send)
        try:
            answer = await self._answer(request)
        except Unauthenticated as error:
            answer = error_answer(error)
            answer.headers["WWW-Authenticate"] = REALM
        except HoldfastError as error:
            answer = error_answer(error)
        try:
            await answer(scope, receive, send)
        except HoldfastError as error:
            if not isinstance(answer, Download):
                raise
            await error_answer(error)(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        if request.method == "OPTIONS":
            return Response(headers={"DAV": "1", "Allow": METHODS, "MS-Author-Via": "DAV"})
        caller = await signed_in_by_basic(request)
        if request.method == "PROPFIND":
            return await self._propfind(request, caller)
        if request.method in ("GET", "HEAD"):
            return await self._get(request, caller)
        return Response(status_code=405, headers={"Allow": METHODS})

    # --- finding ----------------------------------------------------------------------------------------------------

    def _found(self, caller: Caller, raw_path: bytes) -> tuple[Place, HiddenPaths]:
        place = self.places.find(caller, places.segments_of(raw_path))
        repository = place.repository
        return place, NOTHING_HIDDEN if repository is None else self.lookup.hidden_paths(caller, repository)

    def _files(self, place: Place, hidden: HiddenPaths) -> Files | None:
        """The files of an archive; None for the levels above archives."""
        if place.repository is None or place.archive is None:
            return None
        return Files(self.index, place.repository, place.archive, place.segments[:2], hidden)

    def _resource(self, place: Place, files: Files | None) -> Resource:
        """The resource at a place. Raise NotFound."""
        if files is not None and place.path:
            return files.resource(place.path)
        name = readable(place.segments[-1]) if place.segments else "Holdfast"
        return Resource(
            f"{places.address(place.segments)}/", name, modified=place.archive.start if place.archive else None
        )

    # --- PROPFIND ---------------------------------------------------------------------------------------------------

    async def _propfind(self, request: Request, caller: Caller) -> Response:
        depth = request.headers.get("Depth", "infinity")
        if depth not in ("0", "1"):
            return Response(FINITE, status_code=403, media_type="application/xml")
        wanted, only_names = properties.wanted_of(await _body(request))
        raw_path: bytes = request.scope["raw_path"]

        def begin() -> tuple[list[Resource], Iterator[list[Resource]], list[Resource] | None]:
            place, hidden = self._found(caller, raw_path)
            files = self._files(place, hidden)
            itself = self._resource(place, files)
            is_listed = depth == "1" and itself.size is None
            pages = self._below(caller, place, files) if is_listed else iter(())
            first = next(pages, [])  # a missing folder is reported before the response begins
            return [itself, *first], pages, next(pages, None)

        first, pages, second = await self.requests.run(request, caller.user_id, begin)

        def shown_resource(resource: Resource) -> str:
            return properties.response(resource, wanted, only_names=only_names)

        beginning = properties.PROLOGUE + "".join(map(shown_resource, first))
        if second is None:
            return Response(beginning + properties.EPILOGUE, status_code=207, media_type="application/xml")

        async def parts() -> AsyncIterator[str]:
            yield beginning
            page: list[Resource] | None = second
            while page is not None:
                yield "".join(map(shown_resource, page))
                page = await in_thread("reading", lambda: next(pages, None))
            yield properties.EPILOGUE

        return StreamingResponse(parts(), status_code=207, media_type="application/xml")

    def _below(self, caller: Caller, place: Place, files: Files | None) -> Iterator[list[Resource]]:
        if files is not None:
            yield from files.below(place.path)
            return
        if place.repository is None:
            known = {name: one.created_at for name, one in self.places.repositories(caller).items()}
        else:
            known = {name: one.start for name, one in self.places.archives(place.repository).items()}
            known = {places.LATEST: max(known.values()), **known} if known else {}
        yield [
            Resource(f"{places.address((*place.segments, places.encoded(name)))}/", name, modified=moment)
            for name, moment in known.items()
        ]

    # --- GET --------------------------------------------------------------------------------------------------------

    async def _get(self, request: Request, caller: Caller) -> Response:
        raw_path: bytes = request.scope["raw_path"]

        def look() -> tuple[Archive, Response]:
            place, hidden = self._found(caller, raw_path)
            repository, archive = place.repository, place.archive
            resource = self._resource(place, self._files(place, hidden))
            if resource.size is None or repository is None or archive is None:
                raise Forbidden(
                    "dav.is_a_folder", "This is a folder. Open it with a WebDAV client, or request a file in it."
                )
            allowed = repository, archive, hidden
            wanted = WantedFile(self.downloads, self.rules, caller.user_id, lambda: allowed, place.path, request)
            return archive, wanted.looked_up()

        archive, answer = await self.requests.run(request, caller.user_id, look)
        if isinstance(answer, Download):
            self.rules.limits.require_one(caller.user_id)
            if self._is_new(caller, archive):
                await in_thread("writing", lambda: self._leave_trail(caller, archive))
        return answer

    def _is_new(self, caller: Caller, archive: Archive) -> bool:
        """Whether to audit that the caller reads from the archive: at most once an hour, not for every file."""
        now, key = time.monotonic(), (caller.user_id, archive.id)
        if key in self._noted and now - self._noted[key] < TRAIL_SECONDS:
            return False
        if len(self._noted) >= MOST_NOTED:
            self._noted.clear()
        self._noted[key] = now
        return True

    def _leave_trail(self, caller: Caller, archive: Archive) -> None:
        details = {"archive": archive.name, "repository_id": archive.repository_id}
        with self.database.writing() as session:
            audit.note(session, caller, "archive.read_by_webdav", "archive", archive.id, details)


async def _body(request: Request) -> bytes:
    body = b""
    async for block in request.stream():
        body += block
        if len(body) > LARGEST_BODY:
            raise TooLarge("dav.bad_request", "A PROPFIND request has at most 64 KiB.")
    return body
