"""Routes for the archives of a repository."""

from typing import Annotated, Any

from fastapi import Query, Response
from fastapi.concurrency import run_in_threadpool
from sqlalchemy import select
from sqlalchemy.orm import Session

from holdfast.access import rights
from holdfast.access.caller import Caller, LoginOnly, SignedIn
from holdfast.access.plans import has_feature
from holdfast.access.roles import Role
from holdfast.api.answers import documented
from holdfast.api.dependencies import Reading, TheDatabase, TheSettings
from holdfast.api.prepared import JsonResult
from holdfast.api.router import router
from holdfast.archives import archive_list, heatmap, schemas, status_view
from holdfast.archives.archive_index import ArchiveIndex
from holdfast.archives.route_parameters import NameCursor, TheCadence, TheIndex, TheLiveAnswers
from holdfast.archives.series_view import neighbours
from holdfast.archives.stages import can_be_listed
from holdfast.errors import Unprocessable
from holdfast.kit.fields import Moment, PlainText, RowId
from holdfast.operations.lanes import QueuedReason
from holdfast.repositories import actions, archive_records, errors, protection, store
from holdfast.repositories.archive_records import Archive
from holdfast.repositories.lookup import TheRepositoryLookup
from holdfast.repositories.models import Repository
from holdfast.runner.engine_requests import TheEngineRequest

routes = router("/api/repositories/{repository_id}", "archives")
second_version = router("/api/v2/repositories/{repository_id}", "archives")
deprecated = router("/api/archives", "archives")


@routes.get("/archives", summary="List archives from the index, newest first", responses=documented(404))
def list_archives(
    caller: SignedIn,
    repository_id: RowId,
    session: Reading,
    index: TheIndex,
    series: Annotated[str, PlainText(0, 4096)] | None = None,
    since: Moment | None = None,
    until: Moment | None = None,
    q: Annotated[str, PlainText(1, 1024), Query(description="Part of the name or comment.")] | None = None,
    sort: Annotated[archive_list.SortWord, Query(description="Sort order; `-` reverses it.")] = "-start",
    rules: Annotated[bool, Query(description="Include `keep_rule`, from the repository's retention.")] = False,
    limit: Annotated[int, Query(ge=1, le=1000)] = 200,
    cursor: NameCursor = None,
) -> schemas.ArchiveList:
    """Use a `next_cursor` only with the sort order it was created for."""
    repository = store.require(session, caller, repository_id, Role.VIEWER)
    wanted = archive_list.ArchiveListQuery(series, since, until, q, sort, limit, cursor)
    found, next_cursor, total = archive_list.page(session, repository_id, wanted)
    proven = archive_list.proofs(session, repository_id)
    keeping = (archive_list.rules(session, repository) if rules else None) or {}
    all_series = session.scalars(
        select(Archive.series).where(Archive.repository_id == repository_id).distinct().order_by(Archive.series)
    ).all()
    covered = index.covered(repository)
    return schemas.ArchiveList(
        archives=[
            schemas.ListedArchive(
                **schemas.archive_answer(archive, covered.state(archive)).model_dump(),
                proven_at=proven.get(archive.engine_id),
                keep_rule=keeping.get(archive.id),
            )
            for archive in found
        ],
        series=list(all_series),
        sync_state=index.state.sync_state(session, repository),
        last_synced_at=repository.last_synced,
        unavailable_reason=None if can_be_listed(session, repository) else QueuedReason.AGENT_UNSUPPORTED,
        history_available=index.stages.builds_history(repository.index_mode),
        next_cursor=next_cursor,
        total=total,
    )


LIVE: dict[str, Any] = {"summary": "List archives live from the engine", "responses": documented(404, 423)}


@routes.get("/archives/live", response_model=schemas.LiveList, **LIVE)
@second_version.get("/archives/live", response_model=schemas.LiveList, **LIVE)
async def live_archives(
    caller: SignedIn,
    repository_id: RowId,
    repositories: TheRepositoryLookup,
    live: TheLiveAnswers,
    engine_requests: TheEngineRequest,
) -> JsonResult:
    engine_requests.require_room(caller.user_id)
    repository = await repositories.found(caller, repository_id)
    return await live.archives(engine_requests, caller.user_id, repository)


