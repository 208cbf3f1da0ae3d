"""Routes for files of all repositories."""

import re
from typing import Annotated

from fastapi import Depends, Query

from holdfast.access.caller import SignedIn
from holdfast.access.plans import NeedsArchiveHistory
from holdfast.api.answers import documented
from holdfast.api.dependencies import TheDatabase
from holdfast.api.filters import Many, many
from holdfast.api.router import router
from holdfast.archives.fleet_schemas import FleetHistory, FleetSearchAnswer
from holdfast.archives.fleet_search import FleetQuery, FleetSearch
from holdfast.archives.route_parameters import RequestedPath, TheIndex
from holdfast.errors import Unprocessable
from holdfast.kit.fields import Moment, PlainText
from holdfast.operations.routes import Cursor
from holdfast.repositories.own_places import ThePlaces
from holdfast.runner.engine_requests import asks_engine

routes = router("/api", "archives")

LONGEST_ID = 18
Size = Annotated[
    int | None, Query(ge=0, le=2**63 - 1, description="Size in bytes. Folders have no size and are excluded.")
]

RepositoryIds = Annotated[Many, Depends(many("repository_id"))]
Machines = Annotated[
    Many,
    Depends(many("machine", "Machines whose engines open the repositories: `local`, `agent:ID` or `ssh:ID`.")),
]
MACHINE = re.compile(rf"local|(agent|ssh):[0-9]{{1,{LONGEST_ID}}}")
QueryText = Annotated[
    str, PlainText(1, 4096), Query(description="Part of the name, or of the full path if it contains a slash.")
]


@routes.get("/search", summary="Find files by name in all repositories", responses=documented(404))
@asks_engine
def search_everywhere(
    caller: SignedIn,
    _plan: NeedsArchiveHistory,
    database: TheDatabase,
    index: TheIndex,
    places: ThePlaces,
    q: QueryText,
    repository_id: RepositoryIds,
    machine: Machines,
    deleted_only: bool = False,
    modified_since: Moment | None = None,
    min_size: Size = None,
    max_size: Size = None,
    extension: Annotated[str, PlainText(1, 20), Query(description="File name extension, such as `pdf`.")] | None = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
    cursor: Cursor = None,
) -> FleetSearchAnswer:
    """Searches one repository after another for at most two seconds, so a page may be short or empty and still have a
    cursor.

    A machine without repositories that you can see is treated like a machine that does not exist: nothing is found.
    """
    if not q.strip():
        raise Unprocessable("archives.empty_query", "The search text is empty.")
    wanted = FleetQuery(deleted_only, modified_since, min_size, max_size, extension)
    fleet = FleetSearch.of(database, index, places, caller, _numbers(repository_id), _machines(machine))
    return fleet.search(q, wanted, limit, cursor)


@routes.get("/history", summary="List the repositories that contain, or contained, a path", responses=documented(404))
@asks_engine
def history_everywhere(
    caller: SignedIn,
    _plan: NeedsArchiveHistory,
    database: TheDatabase,
    index: TheIndex,
    places: ThePlaces,
    repository_id: RepositoryIds,
    asked: RequestedPath,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
    cursor: Cursor = None,
) -> FleetHistory:
    wanted = asked.required()
    return FleetSearch.of(database, index, places, caller, _numbers(repository_id)).history(wanted, limit, cursor)


def _machines(words: Many) -> list[str]:
    """Return the machine keys. Raise Unprocessable for one that is malformed."""
    if not all(MACHINE.fullmatch(word) for word in words):
        raise Unprocessable("archives.bad_machine", "The `machine` parameter must be `local`, `agent:ID` or `ssh:ID`.")
    return list(words)


def _numbers(words: Many) -> list[int]:
    """Return the ids. Raise Unprocessable unless all of them are numbers."""
    if not all(word.isascii() and word.isdigit() and len(word) <= LONGEST_ID for word in words):
        raise Unprocessable("archives.bad_repository_id", "The `repository_id` parameter must be a number.")
    return [int(word) for word in words]
