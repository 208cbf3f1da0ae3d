"""Routes for download tickets: a browser saves a file by opening a URL, which cannot carry a credential."""

from collections.abc import Mapping
from functools import partial
from threading import Event
from typing import Annotated, Any

from fastapi import Body, Depends, Path, Request
from starlette.responses import Response

from backup_engine.frozen import frozen
from holdfast.access import audit
from holdfast.access.caller import (
    Caller,
    SignedInToRead,
    address_of,
    guard,
    require_admin,
    still_valid,
    with_final_password,
)
from holdfast.access.roles import Role
from holdfast.access.routes.audit import conditions_of, exported
from holdfast.api.answers import documented
from holdfast.api.authenticated_connections import mark_authenticated
from holdfast.api.dependencies import TheDatabase, TheSettings
from holdfast.api.router import router
from holdfast.api.threads import in_thread
from holdfast.downloads import errors
from holdfast.downloads.lookup import ArchiveLookup, TheLookup
from holdfast.downloads.opening import Downloads, Opened
from holdfast.downloads.response import DOWNLOAD_RULES, Download, DownloadRules, WantedFile
from holdfast.downloads.routes import TheDownloads, binary
from holdfast.downloads.tickets import store
from holdfast.downloads.tickets.schemas import ArchiveDownload, AuditDownload, DownloadLink, LogDownload
from holdfast.errors import Unauthenticated, Unprocessable
from holdfast.kit import clock
from holdfast.kit.fields import PlainText
from holdfast.operations.log_answers import log_download
from holdfast.operations.visible_operations import require as require_operation
from holdfast.repositories import archived_paths
from holdfast.settings import Settings
from holdfast.storage.session import Database

routes = router("/api/downloads", "restore")

MOST_PATH_BYTES = 100_000
"""Limit for all paths of a download together: they become arguments of one engine command."""


Downloaded = ArchiveDownload | LogDownload | AuditDownload


@frozen
class Holder:
    """The user of a ticket, with their current rights, and the requested download."""

    caller: Caller
    ticket_id: int
    wanted: Downloaded


@guard
async def ticket_holder(
    request: Request,
    database: TheDatabase,
    settings: TheSettings,
    ticket: Annotated[str, PlainText(1, 100), Path(description="From `POST /api/downloads`.")],
) -> Holder:
    holder = await in_thread("reading", partial(_holder, database, settings, ticket, address_of(request)))
    request.state.caller = holder.caller
    mark_authenticated(request.scope)
    return holder


async def the_rules_of_holder(request: Request, holder: Annotated[Holder, Depends(ticket_holder)]) -> DownloadRules:
    """Refuse downloads above the limit before the ticket is used up."""
    rules = DOWNLOAD_RULES.of(request.app)
    rules.limits.require_one(holder.caller.user_id)
    return rules


@routes.post("", summary="Create a download ticket for browsers", responses=documented(404, 409, 429))
def make_ticket(
    caller: SignedInToRead,
    wanted: Annotated[Downloaded, Body()],
    database: TheDatabase,
    settings: TheSettings,
    lookup: TheLookup,
) -> DownloadLink:
    """The URL works once, for a minute, and only while the credential that requested it is valid.

    The rights and limits of `…/files` and `…/download` apply, and are checked again when the URL is used.
    """
    details = _checked(database, settings, lookup, caller, wanted)
    with database.writing() as session:
        token = store.add(session, caller, wanted.model_dump(mode="json"), clock.now())
        audit.record(session, actor=caller, action="downloads.ticket", **details)
    return DownloadLink(url=f"/api/downloads/{token}", expires_in=store.SECONDS)


@routes.get(
    "/{ticket}",
    summary="Download with a ticket",
    response_class=Response,
    responses={
        **documented(409),
        **binary("application/octet-stream", "application/x-tar", "application/zip", "application/x-ndjson"),
    },
)
def use_ticket(
    holder: Annotated[Holder, Depends(ticket_holder)],
    database: TheDatabase,
    settings: TheSettings,
    downloads: TheDownloads,
    lookup: TheLookup,
    rules: Annotated[DownloadRules, Depends(the_rules_of_holder)],
) -> Response:
    """The file is created while it is sent. If the connection breaks off, its content is incomplete."""
    answer = _answer(database, settings, lookup, downloads, rules, holder)
    with database.writing() as session:
        if not store.use(session, holder.ticket_id):
            raise _bad_ticket()
    return answer


