"""The archive index: the operation kinds that maintain it, and access to its data."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from sqlalchemy.orm import Session

from backup_engine.frozen import frozen
from holdfast.access.plans import has_feature
from holdfast.api.parts import Part
from holdfast.archives import archives_stage, history_stage, stats_stage
from holdfast.archives.coverage import IndexedArchives
from holdfast.archives.fleet_names_updater import FleetNamesUpdater, RepositoryColumns
from holdfast.archives.index_state import IndexState
from holdfast.archives.indexes import Indexes, indexes_for
from holdfast.archives.stages import Stages
from holdfast.history.chunks.route import RouteChooser
from holdfast.operations.kinds import Effect, Kind, Listener
from holdfast.repositories.location import Opener
from holdfast.repositories.models import Repository
from holdfast.settings import Settings

if TYPE_CHECKING:
    from holdfast.history.index import HistoryIndex

T = TypeVar("T")


@frozen
class ArchiveIndex:
    kinds: tuple[Kind, ...]
    stages: Stages
    indexes: Indexes
    state: IndexState
    chooser: RouteChooser
    names_updater: FleetNamesUpdater

    @property
    def listeners(self) -> tuple[tuple[Effect, Listener], ...]:
        return ((Effect.ARCHIVES_CHANGED, self.stages.after_archives_changed),)

    def ask(
        self, repository: Repository | RepositoryColumns, question: Callable[[HistoryIndex | None, IndexedArchives], T]
    ) -> T:
        """Ask a repository's index, if there is one that can be trusted, and pass in which archives it covers."""
        kept = self.stages.builds_history(repository.index_mode)
        return self.indexes.ask(repository.uuid, lambda index: question(index, IndexedArchives.of(index, kept=kept)))

    def covered(self, repository: Repository) -> IndexedArchives:
        return self.ask(repository, lambda _index, covered: covered)

    def forget(self, session: Session, repository: Repository) -> None:
        """Remove the index of a repository that is being forgotten."""
        del session
        self.indexes.remove_all_of(repository.uuid)


ARCHIVE_INDEX = Part[ArchiveIndex]("archive_index")


def build(settings: Settings, opener: Opener) -> ArchiveIndex:
    indexes = indexes_for(settings)
    chooser = RouteChooser(settings.data_dir / "history" / "routes.json")
    names_updater = FleetNamesUpdater(settings.data_dir / "history", indexes)
    history = history_stage.kind(opener, indexes, chooser, on_indexed=names_updater.note_indexing)
    kinds = (archives_stage.kind(opener), stats_stage.kind(opener), history)
    stages = Stages({kind.name: kind for kind in kinds}, has_feature(settings, "archive_history"))
    return ArchiveIndex(kinds, stages, indexes, IndexState(settings, stages, indexes), chooser, names_updater)
