"""A repository's health, derived from its last success and its last backup."""

from datetime import UTC, datetime, timedelta

import pytest

from holdfast.activity.overview import _health
from holdfast.operations.pages import Ended
from holdfast.operations.status import Status
from holdfast.repositories.models import Repository

NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)


def ended(status: Status, hours: float) -> Ended:
    return Ended(7, status, NOW - timedelta(hours=hours))


@pytest.mark.parametrize(
    ("last_success_hours", "last", "expected"),
    [
        (None, None, ("never", "never backed up")),
        (None, ended(Status.FAILED, 1), ("failed", "failed; never succeeded")),
        (1, ended(Status.COMPLETED, 1), ("ok", "ok")),
        (1, ended(Status.COMPLETED_WITH_WARNINGS, 1), ("warned", "ok, with warnings")),
        (50, ended(Status.FAILED, 1), ("failed", "failed; last success 2 days ago")),
        (1, ended(Status.FAILED, 50), ("ok", "ok")),  # another program has created an archive since
        (24 * 9, ended(Status.COMPLETED, 24 * 9), ("overdue", "overdue: last backup 9 days ago")),
    ],
)
def test_health_follows_from_the_last_success_and_the_last_backup(
    last_success_hours: float | None, last: Ended | None, expected: tuple[str, str]
) -> None:
    success = None if last_success_hours is None else NOW - timedelta(hours=last_success_hours)
    repository = Repository(id=1, name="etc", mode="full", last_backup=success)

    found = _health(repository, last, NOW, with_overdue=True)

    assert (found.health, found.summary) == expected


def test_nothing_is_overdue_without_overdue_flags_or_in_an_observed_repository() -> None:
    old = NOW - timedelta(days=30)
    unflagged = _health(Repository(id=1, name="etc", mode="full", last_backup=old), None, NOW, with_overdue=False)
    observed = _health(Repository(id=1, name="etc", mode="observe", last_backup=None), None, NOW, with_overdue=True)

    assert (unflagged.health, unflagged.overdue) == ("ok", None)
    assert observed.health == "ok"
