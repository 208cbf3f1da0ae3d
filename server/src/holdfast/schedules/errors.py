"""Errors about schedules."""

from typing import Any

from holdfast.errors import Conflict, NotFound, Unprocessable


def unknown(schedule_id: int) -> NotFound:
    return NotFound("schedules.not_found", "Schedule not found.", schedule_id=schedule_id)


def unknown_run(run_id: int) -> NotFound:
    return NotFound("schedules.run_not_found", "Schedule run not found.", id=run_id)


def name_taken(name: str) -> Conflict:
    return Conflict("schedules.name_taken", "A schedule with this name already exists; choose another name.", name=name)


def unknown_timezone(name: str) -> Unprocessable:
    return Unprocessable(
        "schedules.unknown_timezone",
        "Unknown time zone; use an IANA name such as Europe/Berlin.",
        timezone=name[:64],
    )


def too_often(least_minutes: int) -> Unprocessable:
    return Unprocessable(
        "schedules.too_often",
        f"At least {least_minutes} minutes must lie between two due times.",
        least_minutes=least_minutes,
    )


def step_unsupported(step: str, why: str, **params: Any) -> Unprocessable:
    return Unprocessable("schedules.step_unsupported", why, step=step, **params)
