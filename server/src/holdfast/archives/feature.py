"""What the archive index brings to the service."""

from dataclasses import dataclass

from sqlalchemy.orm import Session

from holdfast.archives import history_stage, stats, sync
from holdfast.archives.derived import IndexState
from holdfast.archives.history.chunks.route import RouteChooser
from holdfast.archives.indexes import Indexes
from holdfast.archives.stages import Stages
from holdfast.operations.kinds import Effect, Kind, Listener
from holdfast.repositories.location import Opener
from holdfast.repositories.models import Repository
from holdfast.settings import Settings


@dataclass(frozen=True, slots=True)
class ArchiveIndex:
    kinds: tuple[Kind, ...]
    stages: Stages
    indexes: Indexes
    state: IndexState

    @property
    def listeners(self) -> tuple[tuple[Effect, Listener], ...]:
        return ((Effect.ARCHIVES_CHANGED, self.stages.after_archives_changed),)

    def forget(self, session: Session, repository: Repository) -> None:
        """A repository is being forgotten: its index goes with it."""
        del session
        self.indexes.forget(repository.uuid)


def build(settings: Settings, opener: Opener) -> ArchiveIndex:
    indexes = Indexes(settings.data_dir / "history")
    chooser = RouteChooser(settings.data_dir / "history" / "routes.json")
    kinds = (sync.kind(opener), stats.kind(opener), history_stage.kind(opener, indexes, chooser))
    stages = Stages({kind.name: kind for kind in kinds})
    return ArchiveIndex(kinds, stages, indexes, IndexState(settings, stages, indexes))
