"""`schedule_missing`: no schedule backs up this repository, and it has had no backup for a week."""

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any

from sqlalchemy import func, select

from holdfast.alarms.kind import AlarmKind, EvaluationContext, Finding, Subject, on_day, shown
from holdfast.alarms.models import Severity
from holdfast.repositories.models import Repository
from holdfast.storage.bulk import flushed_connection

_SINCE = func.coalesce(Repository.last_backup, Repository.created_at)
_CANDIDATES = select(Repository.id, Repository.last_backup, _SINCE.label("since")).where(Repository.mode != "observe")


def find(context: EvaluationContext) -> Iterator[Finding]:
    least = timedelta(days=context.thresholds.least("schedule_missing_days"))
    found = flushed_connection(context.session).execute(_CANDIDATES.where(context.now - least > _SINCE)).all()
    for number, last_backup, since in found:
        rule = context.overdue.get(number, {}).get("backup")
        if rule is not None and rule.schedule_id is not None:
            continue
        if context.now - since > timedelta(days=context.thresholds.of(number).schedule_missing_days):
            evidence = {"last_success_at": shown(last_backup), "counted_from": shown(since)}
            yield Finding(Subject("repository", number), Severity.WARNING, evidence)


def message(name: str, evidence: Mapping[str, Any]) -> str:
    since = on_day(evidence.get("counted_from"))
    return f"{name}: no enabled schedule backs it up, and its last backup is older than {since}."


KIND = AlarmKind("schedule_missing", find, message)
