"""Which archives the file history really has: what the store says of them, if the index agrees."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from holdfast.archives.schemas import Coverage, HistoryState
from holdfast.kit.frozen import frozen
from holdfast.repositories.archive_records import Archive

if TYPE_CHECKING:
    from holdfast.archives.history.index import HistoryIndex


@frozen
class Covered:
    present: frozenset[str]
    kept: bool = True
    """Whether plan and index mode have file history built: without that, nobody will index what is not indexed."""

    @staticmethod
    def by(index: HistoryIndex | None, *, kept: bool = True) -> Covered:
        return Covered(frozenset(one.engine_id for one in index.archives()) if index else frozenset(), kept)

    def has(self, archive: Archive) -> bool:
        return archive.history_state == "indexed" and archive.engine_id in self.present

    def state(self, archive: Archive) -> HistoryState:
        if self.has(archive):
            return "indexed"
        if archive.history_state == "failed":
            return "failed"
        return "pending" if self.kept else "skipped"

    def told(self, archives: Sequence[Archive]) -> Coverage:
        missing = [archive.id for archive in archives if not self.has(archive)]
        return Coverage(indexed=len(archives) - len(missing), total=len(archives), unindexed_archive_ids=missing)
