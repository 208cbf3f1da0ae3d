"""The route for the timeline."""

from datetime import timedelta
from typing import Annotated

from fastapi import Depends, Query

from holdfast.access.caller import SignedIn
from holdfast.access.roles import Role
from holdfast.activity import timeline
from holdfast.activity.schemas import Timeline
from holdfast.api.dependencies import Reading
from holdfast.api.filters import Many, many
from holdfast.api.router import router
from holdfast.errors import Unprocessable
from holdfast.kit import clock
from holdfast.kit.fields import Moment
from holdfast.operations.filters import require_known
from holdfast.operations.present import ThePresenter
from holdfast.schedules.calendar.entries import Span
from holdfast.schedules.visible_schedules import VisibleSchedules

routes = router("/api/operations", "operations")
DAY = timedelta(days=1)


@routes.get("/timeline", summary="Get past and planned work for a time span")
def read_timeline(
    caller: SignedIn,
    session: Reading,
    presenter: ThePresenter,
    category: Annotated[Many, Depends(many("category"))],
    since: Annotated[Moment | None, Query(description="Start of the span (default: one day ago).")] = None,
    until: Annotated[Moment | None, Query(description="End of the span (default: one day from now).")] = None,
) -> Timeline:
    """Covers only repositories that you may see, at most 62 days and 10,000 rows. Without `category`, index operations
    are omitted.
    """
    require_known(presenter.registry, category=category)
    now = clock.now()
    span = Span(since or (until or now) - DAY, until or max(since or now, now) + DAY)
    if span.until < span.since or span.until - span.since > timedelta(days=timeline.MOST_DAYS):
        raise Unprocessable(
            "timeline.bad_span", f"Give a span of at most {timeline.MOST_DAYS} days, with since before until."
        )
    rows, truncated = timeline.read(
        session,
        VisibleSchedules.of(session, caller),
        span,
        now,
        category,
        of_repositories_only=caller.role is not Role.ADMIN,
    )
    return Timeline(since=span.since, until=span.until, rows=rows, truncated=truncated)
