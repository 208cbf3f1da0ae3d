"""The parts of the service that instant reading contributes."""

from sqlalchemy.orm import Session

from holdfast.api.dependencies import DATABASE, SUPERVISOR
from holdfast.api.parts import Parts
from holdfast.archives.archive_index import ARCHIVE_INDEX
from holdfast.downloads.opening import CONTENTS
from holdfast.machines.machines import MACHINES
from holdfast.maintenance.by_chunks import ARCHIVE_READERS
from holdfast.operations.manifest import Feature, Task, Tick, When
from holdfast.reading.archive_verification import ArchiveReaders
from holdfast.reading.contents import Contents
from holdfast.reading.readers import FILE_READERS, TIDY_SECONDS, Readers
from holdfast.repositories.location import OPENER
from holdfast.repositories.models import Repository
from holdfast.repositories.register import REGISTER
from holdfast.runner.inline import INLINE_CALLS


def _readers(parts: Parts) -> Readers:
    chooser, supervisor = parts[ARCHIVE_INDEX].chooser, parts[SUPERVISOR]
    return Readers(parts[OPENER], chooser, parts[DATABASE], supervisor, parts[INLINE_CALLS])


def _connect(parts: Parts) -> None:
    readers = parts[FILE_READERS]

    def end_reader(_session: Session, repository: Repository) -> None:
        readers.end(repository.uuid)

    parts[REGISTER].on_forget.append(end_reader)
    parts[MACHINES].links.on_change.append(readers.end_those_of)


FEATURE = Feature(
    name="reading",
    provides=(
        FILE_READERS.made_by(_readers),
        ARCHIVE_READERS.made_by(lambda parts: ArchiveReaders(parts[ARCHIVE_INDEX].chooser)),
        CONTENTS.made_by(lambda parts: Contents(parts[ARCHIVE_INDEX].indexes, parts[FILE_READERS])),
    ),
    ticks=lambda parts: (Tick("readers", TIDY_SECONDS, parts[FILE_READERS].tidy, "api"),),
    tasks=lambda parts: (Task(When.CLOSE, parts[FILE_READERS].close),),
    connect=_connect,
)
