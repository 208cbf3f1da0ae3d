"""HTTP for the archive index."""

from dataclasses import dataclass
from functools import partial
from typing import Annotated, Literal

from fastapi import Depends, Query, Response
from sqlalchemy import select
from sqlalchemy.orm import Session
from starlette.concurrency import run_in_threadpool

from backup_protocol import JobKind
from holdfast.access import audit, rights
from holdfast.access.caller import Caller, LoginOnly, SignedIn, SignedInToRead
from holdfast.access.plans import NeedsArchiveHistory, has_feature, require_feature
from holdfast.access.roles import Role
from holdfast.api.answers import documented
from holdfast.api.dependencies import Reading, TheDatabase, TheSettings, Writing
from holdfast.api.filters import Many, many
from holdfast.api.router import router
from holdfast.archives import (
    archive_list,
    browse_view,
    changes_view,
    heatmap,
    history_stage,
    lanes_view,
    losses_view,
    path_view,
    paths,
    status_view,
)
from holdfast.archives.archive_index import ARCHIVE_INDEX, ArchiveIndex
from holdfast.archives.history.answers import NO_FACTS, BrowsePage
from holdfast.archives.lanes_schemas import Lanes
from holdfast.archives.live import LIVE_ANSWERS, LiveAnswers
from holdfast.archives.losses_schemas import Losses, LossesRequest
from holdfast.archives.schemas import (
    ArchiveDetail,
    ArchiveList,
    ArchiveStats,
    ArchiveUpdate,
    BrowseAnswer,
    Changes,
    Heatmap,
    ListedArchive,
    LiveList,
    PathHistoryAnswer,
    RebuildFrom,
    SearchAnswer,
    StagesQueued,
    StatusAnswer,
    archive_answer,
)
from holdfast.archives.series_view import neighbours
from holdfast.archives.stages import REBUILD, RESYNC, Stage, can_be_listed
from holdfast.errors import NotFound, Unprocessable
from holdfast.kit.fields import Moment, PlainText, RowId
from holdfast.operations.lanes import QueuedReason
from holdfast.operations.queue import Origin, require_room
from holdfast.operations.routes import Cursor
from holdfast.operations.status import Trigger
from holdfast.repositories import actions, archive_records, errors, protection, store
from holdfast.repositories.archive_records import Archive
from holdfast.repositories.cadence import CADENCE, Cadence
from holdfast.repositories.models import Repository
from holdfast.repositories.own_places import Sealed, ServicePlaces, ThePlaces
from holdfast.runner.engine_requests import TheEngineRequests, asks_engine

routes = router("/api/repositories/{repository_id}", "archives")
second_version = router("/api/v2/repositories/{repository_id}", "archives")
deprecated = router("/api/archives", "archives")

PathQuery = Annotated[Annotated[str, PlainText(0, 16384)] | None, Query(description="Readable path.")]
ExactPath = Annotated[Annotated[str, PlainText(0, 90000)] | None, Query(description="Base64 of the path's bytes.")]
Prefix = Annotated[Annotated[str, PlainText(0, 16384)] | None, Query()]
ChangeWord = Literal["added", "removed", "modified"]


TheCadence = Annotated[Cadence, Depends(CADENCE)]
TheIndex = Annotated[ArchiveIndex, Depends(ARCHIVE_INDEX)]
TheLiveAnswers = Annotated[LiveAnswers, Depends(LIVE_ANSWERS)]


@dataclass(frozen=True, slots=True)
class Look:
    """A caller's look into the file history."""

    caller: Caller
    session: Session
    index: ArchiveIndex
    places: ServicePlaces

    def into(self, repository_id: int) -> tuple[Repository, Sealed]:
        """The repository, and which of its paths the caller may not see. Raise NotFound."""
        repository = store.require(self.session, self.caller, repository_id, Role.VIEWER)
        return repository, self.places.sealed(self.session, self.caller, repository)


def look(caller: SignedIn, _plan: NeedsArchiveHistory, session: Reading, index: TheIndex, places: ThePlaces) -> Look:
    return Look(caller, session, index, places)


