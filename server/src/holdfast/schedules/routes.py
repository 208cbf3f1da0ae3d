"""HTTP for schedules."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Body, Depends, Query, Request, Response
from fastapi.routing import APIRoute
from sqlalchemy.orm import Session

from holdfast.access import rights
from holdfast.access.caller import LoginOnly, SignedIn, SignedInToRead
from holdfast.access.idempotency import Once
from holdfast.access.roles import Role
from holdfast.api.answers import documented
from holdfast.api.dependencies import Reading, TheDatabase, Writing
from holdfast.api.router import router
from holdfast.errors import HoldfastError, Unprocessable
from holdfast.kit import clock
from holdfast.kit.compute_process import pack_call
from holdfast.kit.fields import Moment, RowId
from holdfast.operations.kinds import REGISTRY, Registry
from holdfast.repositories import labels
from holdfast.repositories import store as repositories
from holdfast.repositories.labels import LabelFilter
from holdfast.runner.computations import Steps, computes
from holdfast.schedules import edit, overview, present, presets, store, visible_schedules
from holdfast.schedules.answer_schemas import (
    CalendarAnswer,
    Fires,
    Presets,
    Preview,
    ScheduleAnswer,
    Schedules,
    StartedRow,
    StartedRun,
    UpcomingJob,
    UpcomingJobs,
    ValidatedCron,
    Warned,
)
from holdfast.schedules.blackout_routes import routes as blackout_routes
from holdfast.schedules.body_schemas import (
    CronToValidate,
    Duplicate,
    NewSchedule,
    PreviewedSchedule,
    RunBody,
    ScheduleChange,
    Snooze,
)
from holdfast.schedules.calendar import cron, entries
from holdfast.schedules.calendar.entries import Planned, Span
from holdfast.schedules.calendar.plan import Calendar, next_due
from holdfast.schedules.edit import Editor
from holdfast.schedules.models import Mode, Schedule
from holdfast.schedules.present import Presented
from holdfast.schedules.run_routes import routes as run_routes
from holdfast.schedules.running import manual_runs
from holdfast.schedules.running.chains import operations_of
from holdfast.schedules.step_schemas import MOST_FIRES
from holdfast.schedules.store import Target
from holdfast.schedules.visible_schedules import VisibleSchedules

paths = router("", "schedules")
"""Served under two prefixes; see the end of this file."""

SHOWN_NEXT_RUNS = 5
JSON = "application/json"
MOST_HOURS = 24 * 62


async def the_editor(request: Request) -> Editor:
    return Editor(REGISTRY.of(request.app))


TheEditor = Annotated[Editor, Depends(the_editor)]
TheRegistry = Annotated[Registry, Depends(REGISTRY)]


# All of them
# -----------------------------------------------------------------------------------------------------------


@paths.get("/", summary="List all schedules visible to you", response_model=Schedules)
def list_schedules(
    caller: SignedIn,
    session: Reading,
    repository_id: Annotated[RowId | None, Query(description="Only those that include this repository.")] = None,
    enabled: bool | None = None,
    label: LabelFilter = (),
) -> Response:
    """If you may see only some of a schedule's targets, it is shown with only those."""
    seen = VisibleSchedules.of(session, caller)
    wanted = labels.parse(label)
    kept = [
        schedule
        for schedule in store.listed(session)
        if seen.sees(schedule)
        and enabled in (None, schedule.enabled)
        and _includes(seen.targets(schedule), repository_id, wanted)
    ]
    answer = Presented(session, seen, clock.now()).listed(kept, is_paused=store.is_paused(session))
    return Response(answer, media_type=JSON)


def _includes(targets: Sequence[Target], repository_id: int | None, wanted: dict[str, str | None]) -> bool:
    if repository_id is None and not wanted:
        return True
    return any(repository_id in (None, each.id) and labels.matches(wanted, each.labels) for each in targets)


@paths.post("/", summary="Create a schedule", status_code=201, responses=documented(404, 409))
def create_schedule(caller: SignedIn, wanted: NewSchedule, session: Writing, editor: TheEditor) -> ScheduleAnswer:
    """Needs the role operator on every target; on all repositories for `labels` and `all`."""
    return _answer(session, caller, editor.create(session, caller, wanted))


