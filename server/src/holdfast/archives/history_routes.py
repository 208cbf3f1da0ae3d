"""Routes for the file history: what archives contain, and what changed between them."""

from collections.abc import Sequence
from typing import Annotated, Literal

from fastapi import Depends, Query

from holdfast.access.caller import SignedIn, SignedInToRead
from holdfast.access.plans import require_feature
from holdfast.access.roles import Role
from holdfast.api.answers import documented
from holdfast.api.dependencies import TheDatabase, TheSettings
from holdfast.api.filters import Many, many
from holdfast.api.router import router
from holdfast.api.threads import in_thread
from holdfast.archives import browse_view, changes_view, lanes_view, losses_view, path_view, paths
from holdfast.archives.lanes_schemas import Lanes
from holdfast.archives.live_answers import EngineFolder
from holdfast.archives.losses_schemas import Losses, LossesRequest
from holdfast.archives.retention import removed_archives
from holdfast.archives.route_parameters import (
    ExactPath,
    NameCursor,
    RequestedPath,
    TheHistoryAccess,
    TheIndex,
    TheLiveAnswers,
)
from holdfast.archives.schemas import BrowseAnswer, Changes, PathHistoryAnswer, SearchAnswer
from holdfast.archives.series_view import neighbours
from holdfast.downloads.lookup import TheLookup
from holdfast.errors import NotFound, Unprocessable
from holdfast.history.answers import NO_FACTS, BrowsePage
from holdfast.kit import clock
from holdfast.kit.fields import PlainText, RowId
from holdfast.operations.routes import Cursor
from holdfast.repositories import archive_records, store
from holdfast.repositories.archive_records import Archive
from holdfast.repositories.own_places import HiddenPaths, ThePlaces
from holdfast.runner.engine_requests import TheEngineRequest, asks_engine

routes = router("/api/repositories/{repository_id}", "archives")

Prefix = Annotated[Annotated[str, PlainText(0, 16384)] | None, Query()]


