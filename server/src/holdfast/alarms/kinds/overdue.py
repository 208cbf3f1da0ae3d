"""`backup_overdue`, `check_overdue`, `restore_check_overdue`, `mirror_behind`: the last success is too old."""

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from sqlalchemy import Select, case, column, func, or_, select, table, true
from sqlalchemy.orm import InstrumentedAttribute

from holdfast.alarms.kind import AlarmKind, EvaluationContext, Finding, Subject, age, on_day, shown
from holdfast.alarms.models import Severity
from holdfast.alarms.thresholds import AlarmThresholds
from holdfast.repositories.evidence_times import CLOCKS_DIFFER
from holdfast.repositories.models import Repository
from holdfast.storage.bulk import flushed_connection

HOUR, DAY = 3_600.0, 86_400.0

_mirrors = table(
    "repository_mirrors", column("repository_id"), column("mode"), column("created_at", Repository.created_at.type)
)


def _candidates(asked: Any) -> Select[*tuple[Any, ...]]:
    """Select repositories, and whether the alarm applies to them without a schedule."""
    return select(Repository.id, asked.label("asked")).where(Repository.mode != "observe")


def _find(
    context: EvaluationContext,
    *,
    cell: str,
    candidates: Select[*tuple[Any, ...]],
    success: Any,
    created: Any,
    own: Callable[[AlarmThresholds], float | None],
) -> Iterator[Finding]:
    """Find repositories whose last success is too old; without one, its age counts from `created`.

    `own` returns a threshold set for alarms, if there is one.
    """
    least = _least(context, cell, own)
    if least is None:
        return
    known = case((success <= context.now + CLOCKS_DIFFER, success))
    since = func.coalesce(known, created)
    old = candidates.add_columns(known, since).where(since < context.now - timedelta(seconds=least))
    for number, asked, last, counted_from in flushed_connection(context.session).execute(old).all():
        rule = context.overdue.get(number, {}).get(cell)
        thresholds = context.thresholds.of(number)
        seconds = own(thresholds) or (rule.seconds if rule else None)
        wanted = asked or (rule is not None and rule.schedule_id is not None)
        passed = (context.now - counted_from).total_seconds()
        if seconds is None or not wanted or passed <= seconds:
            continue
        critical = passed > seconds * thresholds.critical_factor
        evidence = {
            "last_success_at": shown(last),
            "counted_from": shown(counted_from),
            "threshold_seconds": int(seconds),
            "schedule_id": rule.schedule_id if rule else None,
        }
        yield Finding(Subject("repository", number), Severity.CRITICAL if critical else Severity.WARNING, evidence)


def _least(context: EvaluationContext, cell: str, own: Callable[[AlarmThresholds], float | None]) -> float | None:
    """The smallest threshold of any repository: repositories with a more recent success cannot be overdue."""
    known = [context.least_overdue[cell]] if cell in context.least_overdue else []
    known += [seconds for one in context.thresholds.every() if (seconds := own(one)) is not None]
    return min(known, default=None)


def _message(what: str, name: str, evidence: Mapping[str, Any]) -> str:
    last = evidence.get("last_success_at")
    limit = age(float(evidence.get("threshold_seconds") or 0))
    if last is None:
        return f"{name}: {what} has never succeeded, and is overdue after {limit}."
    return f"{name}: the last successful {what} was at {on_day(last)}; it is overdue after {limit}."


def _kind(
    name: str,
    what: str,
    cell: str,
    column_: InstrumentedAttribute[datetime | None],
    own: Callable[[AlarmThresholds], float | None],
    *,
    always: bool = False,
) -> AlarmKind:
    """Build a kind of alarm.

    With `always`, it applies to every repository, not only where a schedule asks for the job or the job has succeeded
    before.
    """
    candidates = _candidates(true() if always else column_.is_not(None))
    find = partial(_find, cell=cell, candidates=candidates, success=column_, created=Repository.created_at, own=own)
    return AlarmKind(name, find, partial(_message, what))


def _of(field: str, unit: float) -> Callable[[AlarmThresholds], float | None]:
    def own(thresholds: AlarmThresholds) -> float | None:
        value: float | None = getattr(thresholds, field)
        return None if value is None else value * unit

    return own


BACKUP = _kind(
    "backup_overdue", "backup", "backup", Repository.last_backup, _of("backup_overdue_hours", HOUR), always=True
)
CHECK = _kind("check_overdue", "check", "check", Repository.last_check, _of("check_overdue_days", DAY))
RESTORE_CHECK = _kind(
    "restore_check_overdue",
    "restore check",
    "restore_check",
    Repository.last_restore_check,
    _of("restore_check_overdue_days", DAY),
)

# A mirror that is synced manually is late only if a schedule requires it. A mirror that contains the latest backup is
# not behind, however old both are.
_BEHIND = (
    select(Repository.id, (_mirrors.c.mode != "manual").label("asked"))
    .join(_mirrors, _mirrors.c.repository_id == Repository.id)
    .where(or_(Repository.last_mirror.is_(None), Repository.last_backup > Repository.last_mirror))
)
MIRROR = AlarmKind(
    "mirror_behind",
    partial(
        _find,
        cell="mirror",
        candidates=_BEHIND,
        success=Repository.last_mirror,
        created=_mirrors.c.created_at,
        own=_of("mirror_behind_days", DAY),
    ),
    partial(_message, "sync of the mirror"),
)