@paths.post("/preview", summary="Preview an unsaved schedule", response_model=Preview, responses=documented(404))
@computes
def preview_schedule(
    caller: SignedInToRead, wanted: PreviewedSchedule, database: TheDatabase, editor: TheEditor
) -> Steps:
    """Stores nothing. Fails with the same errors as creating the schedule, but does not require targets."""
    with database.reading() as session:
        schedule = editor.draft(session, caller, wanted)
        for repository_id in schedule.targets.get("repository_ids") or ():
            repositories.require(session, caller, repository_id, Role.VIEWER)
        editor.check(session, schedule, needs_targets=False)
        planned = _planned(session, VisibleSchedules.of_one(session, caller), schedule)
    now = clock.now()
    answer = yield pack_call(entries.looked_ahead, planned, wanted.since or now, now, wanted.count)
    return Response(answer, media_type=JSON)


def _planned(session: Session, seen: VisibleSchedules, schedule: Schedule) -> Planned:
    places = [present.place(each) for each in seen.targets(schedule)]
    return present.planned(schedule, places, present.days_of(store.blackouts(session)))


@paths.get(
    "/calendar",
    summary="Get past and future due times of all schedules",
    response_model=CalendarAnswer,
    responses=documented(404),
)
@computes
def read_calendar(
    caller: SignedIn,
    database: TheDatabase,
    since: Moment | None = None,
    until: Moment | None = None,
    repository_id: RowId | None = None,
) -> Steps:
    """At most 62 days, 10,000 entries and 1,000,000 future starts over all targets; `truncated` if there are more.

    Past entries show what happened; future ones are computed.
    """
    now = clock.now()
    start = since or now
    span = Span(start, until or start + timedelta(days=31))
    if span.until - span.since > timedelta(days=overview.MOST_DAYS):
        raise Unprocessable(
            "schedules.span_too_long",
            f"The calendar shows at most {overview.MOST_DAYS} days.",
            days=overview.MOST_DAYS,
        )
    with database.reading() as session:
        seen = VisibleSchedules.of(session, caller)
        if repository_id is not None and not seen.includes(repository_id):
            raise rights.repository_not_found(repository_id)
        stored = overview.read_stored(session, seen, span, now, repository_id)
    answer = entries.calendar(stored) if entries.is_small(stored) else (yield pack_call(entries.calendar, stored))
    return Response(answer, media_type=JSON)


# For clients written for related products
# ----------------------------------------------------------------------------------


@paths.get("/cron-presets", summary="List common cron expressions")
def list_presets(_caller: SignedIn) -> Presets:
    return Presets(presets=presets.PRESETS)


@paths.post("/validate-cron", summary="Preview a cron expression")
def validate_cron(_caller: SignedInToRead, wanted: CronToValidate) -> ValidatedCron:
    """Also answers 200 if the expression is not valid; `error` explains why."""
    expression = wanted.expression()
    try:
        edit.check_calendar(Schedule(schedule_mode=Mode.CRON, cron_expression=expression, timezone=wanted.timezone))
    except HoldfastError as error:
        return ValidatedCron(
            valid=False,
            cron_expression=expression,
            description=None,
            next_runs=[],
            error=Warned(key=error.key, message=error.message),
        )
    calendar = Calendar("cron", expression, wanted.timezone)
    runs = [clock.now()]
    while len(runs) <= SHOWN_NEXT_RUNS and (due := next_due(calendar, runs[-1])) is not None:
        runs.append(due)
    description = cron.explain(expression)
    return ValidatedCron(
        valid=True, cron_expression=expression, description=description, next_runs=runs[1:], error=None
    )


