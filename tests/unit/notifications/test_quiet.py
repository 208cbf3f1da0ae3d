"""Quiet hours by weekday, across midnight and across clock changes."""

import pytest

from holdfast.notifications.events.quiet import quiet_until
from tests.unit.notifications.world import at

NIGHT = {"from": "22:00", "to": "06:00", "timezone": "Europe/Berlin", "days": []}
NOON = {"from": "12:00", "to": "13:00", "timezone": "UTC", "days": ["mon"]}


@pytest.mark.parametrize(
    ("quiet", "now", "until"),
    [
        (None, "2026-11-16T23:00:00+00:00", None),
        (NIGHT, "2026-11-16T20:59:59+00:00", None),
        (NIGHT, "2026-11-16T21:00:00+00:00", "2026-11-17T05:00:00+00:00"),
        (NIGHT, "2026-11-17T04:59:59+00:00", "2026-11-17T05:00:00+00:00"),
        (NIGHT, "2026-11-17T05:00:00+00:00", None),
        (NIGHT, "2026-10-24T21:00:00+00:00", "2026-10-25T05:00:00+00:00"),  # the night is an hour longer
        (NIGHT, "2026-03-28T22:00:00+00:00", "2026-03-29T04:00:00+00:00"),  # and here an hour shorter
        (NOON, "2026-11-16T12:30:00+00:00", "2026-11-16T13:00:00+00:00"),
        (NOON, "2026-11-17T12:30:00+00:00", None),
        ({**NIGHT, "days": ["sun"], "timezone": "UTC"}, "2026-11-16T03:00:00+00:00", "2026-11-16T06:00:00+00:00"),
        ({**NIGHT, "days": ["mon"], "timezone": "UTC"}, "2026-11-16T03:00:00+00:00", None),
    ],
)
def test_quiet_hours_end_at_the_right_time(quiet: dict[str, str] | None, now: str, until: str | None) -> None:
    found = quiet_until(quiet, at(now))

    assert found == (at(until) if until else None)
