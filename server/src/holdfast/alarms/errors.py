"""Errors of the alarm routes."""

from holdfast.errors import NotFound


def not_found(alarm_id: int) -> NotFound:
    return NotFound("alarms.not_found", "Alarm not found.", alarm_id=alarm_id)
