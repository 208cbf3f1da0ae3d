"""Refusals of the alarm routes."""

from holdfast.errors import Conflict, NotFound


def not_found(alarm_id: int) -> NotFound:
    return NotFound("alarms.not_found", "There is no such alarm.", alarm_id=alarm_id)


def already_cleared(alarm_id: int) -> Conflict:
    return Conflict(
        "alarms.cleared", "The alarm has already cleared; there is nothing to acknowledge.", alarm_id=alarm_id
    )