@paths.get("/upcoming-jobs", summary="List schedules due soon")
def upcoming_jobs(
    caller: SignedIn, session: Reading, hours: Annotated[int, Query(ge=1, le=MOST_HOURS)] = 24
) -> UpcomingJobs:
    seen, now = VisibleSchedules.of(session, caller), clock.now()
    blackouts = present.days_of(store.blackouts(session))
    jobs = []
    for schedule in store.listed(session):
        targets = seen.targets(schedule)
        starts = present.next_start(schedule, targets, blackouts, now) if seen.sees(schedule) else None
        if starts is not None and starts <= now + timedelta(hours=hours):
            one = repositories.get(session, targets[0].id) if len(targets) == 1 else None
            jobs.append(
                UpcomingJob(
                    id=schedule.id,
                    name=schedule.name,
                    repository=one.path if one else None,
                    repository_ids=[target.id for target in targets],
                    next_run=starts,
                    cron_expression=schedule.cron_expression,
                )
            )
    return UpcomingJobs(upcoming_jobs=sorted(jobs, key=lambda job: job.next_run), hours_ahead=hours)


# One schedule
# -----------------------------------------------------------------------------------------------------------


@paths.get("/{schedule_id}", summary="One schedule", responses=documented(404))
def read_schedule(caller: SignedIn, schedule_id: RowId, session: Reading) -> ScheduleAnswer:
    return _answer(
        session, caller, visible_schedules.require_seen(session, VisibleSchedules.of_one(session, caller), schedule_id)
    )


@paths.put("/{schedule_id}", summary="Change a schedule", responses=documented(404, 409))
def change_schedule(
    caller: SignedIn, schedule_id: RowId, wanted: ScheduleChange, session: Writing, editor: TheEditor
) -> ScheduleAnswer:
    """A changed calendar applies from now on. Waiting runs stay due, with the new steps and targets."""
    schedule = visible_schedules.require_operator(session, caller, schedule_id)
    return _answer(session, caller, editor.change(session, caller, schedule, wanted))


@paths.delete("/{schedule_id}", summary="Delete a schedule", status_code=204, responses=documented(404))
def delete_schedule(caller: SignedIn, schedule_id: RowId, session: Writing) -> Response:
    """Waiting runs are skipped; running ones continue, and the history is kept."""
    edit.delete(session, caller, visible_schedules.require_operator(session, caller, schedule_id))
    return Response(status_code=204)


@paths.post("/{schedule_id}/enable", summary="Enable a schedule", responses=documented(404))
def enable_schedule(caller: SignedIn, schedule_id: RowId, session: Writing) -> ScheduleAnswer:
    schedule = visible_schedules.require_operator(session, caller, schedule_id)
    return _answer(session, caller, edit.set_enabled(session, caller, schedule, enabled=True))


@paths.post("/{schedule_id}/disable", summary="Disable a schedule", responses=documented(404))
def disable_schedule(caller: SignedIn, schedule_id: RowId, session: Writing) -> ScheduleAnswer:
    """A disabled schedule has no due times. Waiting runs are skipped; running ones continue."""
    schedule = visible_schedules.require_operator(session, caller, schedule_id)
    return _answer(session, caller, edit.set_enabled(session, caller, schedule, enabled=False))


@paths.post("/{schedule_id}/toggle", summary="Enable or disable a schedule", responses=documented(404))
def toggle_schedule(caller: SignedIn, schedule_id: RowId, session: Writing) -> ScheduleAnswer:
    schedule = visible_schedules.require_operator(session, caller, schedule_id)
    return _answer(session, caller, edit.set_enabled(session, caller, schedule, enabled=not schedule.enabled))


@paths.post("/{schedule_id}/snooze", summary="Snooze a schedule", responses=documented(404))
def snooze_schedule(caller: SignedIn, schedule_id: RowId, wanted: Snooze, session: Writing) -> ScheduleAnswer:
    schedule = visible_schedules.require_operator(session, caller, schedule_id)
    return _answer(session, caller, edit.snooze(session, caller, schedule, wanted.until))


@paths.post("/{schedule_id}/duplicate", summary="Copy a schedule", status_code=201, responses=documented(404, 409))
def duplicate_schedule(
    caller: SignedIn,
    schedule_id: RowId,
    session: Writing,
    editor: TheEditor,
    wanted: Annotated[Duplicate | None, Body()] = None,
) -> ScheduleAnswer:
    """The copy is disabled."""
    schedule = visible_schedules.require_operator(session, caller, schedule_id)
    return _answer(session, caller, editor.duplicate(session, caller, schedule, (wanted or Duplicate()).name))


