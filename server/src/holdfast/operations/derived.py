"""The seam to the feature that keeps data derived from repositories (the archive index)."""

from typing import Protocol

from sqlalchemy.orm import Session

from holdfast.api.parts import Part
from holdfast.operations.schemas import DerivedData, HistoryCounts, TroubledArchives


class DerivedDataSource(Protocol):
    def rows(self, session: Session, visible: frozenset[int] | None) -> tuple[list[DerivedData], HistoryCounts]:
        """One row per repository that may be seen, and the sums."""

    def troubled(self, session: Session, repository_id: int) -> TroubledArchives:
        """The archives behind a row's failed and truncated counts, newest first."""

    def reconcile(self, session: Session, *, at_once: bool = False) -> tuple[int, int]:
        """Queue the work that brings derived data up to date, with `at_once` also for data that is not old yet.

        Return how many repositories were examined and how many operations were queued.
        """


DERIVED_DATA = Part[DerivedDataSource]("derived_data")