Looking = Annotated[Look, Depends(look)]


@routes.get("/archives", summary="Archives from the index, newest first", responses=documented(404))
def list_archives(
    caller: SignedIn,
    repository_id: RowId,
    session: Reading,
    index: TheIndex,
    series: Annotated[str, PlainText(0, 4096)] | None = None,
    since: Moment | None = None,
    until: Moment | None = None,
    q: Annotated[str, PlainText(1, 1024), Query(description="A part of the name or comment.")] | None = None,
    sort: Annotated[archive_list.SortWord, Query(description="Order of the archives; `-` reverses it.")] = "-start",
    rules: Annotated[bool, Query(description="Fill `keep_rule`, by the repository's retention.")] = False,
    limit: Annotated[int, Query(ge=1, le=1000)] = 200,
    cursor: Cursor = None,
) -> ArchiveList:
    """A `next_cursor` continues in the order it was made for."""
    repository = store.require(session, caller, repository_id, Role.VIEWER)
    wanted = archive_list.Wanted(series, since, until, q, sort, limit, cursor)
    found, next_cursor, total = archive_list.page(session, repository_id, wanted)
    proven = archive_list.proofs(session, repository_id)
    keeping = (archive_list.rules(session, repository) if rules else None) or {}
    all_series = session.scalars(
        select(Archive.series).where(Archive.repository_id == repository_id).distinct().order_by(Archive.series)
    ).all()
    covered = index.covered(repository)
    return ArchiveList(
        archives=[
            ListedArchive(
                **archive_answer(archive, covered.state(archive)).model_dump(),
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


@routes.get("/archives/live", summary="Archives, asked of the engine now", responses=documented(404, 423))
@second_version.get("/archives/live", summary="Archives, asked of the engine now", responses=documented(404, 423))
@asks_engine
def live_archives(caller: SignedIn, repository_id: RowId, database: TheDatabase, live: TheLiveAnswers) -> LiveList:
    with database.reading() as session:
        repository = store.require(session, caller, repository_id, Role.VIEWER)
    return live.archives(repository)


@deprecated.get("/list", summary="Archives, asked of the engine now", deprecated=True, responses=documented(404, 423))
@asks_engine
def old_list(
    caller: SignedIn,
    response: Response,
    database: TheDatabase,
    live: TheLiveAnswers,
    repository: Annotated[str, PlainText(1, 4096)] | None = None,
    repository_id: RowId | None = None,
) -> LiveList:
    """Use `/api/repositories/{id}/archives`; the headers say so too."""
    with database.reading() as session:
        found = _by_id_or_path(session, repository_id, repository)
        if found is None or rights.repository_role(session, caller, found.id) is None:
            raise errors.not_registered(repository or "")
    response.headers["Deprecation"] = "true"
    response.headers["Link"] = f'</api/repositories/{found.id}/archives>; rel="successor-version"'
    return live.archives(found)


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
) -> Heatmap:
    """Counts and sizes per day, for the repository and each series. A day is never called missed without evidence."""
    repository = store.require(session, caller, repository_id, Role.VIEWER)
    outliers = has_feature(settings, "heatmap_outliers")
    return heatmap.heatmap(session, repository, since, until, tz, outliers=outliers, cadence=cadence)


@routes.get("/archives/{archive_id}", summary="One archive", responses=documented(404))
def read_archive(
    caller: SignedIn, repository_id: RowId, archive_id: RowId, session: Reading, index: TheIndex
) -> ArchiveDetail:
    return _detail(session, caller, repository_id, archive_id, index)


@routes.put("/archives/{archive_id}", summary="Protect an archive, or no longer", responses=documented(404, 409))
def change_archive(
    caller: LoginOnly,
    repository_id: RowId,
    archive_id: RowId,
    wanted: ArchiveUpdate,
    database: TheDatabase,
    index: TheIndex,
) -> ArchiveDetail:
    """A protected archive is removed by no prune, deletion or wipe of the service.

    Refused with `archives.being_removed` while archives of the repository are being removed.
    """
    protection.change(database, caller, repository_id, archive_id, protected=wanted.protected)
    with database.reading() as session:
        return _detail(session, caller, repository_id, archive_id, index)


def _detail(
    session: Session, caller: Caller, repository_id: int, archive_id: int, index: ArchiveIndex
) -> ArchiveDetail:
    repository = store.require(session, caller, repository_id, Role.VIEWER)
    archive = archive_records.of_repository(session, repository_id, archive_id)
    before, after = neighbours(session, archive)
    allowed = actions.on_archive(session, caller, repository, archive)
    return ArchiveDetail(
        **archive_answer(archive, index.covered(repository).state(archive)).model_dump(),
        history_error=archive.history_error,
        history_error_key=archive.history_error_key,
        predecessor_id=before.id if before else None,
        successor_id=after.id if after else None,
        predecessor_stats=_stats(before) if before else None,
        actions=allowed.actions,
        refusals=allowed.refusals,
    )


@routes.get("/status", summary="State of the index, and what was checked", responses=documented(404))
def read_status(
    caller: SignedIn, repository_id: RowId, session: Reading, settings: TheSettings, cadence: TheCadence
) -> StatusAnswer:
    repository = store.require(session, caller, repository_id, Role.VIEWER)
    return status_view.status(session, repository, overdue=has_feature(settings, "overdue_flags"), cadence=cadence)


@routes.post("/rebuild", summary="Derive data again", responses=documented(404))
def rebuild(
    caller: LoginOnly,
    repository_id: RowId,
    wanted: RebuildFrom,
    session: Writing,
    settings: TheSettings,
    index: TheIndex,
) -> StagesQueued:
    """Runs once in any index mode; file history is never built for a mode that excludes it."""
    repository = store.require(session, caller, repository_id, Role.OPERATOR)
    if wanted.from_ == "history":
        require_feature(settings, "archive_history")
        if repository.index_mode == "full":
            history_stage.forget_index(session, repository_id)
    return _queue(session, caller, index, repository, REBUILD[wanted.from_], f"archives.rebuild_{wanted.from_}")


@routes.post("/resync", summary="Bring the stored archive list in line", responses=documented(404))
def resync(caller: LoginOnly, repository_id: RowId, session: Writing, index: TheIndex) -> StagesQueued:
    repository = store.require(session, caller, repository_id, Role.OPERATOR)
    return _queue(session, caller, index, repository, RESYNC, "archives.resync")


@routes.get("/archives/{archive_id}/changes", summary="What changed in an archive", responses=documented(404))
def read_changes(
    look: Looking,
    repository_id: RowId,
    archive_id: RowId,
    change: Annotated[Many, Depends(many("change"))],
    compare_to: RowId | None = None,
    path_prefix: Prefix = None,
    path_b64: ExactPath = None,
    limit: Annotated[int, Query(ge=1, le=5000)] = 200,
    cursor: Cursor = None,
    group_by: Annotated[
        Literal["folder"] | None,
        Query(description="`folder`: add up the changes for each entry of the folder `path_prefix`, in `groups`."),
    ] = None,
) -> Changes:
    """Against the predecessor of the series, or any archive of the repository.

    `totals` and `byte_totals` include the folder `path_prefix` itself and all kinds of change; `groups` only what is
    below the folder and of the kinds in `change`.
    """
    session = look.session
    repository, sealed = look.into(repository_id)
    archive = archive_records.of_repository(session, repository_id, archive_id)
    if set(change) - {"added", "removed", "modified"}:
        raise Unprocessable("archives.bad_change", "A change is added, removed or modified.")
    other = archive_records.of_repository(session, repository_id, compare_to) if compare_to is not None else None
    prefix = paths.asked(path_prefix, path_b64)
    sealed.require([prefix])
    answer = look.index.ask(
        repository,
        lambda opened, covered: changes_view.changes(
            session,
            opened,
            covered,
            archive,
            other,
            prefix=prefix,
            kinds=change,
            limit=limit,
            cursor=cursor,
            grouped=group_by is not None,
        ),
    )
    answer.changes = [row for row in answer.changes if not sealed.hides(paths.exact(row.path, row.path_b64))]
    if answer.groups is not None:
        answer.groups = [row for row in answer.groups if not sealed.hides(paths.exact(row.path, row.path_b64))]
    return answer


@routes.get("/history", summary="Every archive that touched a path", responses=documented(404))
def read_history(
    look: Looking,
    repository_id: RowId,
    path: PathQuery = None,
    path_b64: ExactPath = None,
) -> PathHistoryAnswer:
    repository, sealed = look.into(repository_id)
    wanted = paths.asked(path, path_b64)
    if not wanted:
        raise Unprocessable("archives.bad_path", "Give the path of a file or folder.")
    sealed.require([wanted])
    archives = archive_records.all_of(look.session, repository_id)
    return look.index.ask(repository, lambda opened, covered: path_view.path_history(opened, covered, archives, wanted))


@routes.get("/lanes", summary="A folder through time", responses=documented(404))
def read_lanes(
    look: Looking,
    repository_id: RowId,
    path: PathQuery = None,
    path_b64: ExactPath = None,
    series: Annotated[str, PlainText(0, 4096)] | None = None,
    limit: Annotated[int, Query(ge=1, le=5000)] = 200,
    cursor: Cursor = None,
) -> Lanes:
    """Every name that was ever in the folder, with the archives that hold each of its versions."""
    repository, sealed = look.into(repository_id)
    directory = paths.asked(path, path_b64)
    sealed.require([directory])
    known = archive_records.all_of(look.session, repository_id)
    archives = [archive for archive in known if series is None or archive.series == series]
    return look.index.ask(
        repository,
        lambda opened, covered: lanes_view.lanes(
            opened, covered, archives, directory, sealed, limit=limit, cursor=cursor
        ),
    )


@routes.post("/losses", summary="What would exist nowhere after deleting archives", responses=documented(404))
@asks_engine
def read_losses(
    caller: SignedInToRead,
    settings: TheSettings,
    repository_id: RowId,
    wanted: LossesRequest,
    database: TheDatabase,
    index: TheIndex,
    places: ThePlaces,
) -> Losses:
    """From the index; nothing is changed. Archives that are not indexed are named, since nothing is known of them.

    Protected archives stay, even if the request names them.
    """
    require_feature(settings, "archive_history")
    with database.reading() as session:
        repository = store.require(session, caller, repository_id, Role.VIEWER)
        archives = archive_records.all_of(session, repository_id)
        sealed = places.sealed(session, caller, repository)
    named = set(wanted.archive_ids)
    for unknown in sorted(named - {archive.id for archive in archives}):
        raise archive_records.unknown(unknown)
    going = named - {archive.id for archive in archives if archive.protected_at is not None}
    return index.ask(
        repository,
        lambda opened, covered: losses_view.losses(
            opened, covered, archives, going, sealed, limit=wanted.limit, cursor=wanted.cursor
        ),
    )


@routes.get("/search", summary="Find files by name over all archives", responses=documented(404))
def search(
    look: Looking,
    repository_id: RowId,
    q: Annotated[str, PlainText(1, 4096), Query(description="Part of the name, of the whole path if it has a slash.")],
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
    cursor: Cursor = None,
    series: Annotated[str, PlainText(0, 4096)] | None = None,
    deleted_only: bool = False,
) -> SearchAnswer:
    repository, sealed = look.into(repository_id)
    if not q.strip():
        raise Unprocessable("archives.empty_query", "Give something to search for.")
    archives = archive_records.all_of(look.session, repository_id)
    answer = look.index.ask(
        repository,
        lambda opened, covered: path_view.search(
            opened, covered, archives, q, limit=limit, cursor=cursor, series=series, deleted_only=deleted_only
        ),
    )
    answer.results = [hit for hit in answer.results if not sealed.hides(paths.exact(hit.path, hit.path_b64))]
    return answer


@routes.get("/archives/{archive_id}/browse", summary="A folder of an archive", responses=documented(404, 409, 423))
async def browse(
    caller: SignedIn,
    repository_id: RowId,
    archive_id: RowId,
    database: TheDatabase,
    index: TheIndex,
    live: TheLiveAnswers,
    places: ThePlaces,
    engine_requests: TheEngineRequests,
    path: PathQuery = None,
    path_b64: ExactPath = None,
    limit: Annotated[int, Query(ge=1, le=5000)] = 500,
    cursor: Cursor = None,
    sort: Annotated[
        browse_view.SortWord,
        Query(description="Order of the entries; `-` reverses it. By size, a folder counts with all files below it."),
    ] = "name",
    q: Annotated[str, PlainText(0, 1024), Query(description="Part of the name, upper or lower case.")] = "",
    sizes: Annotated[bool, Query(description="Fill `item_count` and `subtree_size` of folders.")] = False,
) -> BrowseAnswer:
    """From the index; from the engine where the archive is not indexed, which `source` says.

    The engine can only sort by name. A `next_cursor` continues in the order it was made for.
    """

    def from_index() -> tuple[Repository, Archive, browse_view.Wanted, Sealed, BrowsePage | None]:
        with database.reading() as session:
            repository = store.require(session, caller, repository_id, Role.VIEWER)
            archive = archive_records.of_repository(session, repository_id, archive_id)
            before, _ = neighbours(session, archive)
            sealed = places.sealed(session, caller, repository)
        wanted = browse_view.Wanted(paths.asked(path, path_b64), limit, cursor, sort, q, sizes)
        sealed.require([wanted.directory])
        page = index.ask(
            repository,
            lambda opened, covered: browse_view.from_index(opened, covered, archive, before, wanted, sealed),
        )
        return repository, archive, wanted, sealed, page

    repository, archive, wanted, sealed, page = await run_in_threadpool(from_index)
    source: Literal["index", "engine"] = "index" if page is not None else "engine"
    if page is None:
        wanted.require_order_of_engine()
        asking = partial(live.browse, repository, archive, wanted.directory, limit, cursor, q)
        page = await engine_requests.run(caller.user_id, asking)
    if not page.exists:
        raise NotFound("archives.path_not_found", "The archive has no such folder.")
    return BrowseAnswer(
        archive_id=archive.id,
        **paths.told(wanted.directory),
        entries=[
            browse_view.entry(one, page.facts.get(one.path, NO_FACTS), sealed)
            for one in page.entries
            if not sealed.hides(one.path)
        ],
        next_cursor=page.next_cursor,
        source=source,
        excludes=repository.history_index_excludes if source == "index" else [],
        total=page.total,
    )


def _queue(
    session: Session,
    caller: LoginOnly,
    index: ArchiveIndex,
    repository: Repository,
    stages: tuple[Stage, ...],
    action: str,
) -> StagesQueued:
    if not can_be_listed(session, repository):
        raise errors.agent_unable(repository.agent_machine_id, JobKind.ARCHIVES_LIST)
    require_room(session, repository.id)
    origin = Origin(Trigger.MANUAL, caller.user_id, caller.username)
    queued = index.stages.enqueue(session, repository, stages, origin)
    audit.record(session, actor=caller, action=action, object_type="repository", object_id=repository.id)
    return StagesQueued(
        run_id=queued[0].run_id if queued else "",
        operations=[operation.id for operation in queued],
        index_mode=repository.index_mode,
        repeats=index.stages.repeats(stages, repository.index_mode),
    )


def _by_id_or_path(session: Session, repository_id: int | None, path: str | None) -> Repository | None:
    if repository_id is not None:
        return store.get(session, repository_id)
    if path is not None:
        return store.by_path(session, path)
    raise Unprocessable("archives.which_repository", "Give repository or repository_id.")


def _stats(archive: Archive) -> ArchiveStats:
    return ArchiveStats.from_row(archive)
