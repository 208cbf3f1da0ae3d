"""Which archives the file history covers: those that the store records as indexed and the index contains."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from backup_engine.frozen import frozen
from holdfast.archives.schemas import Coverage, HistoryState
from holdfast.repositories.archive_records import Archive

if TYPE_CHECKING:
    from holdfast.history.index import HistoryIndex


class ArchiveColumns(NamedTuple):
    """The columns of an archive that are needed for answers about files. Across many repositories, reading whole rows
    would take longer than the search.
    """

    id: int
    repository_id: int
    engine_id: str
    name: str
    series: str
    start: datetime
    history_state: str


AnyArchive = Archive | ArchiveColumns


@frozen
class IndexedArchives:
    present: frozenset[str]
    kept: bool = True
    """Whether plan and index mode allow file history. If not, archives that are not indexed never will be."""

    @staticmethod
    def of(index: HistoryIndex | None, *, kept: bool = True) -> IndexedArchives:
        return IndexedArchives(frozenset(one.engine_id for one in index.archives()) if index else frozenset(), kept)

    def has(self, archive: AnyArchive) -> bool:
        return archive.history_state == "indexed" and archive.engine_id in self.present

    def state(self, archive: AnyArchive) -> HistoryState:
        if self.has(archive):
            return "indexed"
        if archive.history_state == "failed":
            return "failed"
        return "pending" if self.kept else "skipped"

    def coverage(self, archives: Sequence[AnyArchive]) -> Coverage:
        missing = [archive.id for archive in archives if not self.has(archive)]
        return Coverage(indexed=len(archives) - len(missing), total=len(archives), unindexed_archive_ids=missing)