@deprecated.get("/list", response_model=schemas.LiveList, deprecated=True, **LIVE)
async def old_list(
    caller: SignedIn,
    response: Response,
    database: TheDatabase,
    live: TheLiveAnswers,
    engine_requests: TheEngineRequest,
    repository: Annotated[str, PlainText(1, 4096)] | None = None,
    repository_id: RowId | None = None,
) -> JsonResult:
    """Use `/api/repositories/{id}/archives` instead; the response headers link to it."""

    def registered() -> Repository:
        with database.reading() as session:
            found = _by_id_or_path(session, repository_id, repository)
            if found is None or rights.repository_role(session, caller, found.id) is None:
                raise errors.not_registered(repository or "")
            return found

    engine_requests.require_room(caller.user_id)
    found = await run_in_threadpool(registered)
    response.headers["Deprecation"] = "true"
    response.headers["Link"] = f'</api/repositories/{found.id}/archives>; rel="successor-version"'
    return await live.archives(engine_requests, caller.user_id, found)


@routes.get("/archives/heatmap", summary="Archives per day", responses=documented(404))
def read_heatmap(
    caller: SignedIn,
    repository_id: RowId,
    session: Reading,
    settings: TheSettings,
    cadence: TheCadence,
    since: Moment | None = None,
    until: Moment | None = None,
    tz: Annotated[str, PlainText(1, 64)] = "UTC",
) -> schemas.Heatmap:
    """Counts and sizes per day, for the repository and each series. Days are reported as missed only with evidence."""
    repository = store.require(session, caller, repository_id, Role.VIEWER)
    outliers = has_feature(settings, "heatmap_outliers")
    return heatmap.heatmap(session, repository, since, until, tz, outliers=outliers, cadence=cadence)


@routes.get("/archives/{archive_id}", summary="One archive", responses=documented(404))
def read_archive(
    caller: SignedIn, repository_id: RowId, archive_id: RowId, session: Reading, index: TheIndex
) -> schemas.ArchiveDetail:
    return _detail(session, caller, repository_id, archive_id, index)


@routes.put("/archives/{archive_id}", summary="Protect or unprotect an archive", responses=documented(404, 409))
def change_archive(
    caller: LoginOnly,
    repository_id: RowId,
    archive_id: RowId,
    wanted: schemas.ArchiveUpdate,
    database: TheDatabase,
    index: TheIndex,
) -> schemas.ArchiveDetail:
    """Prunes, deletions and wipes by the service never remove a protected archive.

    Refused with `archives.being_removed` while archives of the repository are being removed.
    """
    protection.change(database, caller, repository_id, archive_id, protected=wanted.protected)
    with database.reading() as session:
        return _detail(session, caller, repository_id, archive_id, index)


def _detail(
    session: Session, caller: Caller, repository_id: int, archive_id: int, index: ArchiveIndex
) -> schemas.ArchiveDetail:
    repository = store.require(session, caller, repository_id, Role.VIEWER)
    archive = archive_records.of_repository(session, repository_id, archive_id)
    before, after = neighbours(session, archive)
    allowed = actions.on_archive(session, caller, repository, archive)
    return schemas.ArchiveDetail(
        **schemas.archive_answer(archive, index.covered(repository).state(archive)).model_dump(),
        history_error=archive.history_error,
        history_error_key=archive.history_error_key,
        predecessor_id=before.id if before else None,
        successor_id=after.id if after else None,
        predecessor_stats=_stats(before) if before else None,
        actions=allowed.actions,
        refusals=allowed.refusals,
    )


@routes.get("/status", summary="Get the index state and check results", responses=documented(404))
def read_status(
    caller: SignedIn, repository_id: RowId, session: Reading, settings: TheSettings, cadence: TheCadence
) -> schemas.StatusAnswer:
    repository = store.require(session, caller, repository_id, Role.VIEWER)
    return status_view.status(session, repository, overdue=has_feature(settings, "overdue_flags"), cadence=cadence)


def _by_id_or_path(session: Session, repository_id: int | None, path: str | None) -> Repository | None:
    if repository_id is not None:
        return store.get(session, repository_id)
    if path is not None:
        return store.by_path(session, path)
    raise Unprocessable("archives.which_repository", "Specify repository or repository_id.")


def _stats(archive: Archive) -> schemas.ArchiveStats:
    return schemas.ArchiveStats.from_row(archive)
