"""What can be wrong with a schedule."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from holdfast.errors import Conflict, NotFound, Unprocessable


def unknown(schedule_id: int) -> NotFound:
    return NotFound("schedules.not_found", "There is no such schedule.", schedule_id=schedule_id)


def unknown_run(run_id: int) -> NotFound:
    return NotFound("schedules.run_not_found", "There is no such run of a schedule.", id=run_id)


def unknown_blackout(blackout_id: int) -> NotFound:
    return NotFound("schedules.blackout_not_found", "There is no such blackout.", blackout_id=blackout_id)


def name_taken(name: str) -> Conflict:
    return Conflict("schedules.name_taken", "A schedule has this name already; choose another one.", name=name)


def revision_conflict(given: int, current: int) -> Conflict:
    return Conflict(
        "schedules.revision_conflict",
        "The schedule was changed meanwhile; nothing was changed now. Read it again and repeat your change.",
        given=given,
        current=current,
    )


def already_running(operation_ids: Sequence[int]) -> Conflict:
    return Conflict(
        "schedules.already_running",
        "A run of this schedule has not ended yet; wait for it or cancel it first.",
        operation_ids=list(operation_ids),
    )


def run_is_over(outcome: str) -> Conflict:
    return Conflict("schedules.run_is_over", "The run has ended already; nothing was cancelled.", outcome=outcome)


def bad_cron(expression: str, field: str) -> Unprocessable:
    what = "It needs five fields" if field == "expression" else f"Its field {field} cannot be read"
    return Unprocessable(
        "schedules.bad_cron",
        f"The cron expression is not valid. {what}: minute, hour, day of month, month, day of week.",
        field=field,
        cron_expression=expression[:200],
    )


def unknown_timezone(name: str) -> Unprocessable:
    return Unprocessable(
        "schedules.unknown_timezone",
        "There is no time zone of this name; use an IANA name such as Europe/Berlin.",
        timezone=name[:64],
    )


def never_fires(expression: str) -> Unprocessable:
    return Unprocessable(
        "schedules.never_fires", "No day matches this cron expression.", cron_expression=expression[:200]
    )


def too_often(least_minutes: int) -> Unprocessable:
    return Unprocessable(
        "schedules.too_often",
        f"At least {least_minutes} minutes must lie between two due times.",
        least_minutes=least_minutes,
    )


def field_missing(field: str, mode: str) -> Unprocessable:
    return Unprocessable("schedules.field_missing", f"The mode {mode} needs {field}.", field=field, schedule_mode=mode)


def no_targets() -> Unprocessable:
    return Unprocessable(
        "schedules.no_targets", "The schedule needs targets: repository_ids, labels, or all.", targets=None
    )


def no_retention(repository_ids: Sequence[int]) -> Unprocessable:
    return Unprocessable(
        "schedules.no_retention",
        "The prune step keeps nothing. Give it keep_daily or another rule, or give the repositories a retention.",
        repository_ids=list(repository_ids),
    )


def never_in_window() -> Unprocessable:
    return Unprocessable(
        "schedules.never_in_window",
        "No window opens between a due time and the next one, so nothing would ever run. Move the windows or the times.",
    )


def step_unsupported(step: str, why: str, **params: Any) -> Unprocessable:
    return Unprocessable("schedules.step_unsupported", why, step=step, **params)


def uuid_taken() -> Conflict:
    return Conflict("schedules.uuid_taken", "A schedule has this uuid already; leave it out to get a new one.")


def span_too_long(days: int) -> Unprocessable:
    return Unprocessable("schedules.span_too_long", f"The calendar shows at most {days} days at once.", days=days)


def not_in_the_future(until: datetime) -> Unprocessable:
    return Unprocessable(
        "schedules.not_in_the_future",
        "A snooze must end in the future; null ends one that is in force.",
        until=until.isoformat(),
    )


def not_a_target(repository_id: int) -> Unprocessable:
    return Unprocessable(
        "schedules.not_a_target", "The schedule does not include this repository.", repository_id=repository_id
    )


def no_such_step(step: str) -> Unprocessable:
    return Unprocessable("schedules.no_such_step", "The schedule has no such step.", step=step[:64])
