"""Routes for the restore points of past days; they only read records, without the engine."""

from datetime import UTC, datetime, time
from typing import Annotated

from fastapi import Query

from holdfast.access.caller import SignedIn
from holdfast.access.roles import Role
from holdfast.api.answers import documented
from holdfast.api.dependencies import Reading
from holdfast.api.router import router
from holdfast.archives.retention import past_restore_points
from holdfast.archives.retention.schemas import Past, PastPoint, PointsOfDay
from holdfast.archives.retention.simulate import DAY
from holdfast.kit import clock
from holdfast.kit.fields import PlainText, RowId
from holdfast.repositories import store

routes = router("/api/repositories/{repository_id}/retention", "archives")

DEFAULT_DAYS, MOST_DAYS, MOST_POINTS = 90, 3660, 5000


@routes.get("/past", summary="Get the restore points of past days", responses=documented(404))
def read_past(
    caller: SignedIn,
    repository_id: RowId,
    session: Reading,
    days: Annotated[int, Query(ge=0, le=MOST_DAYS, description="Number of days to look back from today (UTC).")] = (
        DEFAULT_DAYS
    ),
    series: Annotated[
        Annotated[str, PlainText(0, 4096)] | None, Query(description="Only archives of this series. Default: all.")
    ] = None,
) -> Past:
    """From the existing archives, the record of removed ones, and the results of older prunes.

    An archive that was removed outside this service is dated by the first listing without it.
    """
    repository = store.require(session, caller, repository_id, Role.VIEWER)
    today = clock.now().date()
    first = today - days * DAY
    every = past_restore_points.points(session, repository, datetime.combine(first, time(), UTC))
    known = past_restore_points.shown(
        [point for point in every if series is None or point.series == series], first, today
    )
    return Past(
        since=first,
        until=today,
        recorded_since=repository.removals_recorded_since or repository.created_at,
        counts=[
            PointsOfDay(day=day, restore_points=count) for day, count in past_restore_points.counts(known, first, today)
        ],
        points=[PastPoint.from_row(point) for point in known[:MOST_POINTS]],
        points_count=len(known),
    )
