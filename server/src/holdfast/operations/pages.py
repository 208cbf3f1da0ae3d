"""Queries for operations: one, several, a page, or the newest of each repository."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Select, bindparam, case, column, func, literal_column, select, table
from sqlalchemy.orm import Session

from backup_engine.frozen import frozen
from holdfast.kit import cursor
from holdfast.operations import indexed_lists
from holdfast.operations.models import Operation
from holdfast.operations.status import SUCCEEDED, LockMode, Status, Trigger
from holdfast.storage.rows import find_row

REPOSITORIES_AT_ONCE = 200


LOOKED_AT = 4
"""How many of the newest operations of a repository and kind are searched for one that has ended."""


MOST_COUNTED = 10_000
MOST_SEARCHED = 20_000
"""Number of operations that one search request examines."""


CREATED_SLACK = 1000
"""Ids grow with creation times, except among neighbours written at the same moment."""


def get(session: Session, operation_id: int) -> Operation | None:
    return find_row(session, Operation, operation_id)


def repository_exists(session: Session, repository_id: int) -> bool:
    """Return whether the repository is still registered. The kernel knows only the name of the table."""
    return session.execute(_REPOSITORY_EXISTS, {"repository": repository_id}).first() is not None


@frozen
class Filter(indexed_lists.ListConditions):
    """Restrictions on a list of operations. None means: no restriction."""

    repositories: frozenset[int] | None = None
    """The repositories that the caller may see."""
    of_repositories_only: bool = False
    """Leave out operations that belong to no repository: only administrators may see them."""
    repository_id: int | None = None
    categories: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    statuses: tuple[str, ...] = ()
    triggers: tuple[str, ...] = ()
    run_id: str | None = None
    parents_only: bool = False

    @property
    def is_searched(self) -> bool:
        """Whether no index covers the filter, so that rows have to be examined one by one."""
        return self.machine_id is not None or self.triggered_by is not None or self.text is not None


def page(session: Session, narrowed: Filter, limit: int, after: str | None) -> tuple[list[Operation], str | None]:
    """Return the newest matching operations, and the cursor of the next page.

    A search examines a limited number of operations at a time, so its page may be short or empty before the last one.
    """
    below = int(cursor.decode(after, int)[0]) if after else indexed_lists.BEYOND_ALL_IDS
    if narrowed.run_id is not None:
        rows, reached = list(session.scalars(_of_run(narrowed, below).limit(limit + 1))), 0
    else:
        bounds, reached = _bounds(session, narrowed, below)
        rows = _by_ids(session, indexed_lists.newest_ids(session, _axes(session, narrowed), bounds, limit + 1))
    if len(rows) > limit:
        return rows[:limit], cursor.encode(rows[limit - 1].id)
    return rows, cursor.encode(reached) if reached else None


def total(session: Session, narrowed: Filter) -> int | None:
    """Return how many operations match, at most `MOST_COUNTED`; None if a search would have to examine too many."""
    if narrowed.run_id is not None:
        return session.scalar(select(func.count()).select_from(_of_run(narrowed).limit(MOST_COUNTED).subquery()))
    bounds, reached = _bounds(session, narrowed, indexed_lists.BEYOND_ALL_IDS)
    return None if reached else indexed_lists.count(session, _axes(session, narrowed), bounds, MOST_COUNTED)


def _bounds(session: Session, narrowed: Filter, below: int) -> tuple[indexed_lists.Bounds, int]:
    """Return the bounds of a page, and the id at which a search stops for now; 0 if it examines everything."""
    floor = _floor(session, narrowed.since)
    below = min(below, _ceiling(session, narrowed.until))
    reached = 0
    if narrowed.is_searched:
        below = min(below, (session.scalar(_NEWEST_ID) or 0) + 1)
        if floor < below - MOST_SEARCHED:
            floor = reached = below - MOST_SEARCHED
    bounds = indexed_lists.Bounds(
        below=below,
        floor=floor,
        **narrowed.list_conditions(),
        of_repositories_only=narrowed.of_repositories_only
        and narrowed.repository_id is None
        and narrowed.repositories is None,
        parents_only=narrowed.parents_only,
    )
    return bounds, reached


def _axes(session: Session, narrowed: Filter) -> indexed_lists.Axes:
    """Return the columns that the filter restricts, each with the allowed values that may occur in the record."""
    axes: indexed_lists.Axes = {}
    if narrowed.repository_id is not None:
        seen = narrowed.repositories is None or narrowed.repository_id in narrowed.repositories
        axes["repository_id"] = (narrowed.repository_id,) if seen else ()
    elif narrowed.repositories is not None:
        axes["repository_id"] = tuple(sorted(narrowed.repositories))
    if narrowed.kinds or narrowed.categories:
        axes["kind"] = tuple(
            kind
            for kind, category in indexed_lists.known_kinds(session).items()
            if (not narrowed.kinds or kind in narrowed.kinds)
            and (not narrowed.categories or category in narrowed.categories)
        )
    if narrowed.statuses or narrowed.triggers:
        axes["status"] = _among(narrowed.statuses, Status)
        axes["trigger"] = _among(narrowed.triggers, Trigger)
    return axes


def _among(wanted: Sequence[str], known: Iterable[Status] | Iterable[Trigger]) -> tuple[str, ...]:
    return tuple(str(word) for word in known if not wanted or word in wanted)


def _floor(session: Session, since: datetime | None) -> int:
    """Return the lowest id that can belong to this time or later."""
    if since is None:
        return 0
    first = session.scalar(_FIRST_SINCE, {"since": since})
    return first - CREATED_SLACK if first is not None else indexed_lists.BEYOND_ALL_IDS


def _ceiling(session: Session, until: datetime | None) -> int:
    """Return the id below which all operations of this time or earlier are."""
    if until is None:
        return indexed_lists.BEYOND_ALL_IDS
    last = session.scalar(_LAST_UNTIL, {"until": until})
    return last + CREATED_SLACK if last is not None else 0


def _of_run(narrowed: Filter, below: int = indexed_lists.BEYOND_ALL_IDS) -> Select[Operation]:
    """Return the matching operations of a run, newest first. A run is small, so each of its operations is checked."""
    bounds = indexed_lists.Bounds(
        **narrowed.list_conditions(),
        of_repositories_only=narrowed.of_repositories_only,
        parents_only=narrowed.parents_only,
    ).values()
    conditions = [indexed_lists.CONDITIONS[name] for name in bounds]
    statement = select(Operation).where(Operation.run_id == narrowed.run_id, Operation.id < below, *conditions)
    for filtered, values in (
        (Operation.category, narrowed.categories),
        (Operation.kind, narrowed.kinds),
        (Operation.status, narrowed.statuses),
        (Operation.trigger, narrowed.triggers),
    ):
        if values:
            statement = statement.where(filtered.in_(values))
    if narrowed.repositories is not None:
        statement = statement.where(Operation.repository_id.in_(narrowed.repositories))
    if narrowed.repository_id is not None:
        statement = statement.where(Operation.repository_id == narrowed.repository_id)
    return statement.params(bounds).order_by(Operation.id.desc())


def children(session: Session, parents: Sequence[int]) -> list[Operation]:
    if not parents:
        return []
    return list(session.scalars(select(Operation).where(Operation.parent_id.in_(parents)).order_by(Operation.id)))


def of_run(session: Session, run_id: str) -> list[Operation]:
    return list(session.scalars(select(Operation).where(Operation.run_id == run_id).order_by(Operation.id).limit(500)))


def active(session: Session, visible: frozenset[int] | None, *, of_repositories_only: bool) -> list[Operation]:
    """Return all running and waiting operations: the running ones first, then the waiting ones in queue order."""
    statement = (
        select(Operation)
        .where(Operation.status.in_((Status.PENDING, Status.RUNNING)))
        .order_by(case((Operation.status == Status.RUNNING, 0), else_=1), Operation.queue_rank, Operation.id)
    )
    if visible is not None:
        statement = statement.where(Operation.repository_id.in_(visible))
    elif of_repositories_only:
        statement = statement.where(Operation.repository_id.is_not(None))
    return list(session.scalars(statement))


_THESE = Operation.repository_id.in_(bindparam("repositories", expanding=True))


_RUNNING_OF = (
    select(Operation)
    .where(Operation.status == Status.RUNNING, _THESE)
    .order_by(case((Operation.lock_mode == LockMode.EXCLUSIVE, 1), else_=0), Operation.id.desc())
)


_LATEST_OF = select(Operation).where(
    Operation.id.in_(
        select(func.max(Operation.id))
        .where(_THESE, Operation.kind.in_(bindparam("kinds", expanding=True)))
        .group_by(Operation.repository_id)
    )
)


def running_of_repositories(session: Session, repositories: Iterable[int]) -> dict[int, Operation]:
    """Return the first running operation of each repository, exclusive before shared."""
    found = session.scalars(_RUNNING_OF, {"repositories": list(repositories)})
    return {operation.repository_id: operation for operation in found if operation.repository_id}


def latest_of_repositories(session: Session, repositories: Iterable[int], kinds: Sequence[str]) -> dict[int, Operation]:
    """Return the newest operation of these kinds for each repository that has one."""
    found = session.scalars(_LATEST_OF, {"repositories": list(repositories), "kinds": list(kinds)})
    return {operation.repository_id: operation for operation in found if operation.repository_id}


@frozen
class Ended:
    """How the newest ended operation of a kind ended."""

    id: int
    status: Status
    completed_at: datetime | None


def newest_ended(session: Session, repositories: Sequence[int], kinds: Sequence[str]) -> dict[tuple[int, str], Ended]:
    """Return the newest operation per repository and kind that succeeded or failed (cancelled ones prove nothing)."""
    found: dict[tuple[int, str], Ended] = {}
    for first in range(0, len(repositories), REPOSITORIES_AT_ONCE):
        some = tuple(repositories[first : first + REPOSITORIES_AT_ONCE])
        ids = indexed_lists.newest_of_each(session, {"repository_id": some, "kind": tuple(kinds)}, LOOKED_AT)
        columns = select(
            Operation.id, Operation.repository_id, Operation.kind, Operation.status, Operation.completed_at
        )
        rows = session.execute(columns.where(Operation.id.in_(ids)).order_by(Operation.id)) if ids else ()
        for row in rows:
            if Status(row.status) in SUCCEEDED or row.status == Status.FAILED:
                found[row.repository_id, row.kind] = Ended(row.id, Status(row.status), row.completed_at)
    return found


def by_ids(session: Session, ids: Iterable[int]) -> list[Operation]:
    """Return these operations, newest first."""
    return sorted(_by_ids(session, list(ids)), key=lambda operation: -operation.id)


def latest_of_kind(session: Session, repository_id: int, kinds: Sequence[str], limit: int) -> list[Operation]:
    axes: indexed_lists.Axes = {"repository_id": (repository_id,), "kind": tuple(kinds)}
    return _by_ids(session, indexed_lists.newest_ids(session, axes, indexed_lists.Bounds(), limit))


def _by_ids(session: Session, ids: list[int]) -> list[Operation]:
    return list(session.scalars(_BY_IDS, {"ids": ids})) if ids else []


_REPOSITORY_EXISTS: Select[Any] = (
    select(literal_column("1"))
    .select_from(table("repositories", column("id")))
    .where(column("id") == bindparam("repository"))
)


_BY_IDS = select(Operation).where(Operation.id.in_(bindparam("ids", expanding=True))).order_by(Operation.id.desc())


_NEWEST_ID = select(func.max(Operation.id))


_LAST_UNTIL = (
    select(Operation.id)
    .where(Operation.created_at <= bindparam("until"))
    .order_by(Operation.created_at.desc(), Operation.id.desc())
    .limit(1)
)


_FIRST_SINCE = (
    select(Operation.id)
    .where(Operation.created_at >= bindparam("since"))
    .order_by(Operation.created_at, Operation.id)
    .limit(1)
)
