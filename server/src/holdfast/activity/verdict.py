"""How well a repository is protected: a verdict based on evidence alone, and the most important reason for it."""

import math
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Literal

from backup_engine.frozen import frozen
from holdfast.operations.pages import Ended
from holdfast.operations.status import Status
from holdfast.repositories.evidence_times import unless_ahead
from holdfast.repositories.models import Repository
from holdfast.repositories.overdue import OverdueAfter

Verdict = Literal["broken", "at_risk", "unproven", "unknown", "proven"]
Severity = Literal["critical", "warning", "info"]
WEIGHT: dict[Verdict, int] = {"broken": 0, "at_risk": 1, "unproven": 2, "unknown": 3, "proven": 4}
DAMAGE = frozenset({"engine.damaged", "engine.damage_found", "engine.damage_left"})
UNREADABLE_ERRORS = frozenset(
    {
        "engine.unreachable",
        "engine.repository_missing",
        "engine.not_a_repository",
        "engine.passphrase_missing",
        "engine.passphrase_wrong",
        "engine.repository_older",
        "engine.repository_relocated",
        "repository.replaced",
    }
)
"""Errors that mean that the repository cannot be read at all in its current state."""
RECONCILES_MISSED = 3
NO_RULES: Mapping[str, OverdueAfter] = {}


def allowed_days(rules: Mapping[str, OverdueAfter], cell: str) -> int | None:
    """Number of days after which a cell is overdue, rounded up; None if no rule applies to it."""
    return math.ceil(rules[cell].seconds / 86_400) if cell in rules else None


def is_overdue(rules: Mapping[str, OverdueAfter], cell: str, last: datetime, now: datetime) -> bool:
    return cell in rules and now - last > timedelta(seconds=rules[cell].seconds)


@frozen
class Failure:
    """An operation that failed and has not succeeded since."""

    operation_id: int
    kind: str
    error_key: str | None
    message: str | None
    at: datetime | None


@frozen
class Judged:
    verdict: Verdict
    reason: str
    """The key of the reason; empty if the verdict is `proven`."""
    since: datetime | None = None
    operation_id: int | None = None
    error_key: str | None = None
    message: str | None = None
    threshold_days: int | None = None


def judge(
    repository: Repository,
    endings: Mapping[str, Ended],
    failures: Mapping[str, Failure],
    now: datetime,
    *,
    rules: Mapping[str, OverdueAfter],
    reconcile_minutes: int,
) -> Judged:
    """Return the most severe verdict that applies to a repository.

    `endings` contains the latest result of each kind of job, `rules` when each cell becomes overdue.
    """
    return (
        _broken(repository, failures)
        or _at_risk(repository, failures, now, rules)
        or _unknown(repository, now, reconcile_minutes)
        or _unproven(repository, endings.get("restore_check"), failures, now, rules)
        or Judged("proven", "", since=repository.last_restore_check)
    )


def _broken(repository: Repository, failures: Mapping[str, Failure]) -> Judged | None:
    if repository.setup_state == "failed":
        return Judged("broken", "setup_failed", repository.created_at, repository.setup_operation_id)
    for failure in sorted(failures.values(), key=lambda one: -one.operation_id):
        if failure.error_key in DAMAGE:
            return _of("broken", "damaged", failure)
        if failure.error_key in UNREADABLE_ERRORS:
            return _of("broken", "shut", failure)
    return None


def _at_risk(
    repository: Repository, failures: Mapping[str, Failure], now: datetime, rules: Mapping[str, OverdueAfter]
) -> Judged | None:
    failed = failures.get("backup")
    last = unless_ahead(repository.last_backup, now)
    if failed is not None and not (last and failed.at and last > failed.at):
        return _of("at_risk", "backup_failed", failed)
    if repository.setup_state != "ready":
        return Judged("unknown", "setup_pending", repository.created_at, repository.setup_operation_id)
    if last is None:
        return Judged("at_risk", "backup_never", repository.created_at)
    if is_overdue(rules, "backup", last, now):
        return Judged("at_risk", "backup_overdue", last, threshold_days=allowed_days(rules, "backup"))
    return None


def _unknown(repository: Repository, now: datetime, reconcile_minutes: int) -> Judged | None:
    """Old evidence proves nothing, however good it was."""
    if repository.index_mode == "off":
        return None
    last = unless_ahead(repository.last_synced, now)
    if last is None:
        return Judged("unknown", "never_synced", repository.created_at)
    oldest = timedelta(minutes=RECONCILES_MISSED * reconcile_minutes)
    if reconcile_minutes and now - last > max(oldest, timedelta(hours=1)):
        return Judged("unknown", "evidence_old", last)
    return None


def _unproven(
    repository: Repository,
    ended: Ended | None,
    failures: Mapping[str, Failure],
    now: datetime,
    rules: Mapping[str, OverdueAfter],
) -> Judged | None:
    """`ended` is the latest result of a restore check."""
    failed = failures.get("restore_check")
    if failed is not None:
        return _of("unproven", "restore_check_failed", failed)
    last = unless_ahead(repository.last_restore_check, now)
    if last is None and (ended is None or ended.status != Status.COMPLETED):
        return Judged(
            "unproven",
            "restore_check_never",
            repository.created_at,
            threshold_days=allowed_days(rules, "restore_check"),
        )
    if last is not None and is_overdue(rules, "restore_check", last, now):
        return Judged("unproven", "restore_check_overdue", last, threshold_days=allowed_days(rules, "restore_check"))
    failed = failures.get("check")
    return _of("unproven", "check_failed", failed) if failed is not None else None


def _of(verdict: Verdict, reason: str, failure: Failure) -> Judged:
    return Judged(verdict, reason, failure.at, failure.operation_id, failure.error_key, failure.message)


def severity(judged: Judged) -> Severity:
    if judged.verdict == "broken" or judged.reason == "backup_failed":
        return "critical"
    return "info" if judged.verdict == "unknown" else "warning"