@paths.get(
    "/{schedule_id}/next",
    summary="Get the next due times of a schedule",
    response_model=Fires,
    responses=documented(404),
)
@computes
def read_next(
    caller: SignedIn, schedule_id: RowId, database: TheDatabase, count: Annotated[int, Query(ge=1, le=MOST_FIRES)] = 10
) -> Steps:
    """Empty while the schedule is disabled, and in availability mode, where evidence decides."""
    with database.reading() as session:
        seen = VisibleSchedules.of_one(session, caller)
        schedule = visible_schedules.require_seen(session, seen, schedule_id)
        planned = _planned(session, seen, schedule)
        is_enabled = schedule.enabled
    answer = yield pack_call(entries.fires, planned, clock.now(), count if is_enabled else 0)
    return Response(answer, media_type=JSON)


def run_schedule(
    registry: TheRegistry,
    caller: LoginOnly,
    schedule_id: RowId,
    session: Writing,
    once: Once,
    wanted: Annotated[RunBody | None, Body()] = None,
) -> Any:
    """Starts immediately, regardless of calendar, snooze, pause and blackouts, and of windows unless `respect_windows`
    is set.
    """

    def start() -> StartedRun:
        asked = wanted or RunBody()
        schedule = visible_schedules.require_operator(session, caller, schedule_id)
        _check_asked(session, schedule, asked)
        rows = manual_runs.run_now(
            session,
            registry,
            schedule,
            asked.repository_ids,
            asked.steps,
            respect_windows=asked.respect_windows,
            caller=caller,
            now=clock.now(),
        )
        edit.audit_run(session, caller, schedule, [row.repository_id for row in rows])
        started = [StartedRow.from_row(row, operations=operations_of(row)) for row in rows]
        return StartedRun(run_id=rows[0].run_id or "", runs=started)

    return once(session, start)


for name in ("run", "run-now"):
    paths.add_api_route(
        f"/{{schedule_id}}/{name}",
        run_schedule,
        methods=["POST"],
        summary="Run a schedule now",
        responses=documented(404, 409),
        response_model=StartedRun,
        include_in_schema=name == "run",
    )


def _check_asked(session: Writing, schedule: Schedule, asked: RunBody) -> None:
    targets = {target.id for target in store.targets_of(session, schedule)}
    for repository_id in asked.repository_ids or ():
        if repository_id not in targets:
            raise Unprocessable(
                "schedules.not_a_target", "The schedule does not include this repository.", repository_id=repository_id
            )
    kinds = {step["kind"] for step in schedule.steps}
    for step in asked.steps or ():
        if step not in kinds:
            raise Unprocessable("schedules.no_such_step", "The schedule has no such step.", step=step[:64])


def _answer(session: Reading, caller: SignedIn, schedule: Schedule) -> ScheduleAnswer:
    return Presented(session, VisibleSchedules.of_one(session, caller), clock.now()).one(schedule)


def _under(prefix: str, *, documented_there: bool) -> APIRouter:
    """Return all routes of schedules under a prefix. Fixed paths come first, so that no word is taken for an id."""
    found = router(prefix, "schedules")
    parts = [route for part in (blackout_routes, run_routes, paths) for route in part.routes]
    for route in sorted(parts, key=lambda route: isinstance(route, APIRoute) and route.path.startswith("/{")):
        assert isinstance(route, APIRoute)
        found.add_api_route(
            route.path,
            route.endpoint,
            methods=sorted(route.methods or ()),
            summary=route.summary,
            responses=route.responses,
            status_code=route.status_code,
            response_model=route.response_model,
            include_in_schema=documented_there and route.include_in_schema,
        )
    return found


ROUTERS = (
    _under("/api/schedules", documented_there=True),
    _under("/api/schedule", documented_there=False),  # the prefix used by older clients of related products
)
