"""The seam to whoever keeps data derived from repositories (the archive index)."""

from typing import Protocol

from sqlalchemy.orm import Session

from holdfast.operations.schemas import DerivedData, HistoryCounts, TroubledArchives


class DerivedDataSource(Protocol):
    def rows(self, session: Session, visible: frozenset[int] | None) -> tuple[list[DerivedData], HistoryCounts]:
        """One row per repository that may be seen, and the sums."""

    def troubled(self, session: Session, repository_id: int) -> TroubledArchives:
        """The archives behind a row's failed and truncated counts, newest first."""

    def reconcile(self, session: Session, *, at_once: bool = False) -> tuple[int, int]:
        """Queue what is needed to bring derived data up to date, `at_once` also what is not old yet; return how many repositories were looked at and how
        many operations were queued."""
