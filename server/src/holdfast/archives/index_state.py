"""The state of each repository's index, and the tick that keeps it fresh."""

from datetime import timedelta
from typing import Any

from sqlalchemy import case, func, select
from sqlalchemy.orm import Session

from holdfast.archives.indexes import Indexes
from holdfast.archives.stages import Stages
from holdfast.kit import clock
from holdfast.operations.models import Operation
from holdfast.operations.queue import Origin
from holdfast.operations.schemas import DerivedData, HistoryCounts, TroubledArchives
from holdfast.operations.status import Status, Trigger
from holdfast.operations.waiting_reasons import cannot_go_on
from holdfast.repositories import store
from holdfast.repositories.archive_records import Archive
from holdfast.repositories.evidence_times import unless_ahead
from holdfast.repositories.models import Repository
from holdfast.settings import Settings

STALE_AFTER_INTERVALS = 3
MOST_TROUBLED = 500


class IndexState:
    """Implements the kernel's interface for derived data."""

    def __init__(self, settings: Settings, stages: Stages, indexes: Indexes) -> None:
        self._interval = timedelta(minutes=settings.reconcile_minutes)
        self._stages = stages
        self._indexes = indexes

    def rows(self, session: Session, visible: frozenset[int] | None) -> tuple[list[DerivedData], HistoryCounts]:
        counts = _counts(session)
        totals = HistoryCounts()
        rows = []
        for repository in store.visible(session, visible):
            history = counts.get(repository.id, HistoryCounts())
            history.bytes = self._indexes.size(repository.uuid)
            self._tell_truth(history, repository)
            rows.append(
                DerivedData(
                    repository_id=repository.id,
                    repository_name=repository.name,
                    index_mode=repository.index_mode,
                    sync_state=self.sync_state(session, repository),
                    last_synced_at=repository.last_synced,
                    last_stats_at=repository.last_stats,
                    last_history_at=repository.last_history,
                    archives=repository.archive_count or 0,
                    history=history,
                )
            )
            for name in HistoryCounts.model_fields:
                setattr(totals, name, getattr(totals, name) + getattr(history, name))
        return rows, totals

    def _tell_truth(self, history: HistoryCounts, repository: Repository) -> None:
        """Correct the counts: archives of a lost index are pending again, and archives that nobody will index are
        skipped.
        """
        if not history.bytes:
            history.pending, history.indexed, history.rows = history.pending + history.indexed, 0, 0
        if not self._stages.builds_history(repository.index_mode):
            history.skipped, history.pending = history.skipped + history.pending, 0

    def sync_state(self, session: Session, repository: Repository) -> str:
        """Return `syncing` while an archive list is being read or is queued, `stale` if the last one is older than
        three intervals.
        """
        if _is_being_read(session, repository):
            return "syncing"
        now = clock.now()
        last = unless_ahead(repository.last_synced, now)
        if last is None:
            return "never"
        age = now - last
        return "stale" if age > STALE_AFTER_INTERVALS * self._interval else "fresh"

    def troubled(self, session: Session, repository_id: int) -> TroubledArchives:
        statement = (
            select(Archive)
            .where(
                Archive.repository_id == repository_id,
                (Archive.history_state == "failed") | Archive.history_truncated,
            )
            .order_by(Archive.start.desc(), Archive.id.desc())
            .limit(MOST_TROUBLED)
        )
        found = session.scalars(statement).all()
        return TroubledArchives(
            repository_id=repository_id,
            failed_archives=[_told(archive) for archive in found if archive.history_state == "failed"],
            truncated_archives=[_told(archive) for archive in found if archive.history_truncated],
        )

    def reconcile(self, session: Session, *, at_once: bool = False) -> tuple[int, int]:
        """Queue whatever a repository's mode keeps fresh if it is older than an interval or incomplete.

        With `at_once`, for requests by a person, queue it even if it is fresh. Return the number of repositories and of
        queued operations.
        """
        repositories = store.visible(session, None)
        enqueued = 0
        for repository in repositories:
            if self._needs_work(session, repository, at_once=at_once):
                enqueued += len(self._stages.keep_fresh(session, repository, Origin(Trigger.RECONCILE)))
        return len(repositories), enqueued

    def _needs_work(self, session: Session, repository: Repository, *, at_once: bool) -> bool:
        if not self._stages.kept_fresh(repository.index_mode) or repository.setup_state != "ready":
            return False
        if self._stages.is_at_work(session, repository.id):
            return False
        now = clock.now()
        last = unless_ahead(repository.last_synced, now)
        if at_once or last is None or now - last >= self._interval:
            return True
        if not self._stages.builds_history(repository.index_mode):
            return False
        if repository.archive_count and not self._indexes.size(repository.uuid):
            return True
        pending = select(Archive.id).where(
            Archive.repository_id == repository.id, Archive.history_state == "pending", Archive.lost_at.is_(None)
        )
        return session.scalars(pending.limit(1)).first() is not None


def _is_being_read(session: Session, repository: Repository) -> bool:
    """Return whether an archive list is being read, or waits only for its turn."""
    reading = select(Operation.id, Operation.lock_key).where(
        Operation.repository_id == repository.id,
        Operation.kind == "archives",
        Operation.status.in_((Status.RUNNING, Status.PENDING)),
    )
    found = session.execute(reading).all()
    if not found:
        return False
    stuck = cannot_go_on(session, sorted({row.lock_key for row in found if row.lock_key}))
    return any(row.id not in stuck for row in found)


def _told(archive: Archive) -> dict[str, object]:
    return {
        "id": archive.id,
        "name": archive.name,
        "series": archive.series,
        "start": archive.start.isoformat(),
        "error": archive.history_error,
        "error_key": archive.history_error_key,
        "attempts": archive.history_attempts,
    }


def _counts(session: Session) -> dict[int, HistoryCounts]:
    def counted(state: str) -> Any:
        return func.sum(case((Archive.history_state == state, 1), else_=0))

    statement = select(
        Archive.repository_id,
        counted("indexed"),
        counted("pending"),
        counted("failed"),
        counted("skipped"),
        func.sum(case((Archive.history_truncated, 1), else_=0)),
        func.sum(func.coalesce(Archive.history_rows, 0)),
    ).group_by(Archive.repository_id)
    return {
        row[0]: HistoryCounts(
            indexed=row[1], pending=row[2], failed=row[3], skipped=row[4], truncated=row[5], rows=int(row[6])
        )
        for row in session.execute(statement)
    }
