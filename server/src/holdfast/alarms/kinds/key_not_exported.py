"""`key_not_exported`: the key of a repository has no copy, so a single disk failure can make its data unreadable."""

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any

from sqlalchemy import select

from holdfast.alarms.kind import AlarmKind, EvaluationContext, Finding, Subject
from holdfast.alarms.models import Severity
from holdfast.repositories.models import Repository

_NEVER = select(Repository.id, Repository.created_at, Repository.encryption).where(
    Repository.encryption != "none", Repository.key_exported_at.is_(None)
)


def find(context: EvaluationContext) -> Iterator[Finding]:
    least = timedelta(days=context.thresholds.least("key_export_days"))
    for row in context.session.execute(_NEVER.where(Repository.created_at < context.now - least)):
        if context.now - row.created_at > timedelta(days=context.thresholds.of(row.id).key_export_days):
            # A key file exists on one machine only; a key in the repository is lost only together with the repository's
            # own metadata.
            severity = Severity.CRITICAL if row.encryption.startswith("keyfile") else Severity.WARNING
            yield Finding(Subject("repository", row.id), severity, {"encryption": row.encryption})


def message(name: str, evidence: Mapping[str, Any]) -> str:
    del evidence
    return f"{name}: its key has never been exported. Keep a copy elsewhere: holdfast repos export-key."


KIND = AlarmKind("key_not_exported", find, message)
