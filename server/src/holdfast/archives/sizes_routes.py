"""Routes for the growth of a repository; they only read records, without the engine."""

from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime, time, timedelta
from itertools import groupby
from typing import Annotated

from fastapi import Query
from sqlalchemy import select
from sqlalchemy.orm import Session

from holdfast.access.caller import SignedIn
from holdfast.access.roles import Role
from holdfast.api.answers import documented
from holdfast.api.dependencies import Reading
from holdfast.api.router import router
from holdfast.archives.sizes_schemas import DataPoint, Mark, SizePoint, Sizes, Storage
from holdfast.errors import Unprocessable
from holdfast.kit import clock
from holdfast.kit.fields import RowId
from holdfast.operations.models import Operation
from holdfast.operations.status import SUCCEEDED
from holdfast.repositories import archive_records, size_records, store
from holdfast.repositories.archive_records import Archive
from holdfast.repositories.models import Repository

routes = router("/api/repositories/{repository_id}", "archives")

DEFAULT_DAYS, MOST_DAYS, MOST_MARKS = 365, 3660, 500
MAKES_SMALLER = ("prune", "compact", "delete_archive", "wipe")
DAY = timedelta(days=1)
EARLIEST, LATEST = date(1970, 1, 1), date(9000, 1, 1)


@routes.get("/sizes", summary="Get a repository's growth", responses=documented(404))
def read_sizes(
    caller: SignedIn,
    repository_id: RowId,
    session: Reading,
    since: Annotated[date | None, Query(description="First day (UTC). Default: a year before the last.")] = None,
    until: Annotated[date | None, Query(description="Last day (UTC). Default: today.")] = None,
) -> Sizes:
    repository = store.require(session, caller, repository_id, Role.VIEWER)
    last = until or clock.now().date()
    first = since or max(last, EARLIEST) - timedelta(days=DEFAULT_DAYS - 1)
    if not EARLIEST <= last <= LATEST or not 0 <= (last - first).days < MOST_DAYS:
        raise Unprocessable("archives.bad_span", f"The span must have 1 to {MOST_DAYS} days.")
    archives = [one for one in archive_records.all_of(session, repository_id) if one.lost_at is None]
    return Sizes(
        since=first,
        until=last,
        points=[
            SizePoint.from_row(one, at=one.measured_at)
            for one in size_records.between(session, repository_id, first, last)
        ],
        data=[point for point in data_points(archives) if first <= point.at.date() <= last],
        marks=_marks(session, repository_id, first, last),
        storage=_storage(repository),
    )


def data_points(archives: Iterable[Archive]) -> Iterator[DataPoint]:
    """Yield a point for each day with archives. Unmeasured archives do not change the sum."""
    newest: dict[str, int] = {}
    in_order = sorted(archives, key=lambda archive: (archive.start, archive.id))
    for _, made in groupby(in_order, key=lambda archive: archive.start.astimezone(UTC).date()):
        of_day = list(made)
        newest |= {archive.series: archive.original_size for archive in of_day if archive.original_size is not None}
        if newest:
            yield DataPoint(
                at=of_day[-1].start.astimezone(UTC),
                original_size=sum(newest.values()),
                new_bytes=sum(archive.deduplicated_size or 0 for archive in of_day),
            )


def _marks(session: Session, repository_id: int, first: date, last: date) -> list[Mark]:
    begin, end = (datetime.combine(day, time(), UTC) for day in (first, last + DAY))
    wanted = (
        Operation.repository_id == repository_id,
        Operation.kind.in_(MAKES_SMALLER),
        Operation.status.in_(sorted(SUCCEEDED)),
        Operation.completed_at >= begin,
        Operation.completed_at < end,
    )
    newest = (
        select(Operation.id, Operation.kind, Operation.completed_at)
        .where(*wanted)
        .order_by(Operation.completed_at.desc(), Operation.id.desc())
        .limit(MOST_MARKS)
    )
    found = [Mark(operation_id=row.id, kind=row.kind, at=row.completed_at) for row in session.execute(newest)]
    return found[::-1]


def _storage(repository: Repository) -> Storage | None:
    free, total, seen = repository.storage_free_bytes, repository.storage_total_bytes, repository.storage_seen_at
    if free is None or total is None or seen is None:
        return None
    return Storage(free_bytes=free, total_bytes=total, measured_at=seen)
