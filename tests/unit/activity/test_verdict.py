"""One word for how well a repository is protected: the worst that its evidence shows."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import pytest

from holdfast.activity.verdict import Failure, judge, severity
from holdfast.operations.pages import Ended
from holdfast.operations.status import Status
from holdfast.repositories.models import Repository
from holdfast.repositories.overdue import OverdueAfter

NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)
DAY = 86_400.0
RULES = {"backup": OverdueAfter(7 * DAY), "restore_check": OverdueAfter(90 * DAY)}


def ago(days: float) -> datetime:
    return NOW - timedelta(days=days)


def repository(**more: object) -> Repository:
    fields = {
        "id": 1,
        "name": "etc",
        "mode": "full",
        "setup_state": "ready",
        "index_mode": "full",
        "created_at": ago(100),
        "last_backup": ago(0.5),
        "last_restore_check": ago(2),
        "last_synced": ago(0.01),
        **more,
    }
    return Repository(**fields)


def failure(kind: str, key: str, days: float = 0.1) -> dict[str, Failure]:
    return {kind: Failure(7, kind, key, "It failed.", ago(days))}


def verdict(
    one: Repository, failures: dict[str, Failure] | None = None, *, rules: Mapping[str, OverdueAfter] = RULES
) -> tuple[str, str]:
    endings = {"restore_check": Ended(3, Status.COMPLETED, ago(2))}
    found = judge(one, endings, failures or {}, NOW, rules=rules, reconcile_minutes=60)
    return found.verdict, found.reason


def test_a_recent_backup_and_restore_check_are_proof() -> None:
    assert verdict(repository()) == ("proven", "")


@pytest.mark.parametrize(
    ("fields", "failures", "expected"),
    [
        ({"setup_state": "failed"}, {}, ("broken", "setup_failed")),
        ({}, failure("check", "engine.damage_found"), ("broken", "damaged")),
        ({}, failure("backup", "engine.repository_missing"), ("broken", "shut")),
        ({}, failure("backup", "repository.replaced"), ("broken", "shut")),
        ({}, failure("backup", "engine.disk_full"), ("at_risk", "backup_failed")),
        ({"last_backup": None}, {}, ("at_risk", "backup_never")),
        ({"last_backup": ago(8)}, {}, ("at_risk", "backup_overdue")),
        ({"last_backup": ago(-400)}, {}, ("at_risk", "backup_never")),
        ({"last_backup": ago(-400)}, failure("backup", "engine.disk_full"), ("at_risk", "backup_failed")),
        ({"last_backup": ago(-0.001)}, {}, ("proven", "")),
        ({"last_synced": ago(-400)}, {}, ("unknown", "never_synced")),
        ({"last_synced": None}, {}, ("unknown", "never_synced")),
        ({"last_synced": ago(3)}, {}, ("unknown", "evidence_old")),
        ({"setup_state": "pending", "last_backup": None}, {}, ("unknown", "setup_pending")),
        ({}, failure("restore_check", "restore_check.not_proven"), ("unproven", "restore_check_failed")),
        ({"last_restore_check": ago(91)}, {}, ("unproven", "restore_check_overdue")),
        ({}, failure("check", "engine.locked"), ("unproven", "check_failed")),
    ],
)
def test_the_verdict_is_the_worst_condition_that_applies(
    fields: dict[str, object], failures: dict[str, Failure], expected: tuple[str, str]
) -> None:
    assert verdict(repository(**fields), failures) == expected


def test_a_repository_without_a_restore_check_is_never_proven() -> None:
    one = repository(last_restore_check=None)
    found = judge(one, {}, {}, NOW, rules=RULES, reconcile_minutes=60)
    assert (found.verdict, found.reason) == ("unproven", "restore_check_never")


def test_an_archive_of_another_program_after_a_failed_backup_counts() -> None:
    assert verdict(repository(last_backup=ago(0.05)), failure("backup", "engine.disk_full")) == ("proven", "")


def test_nothing_is_overdue_on_a_plan_without_overdue_flags() -> None:
    assert verdict(repository(last_backup=ago(30)), rules={}) == ("proven", "")


def test_a_repository_without_an_index_needs_no_sync_to_be_proven() -> None:
    assert verdict(repository(index_mode="off", last_synced=None)) == ("proven", "")


def test_a_failed_backup_is_as_urgent_as_damage() -> None:
    found = judge(repository(), {}, failure("backup", "engine.disk_full"), NOW, rules=RULES, reconcile_minutes=60)
    assert severity(found) == "critical"


def test_a_more_frequent_schedule_makes_a_backup_overdue_sooner() -> None:
    hourly = {"backup": OverdueAfter(0.25 * DAY, schedule_id=3)}
    assert verdict(repository(), rules=hourly) == ("at_risk", "backup_overdue")
