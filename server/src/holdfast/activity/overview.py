"""The overall backup status: running and failed jobs, overdue repositories, offline agents."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from sqlalchemy.orm import Session

from holdfast.activity.schemas import ActiveOperation, Health, Overview, RepositoryHealth
from holdfast.agents.schemas import MachineItem
from holdfast.alarms import present as present_alarms
from holdfast.alarms import store as alarm_store
from holdfast.alarms.schemas import AlarmItem
from holdfast.archives.status_view import CARE
from holdfast.kit import clock
from holdfast.operations import pages
from holdfast.operations.models import Operation
from holdfast.operations.pages import Ended
from holdfast.operations.present import Presenter
from holdfast.operations.schemas import OperationItem
from holdfast.operations.status import Status
from holdfast.repositories.evidence_times import unless_ahead
from holdfast.repositories.models import Repository

RECURRING = tuple(kind for care in CARE for kind in care.kinds)
"""Kinds of recurring jobs: a failure counts until the next success, however old it is."""
ONCE_FOR = timedelta(days=1)
"""How long the failure of any other job is shown."""
MOST = 200
BACKUP_DAYS = next(care.days for care in CARE if care.cell == "backup")
NEED_ATTENTION = frozenset({"failed", "overdue", "never"})
AWAY = frozenset({"offline", "failed"})

Endings = Mapping[tuple[int, str], Ended]


def read_overview(
    session: Session,
    presenter: Presenter,
    repositories: Sequence[Repository],
    machines: Sequence[MachineItem] | None,
    *,
    visible: frozenset[int] | None,
    is_admin: bool,
    with_overdue: bool,
) -> Overview:
    now = clock.now()
    endings = pages.newest_ended(session, [one.id for one in repositories], RECURRING)
    health = [_health(one, endings.get((one.id, "backup")), now, with_overdue=with_overdue) for one in repositories]
    active = active_operations(session, presenter, visible, is_admin=is_admin)
    failed = _failed(session, presenter, endings, now, visible, is_admin=is_admin)
    warned = _items(
        session, presenter, [one.id for one in endings.values() if one.status == Status.COMPLETED_WITH_WARNINGS]
    )
    away = None if machines is None else [one for one in machines if one.status in AWAY]
    alarms = _alarms(session, now, visible, is_admin=is_admin)
    attention = bool(failed or away or alarms or any(one.health in NEED_ATTENTION for one in health))
    return Overview(
        verdict="attention" if attention else "ok",
        summary=_summary(health, failed, warned, away or [], alarms),
        checked_at=now,
        repositories=health,
        running=[one for one in active if one.status == Status.RUNNING],
        waiting=[one for one in active if one.status == Status.PENDING],
        failed=failed,
        warned=warned,
        alarms=alarms,
        machines_offline=away,
    )


def _health(repository: Repository, ended: Ended | None, now: datetime, *, with_overdue: bool) -> RepositoryHealth:
    last = unless_ahead(repository.last_backup, now)
    overdue = last is not None and BACKUP_DAYS is not None and now - last > timedelta(days=BACKUP_DAYS)
    health, summary = _judged(repository, ended, now, overdue=overdue and with_overdue)
    return RepositoryHealth(
        repository_id=repository.id,
        name=repository.name,
        health=health,
        summary=summary,
        last_backup=last,
        last_operation_id=ended.id if ended else None,
        overdue=overdue if with_overdue else None,
    )


def _judged(repository: Repository, ended: Ended | None, now: datetime, *, overdue: bool) -> tuple[Health, str]:
    last = unless_ahead(repository.last_backup, now)
    since = f"last success {_ago(now - last)}" if last else "never succeeded"
    outdated = bool(ended and ended.completed_at and last and last > ended.completed_at)
    if ended and ended.status == Status.FAILED and not outdated:
        return "failed", f"failed; {since}"
    if repository.mode == "observe":
        return "ok", "observed only"
    if last is None:
        return "never", "never backed up"
    if overdue:
        return "overdue", f"overdue: last backup {_ago(now - last)}"
    if ended and ended.status == Status.COMPLETED_WITH_WARNINGS and not outdated:
        return "warned", "ok, with warnings"
    return "ok", "ok"


def _ago(passed: timedelta) -> str:
    hours = int(passed.total_seconds() // 3600)
    return f"{hours // 24} days ago" if hours >= 48 else f"{hours} h ago" if hours else "less than 1 h ago"


def active_operations(
    session: Session, presenter: Presenter, visible: frozenset[int] | None, *, is_admin: bool
) -> list[ActiveOperation]:
    operations = [
        one for one in pages.active(session, visible, of_repositories_only=not is_admin) if one.executor != "inline"
    ]
    items = presenter.items(session, operations)
    return [
        ActiveOperation(**item.model_dump(), progress_details=operation.progress or {})
        for item, operation in zip(items, operations, strict=True)
    ]


def _failed(
    session: Session,
    presenter: Presenter,
    endings: Endings,
    now: datetime,
    visible: frozenset[int] | None,
    *,
    is_admin: bool,
) -> list[OperationItem]:
    recurring = [one.id for one in endings.values() if one.status == Status.FAILED]
    lately = pages.Filter(
        repositories=visible, of_repositories_only=not is_admin, statuses=(Status.FAILED,), since=now - ONCE_FOR
    )
    found, _ = pages.page(session, lately, MOST, None)
    others = [one.id for one in found if one.kind not in RECURRING and one.executor != "inline"]
    return _items(session, presenter, {*recurring, *others})


def _alarms(session: Session, now: datetime, visible: frozenset[int] | None, *, is_admin: bool) -> list[AlarmItem]:
    found = alarm_store.newest_open(session, now, MOST, visible, sees_all=is_admin)
    return present_alarms.items(session, found, now)


def _items(session: Session, presenter: Presenter, ids: Sequence[int] | set[int]) -> list[OperationItem]:
    operations: list[Operation] = pages.by_ids(session, sorted(ids, reverse=True)[:MOST])
    return presenter.items(session, operations)


def _summary(
    health: Sequence[RepositoryHealth],
    failed: Sequence[OperationItem],
    warned: Sequence[OperationItem],
    away: Sequence[MachineItem],
    alarms: Sequence[AlarmItem],
) -> str:
    if not health and not failed and not away and not alarms:
        return "No repositories yet."
    counted = (
        (len(failed), "failed job", "failed jobs"),
        (sum(one.health == "overdue" for one in health), "repository overdue", "repositories overdue"),
        (sum(one.health == "never" for one in health), "repository never backed up", "repositories never backed up"),
        (len(away), "machine offline", "machines offline"),
        (len(alarms), "alarm", "alarms"),
    )
    wrong = [f"{number} {one if number == 1 else many}" for number, one, many in counted if number]
    warnings = f"; {len(warned)} with warnings" if warned else ""
    if wrong:
        return f"Needs attention: {', '.join(wrong)}{warnings}."
    repositories = "1 repository is" if len(health) == 1 else f"All {len(health)} repositories are"
    return f"All is well: {repositories} backed up{warnings}."