def _answer(
    database: Database,
    settings: Settings,
    lookup: ArchiveLookup,
    downloads: Downloads,
    rules: DownloadRules,
    holder: Holder,
) -> Response:
    wanted = holder.wanted
    if isinstance(wanted, LogDownload):
        return _log(database, settings, holder.caller, wanted)
    if isinstance(wanted, AuditDownload):
        require_admin(holder.caller)
        return exported(database, conditions_of(wanted.audit))
    paths, form = _paths(wanted), wanted.format
    allowed = lookup.found(holder.caller, wanted.repository_id, wanted.archive_id, paths)
    if form == "file":
        return WantedFile(downloads, rules, holder.caller.user_id, lambda: allowed, paths[0]).looked_up()
    repository, archive, hidden = allowed

    def begin(gone: Event) -> Opened:
        return downloads.folder(repository, archive, paths, form, gone, hidden)

    return Download(begin, rules, holder.caller.user_id)


def _log(database: Database, settings: Settings, caller: Caller, wanted: LogDownload) -> Response:
    with database.reading() as session:
        operation = require_operation(session, caller, wanted.operation_id, Role.VIEWER)
        return log_download(settings.logs_dir, operation)


def _checked(
    database: Database, settings: Settings, lookup: ArchiveLookup, caller: Caller, wanted: Downloaded
) -> dict[str, Any]:
    """Check that the caller may have the download, and return its audit entry. Raise what the download itself would
    raise.
    """
    if isinstance(wanted, LogDownload):
        _log(database, settings, caller, wanted)
        return {"object_type": "operation", "object_id": wanted.operation_id}
    if isinstance(wanted, AuditDownload):
        require_admin(caller)
        return {"object_type": "audit", "details": wanted.audit.model_dump(mode="json", exclude_none=True)}
    paths = _paths(wanted)
    lookup.found(caller, wanted.repository_id, wanted.archive_id, paths)
    details = {"archive_id": wanted.archive_id, "paths": len(paths), "format": wanted.format}
    return {"object_type": "repository", "object_id": wanted.repository_id, "details": details}


def _paths(wanted: ArchiveDownload) -> list[bytes]:
    """The requested paths. Raise Unprocessable if they cannot be downloaded together."""
    given = [path if isinstance(path, str) else path.model_dump() for path in wanted.paths]
    paths = archived_paths.outermost(archived_paths.inside_archive(given))
    if wanted.format == "file" and len(paths) != 1:
        raise errors.not_a_file()
    if sum(map(len, paths)) > MOST_PATH_BYTES:
        raise Unprocessable(
            "downloads.paths_too_long", "These paths are too long for one download. Choose folders instead of files."
        )
    return paths


def _holder(database: Database, settings: Settings, token: str, address: str | None) -> Holder:
    with database.reading() as session:
        ticket = store.find(session, token, clock.now())
        if ticket is None:
            raise _bad_ticket()
        claimed = Caller(
            user_id=ticket.user_id,
            username="",
            role=Role.VIEWER,
            all_repositories_role=None,
            session_id=ticket.session_id,
            account_token_id=ticket.account_token_id,
            must_change_password=False,
            address=address,
        )
        caller = still_valid(session, settings, claimed)
        if caller is None:
            raise _bad_ticket()
        return Holder(with_final_password(caller), ticket.id, _kind(ticket.wanted).model_validate(ticket.wanted))


def _kind(stored: Mapping[str, Any]) -> type[ArchiveDownload | LogDownload | AuditDownload]:
    if "audit" in stored:
        return AuditDownload
    return LogDownload if "operation_id" in stored else ArchiveDownload


def _bad_ticket() -> Unauthenticated:
    return Unauthenticated("downloads.bad_ticket", "The ticket is not valid, has expired or has already been used.")
