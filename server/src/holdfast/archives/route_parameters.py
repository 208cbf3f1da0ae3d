"""Parameters of the archive routes: paths, and a caller's access to the file history."""

from typing import Annotated

from fastapi import Depends, Query
from sqlalchemy.orm import Session

from backup_engine.frozen import frozen
from holdfast.access.caller import Caller, SignedIn
from holdfast.access.plans import NeedsArchiveHistory
from holdfast.access.roles import Role
from holdfast.api.dependencies import Reading
from holdfast.archives import paths
from holdfast.archives.archive_index import ARCHIVE_INDEX, ArchiveIndex
from holdfast.archives.live_answers import LIVE_ANSWERS, LiveAnswers
from holdfast.errors import Unprocessable
from holdfast.kit.fields import PlainText
from holdfast.repositories import store
from holdfast.repositories.cadence import CADENCE, Cadence
from holdfast.repositories.models import Repository
from holdfast.repositories.own_places import HiddenPaths, ServicePlaces, ThePlaces

PathQuery = Annotated[Annotated[str, PlainText(0, 16384)] | None, Query(description="Readable path.")]
ExactPath = Annotated[Annotated[str, PlainText(0, 90000)] | None, Query(description="Base64 of the path's bytes.")]
NameCursor = Annotated[
    Annotated[str, PlainText(1, 45_000)] | None, Query(description="`next_cursor` of the previous page.")
]
"""It contains a name of up to 16 KiB."""


@frozen
class PathParameters:
    """The path in a request, readable or exact."""

    path: str | None
    path_b64: str | None

    def exact(self) -> bytes:
        """Return the path's bytes; empty for the root. Raise Unprocessable for an invalid path."""
        return paths.from_request(self.path, self.path_b64)

    def required(self) -> bytes:
        """Return the path's bytes. Raise Unprocessable if the path is missing, empty or invalid."""
        if not (wanted := self.exact()):
            raise Unprocessable("archives.bad_path", "Specify the path of a file or folder.")
        return wanted


async def path_parameters(path: PathQuery = None, path_b64: ExactPath = None) -> PathParameters:
    return PathParameters(path, path_b64)


RequestedPath = Annotated[PathParameters, Depends(path_parameters)]
TheCadence = Annotated[Cadence, Depends(CADENCE)]
TheIndex = Annotated[ArchiveIndex, Depends(ARCHIVE_INDEX)]
TheLiveAnswers = Annotated[LiveAnswers, Depends(LIVE_ANSWERS)]


@frozen
class HistoryAccess:
    """A caller's access to the file history."""

    caller: Caller
    session: Session
    index: ArchiveIndex
    places: ServicePlaces

    def repository(self, repository_id: int) -> tuple[Repository, HiddenPaths]:
        """Return the repository, and the paths in it that the caller may not see. Raise NotFound."""
        repository = store.require(self.session, self.caller, repository_id, Role.VIEWER)
        return repository, self.places.hidden_paths(self.session, self.caller, repository)


def history_access(
    caller: SignedIn, _plan: NeedsArchiveHistory, session: Reading, index: TheIndex, places: ThePlaces
) -> HistoryAccess:
    return HistoryAccess(caller, session, index, places)


TheHistoryAccess = Annotated[HistoryAccess, Depends(history_access)]
