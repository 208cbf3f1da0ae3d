"""The interface to the feature that keeps data derived from repositories (the archive index)."""

from typing import Protocol

from sqlalchemy.orm import Session

from holdfast.api.parts import Part
from holdfast.operations.schemas import DerivedData, HistoryCounts, TroubledArchives


class DerivedDataSource(Protocol):
    def rows(self, session: Session, visible: frozenset[int] | None) -> tuple[list[DerivedData], HistoryCounts]:
        """Return one row per visible repository, and the totals."""

    def troubled(self, session: Session, repository_id: int) -> TroubledArchives:
        """Return the archives counted as failed or truncated in a repository's row, newest first."""

    def reconcile(self, session: Session, *, at_once: bool = False) -> tuple[int, int]:
        """Queue the work that brings derived data up to date; with `at_once`, also for data that is not yet stale.

        Return the number of repositories examined and the number of operations queued.
        """


DERIVED_DATA = Part[DerivedDataSource]("derived_data")