@routes.get("/archives/{archive_id}/changes", summary="List changes in an archive", responses=documented(404))
def read_changes(
    access: TheHistoryAccess,
    repository_id: RowId,
    archive_id: RowId,
    change: Annotated[Many, Depends(many("change"))],
    compare_to: RowId | None = None,
    path_prefix: Prefix = None,
    path_b64: ExactPath = None,
    limit: Annotated[int, Query(ge=1, le=5000)] = 200,
    cursor: NameCursor = None,
    group_by: Annotated[
        Literal["folder"] | None,
        Query(description="`folder`: aggregate the changes for each entry of the folder `path_prefix`, in `groups`."),
    ] = None,
) -> Changes:
    """Compares with the previous archive of the series, or with any archive of the repository.

    `totals` and `byte_totals` include the folder `path_prefix` itself and all kinds of change; `groups` only includes
    what is below the folder, and only the kinds in `change`.
    """
    session = access.session
    repository, hidden = access.repository(repository_id)
    archive = archive_records.of_repository(session, repository_id, archive_id)
    if set(change) - {"added", "removed", "modified"}:
        raise Unprocessable("archives.bad_change", "The `change` parameter must be added, removed or modified.")
    other = archive_records.of_repository(session, repository_id, compare_to) if compare_to is not None else None
    prefix = paths.from_request(path_prefix, path_b64)
    hidden.require_visible([prefix])
    answer = access.index.ask(
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
    answer.changes = [row for row in answer.changes if not hidden.hides(paths.from_fields(row.path, row.path_b64))]
    if answer.groups is not None:
        answer.groups = [row for row in answer.groups if not hidden.hides(paths.from_fields(row.path, row.path_b64))]
    return answer


@routes.get("/history", summary="List all versions of a path", responses=documented(404))
def read_history(access: TheHistoryAccess, repository_id: RowId, asked: RequestedPath) -> PathHistoryAnswer:
    repository, hidden = access.repository(repository_id)
    wanted = asked.required()
    hidden.require_visible([wanted])
    archives = archive_records.all_of(access.session, repository_id)
    return access.index.ask(
        repository, lambda opened, covered: path_view.path_history(opened, covered, archives, wanted)
    )


@routes.get("/lanes", summary="Get a folder's history", responses=documented(404))
def read_lanes(
    access: TheHistoryAccess,
    repository_id: RowId,
    asked: RequestedPath,
    series: Annotated[str, PlainText(0, 4096)] | None = None,
    limit: Annotated[int, Query(ge=1, le=5000)] = 200,
    cursor: NameCursor = None,
) -> Lanes:
    """Returns every name that was ever in the folder, with the archives that contain each of its versions."""
    repository, hidden = access.repository(repository_id)
    directory = asked.exact()
    hidden.require_visible([directory])
    known = archive_records.all_of(access.session, repository_id)
    archives = [archive for archive in known if series is None or archive.series == series]
    return access.index.ask(
        repository,
        lambda opened, covered: lanes_view.lanes(
            opened, covered, archives, directory, hidden, limit=limit, cursor=cursor
        ),
    )


def _named(archive_ids: Sequence[int] | None, archives: Sequence[Archive]) -> set[int]:
    """Return these archive ids without those of protected archives. Raise NotFound."""
    named = set(archive_ids or ())
    for unknown in sorted(named - {archive.id for archive in archives}):
        raise archive_records.unknown(unknown)
    return named - {archive.id for archive in archives if archive.protected_at is not None}


@routes.post("/losses", summary="Preview what deleting archives would lose", responses=documented(404))
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
    """Computed from the index; nothing is changed. Archives that are not indexed are listed, as their files are
    unknown.

    Protected archives are kept, even if the request names them or no rule of the policy keeps them.
    """
    require_feature(settings, "archive_history")
    with database.reading() as session:
        repository = store.require(session, caller, repository_id, Role.VIEWER)
        archives = archive_records.all_of(session, repository_id)
        hidden = places.hidden_paths(session, caller, repository)
    going = (
        _named(wanted.archive_ids, archives)
        if wanted.policy is None
        else removed_archives.removed_now(wanted.policy, repository, archives, clock.now())
    )
    return index.ask(
        repository,
        lambda opened, covered: losses_view.losses(
            opened, covered, archives, going, hidden, limit=wanted.limit, cursor=wanted.cursor
        ),
    )


@routes.get("/search", summary="Find files by name in all archives", responses=documented(404))
def search(
    access: TheHistoryAccess,
    repository_id: RowId,
    q: Annotated[
        str, PlainText(1, 4096), Query(description="Part of the name, or of the full path if it contains a slash.")
    ],
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
    cursor: Cursor = None,
    series: Annotated[str, PlainText(0, 4096)] | None = None,
    deleted_only: bool = False,
) -> SearchAnswer:
    repository, hidden = access.repository(repository_id)
    if not q.strip():
        raise Unprocessable("archives.empty_query", "The search text is empty.")
    archives = archive_records.all_of(access.session, repository_id)
    query = path_view.NameQuery(q, limit, cursor, deleted_only)
    answer = access.index.ask(
        repository, lambda opened, covered: path_view.search(opened, covered, archives, query, series)
    )
    answer.results = [hit for hit in answer.results if not hidden.hides(paths.from_fields(hit.path, hit.path_b64))]
    return answer


@routes.get("/archives/{archive_id}/browse", summary="List a folder of an archive", responses=documented(404, 409, 423))
async def browse(
    caller: SignedIn,
    repository_id: RowId,
    archive_id: RowId,
    database: TheDatabase,
    index: TheIndex,
    live: TheLiveAnswers,
    lookup: TheLookup,
    engine_requests: TheEngineRequest,
    asked: RequestedPath,
    limit: Annotated[int, Query(ge=1, le=5000)] = 500,
    cursor: NameCursor = None,
    sort: Annotated[
        browse_view.SortWord,
        Query(description="Sort order; `-` reverses it. When sorted by size, a folder counts with all files below it."),
    ] = "name",
    q: Annotated[str, PlainText(0, 1024), Query(description="Part of the name, case-insensitive.")] = "",
    sizes: Annotated[bool, Query(description="Include `item_count` and `subtree_size` of folders.")] = False,
) -> BrowseAnswer:
    """Listed from the index, or by the engine if the archive is not indexed; `source` shows which.

    The engine can only sort by name. Use a `next_cursor` only with the sort order it was created for.
    """

    repository, archive = await lookup.find_visible(caller, repository_id, archive_id)
    is_indexed = archive.history_state == "indexed"
    if not is_indexed:
        engine_requests.require_room(caller.user_id)
    wanted = browse_view.BrowseQuery(asked.exact(), limit, cursor, sort, q, sizes)

    def from_index() -> tuple[HiddenPaths, BrowsePage | None]:
        hidden = lookup.hidden_paths(caller, repository)
        hidden.require_visible([wanted.directory])
        if not is_indexed:
            return hidden, None
        with database.reading() as session:
            before, _ = neighbours(session, archive)
        return hidden, index.ask(
            repository,
            lambda opened, covered: browse_view.from_index(opened, covered, archive, before, wanted, hidden),
        )

    hidden, page = await in_thread("reading", from_index)
    source: Literal["index", "engine"] = "index" if page is not None else "engine"
    if page is None:
        wanted.require_order_of_engine()
        folder = EngineFolder(repository, archive, wanted.directory, limit, cursor, q)
        page = await live.browse(engine_requests, caller.user_id, folder)
    if not page.exists:
        raise NotFound("archives.path_not_found", "This path is not in the archive.")
    return BrowseAnswer(
        archive_id=archive.id,
        **paths.to_fields(wanted.directory),
        entries=[
            browse_view.entry(one, page.facts.get(one.path, NO_FACTS), hidden)
            for one in page.entries
            if not hidden.hides(one.path)
        ],
        next_cursor=page.next_cursor,
        source=source,
        excludes=repository.history_index_excludes if source == "index" else [],
        total=page.total,
    )
