"""What the routes of archives ask for: paths, and a caller's look into the file history."""

from typing import Annotated

from fastapi import Depends, Query
from sqlalchemy.orm import Session

from holdfast.access.caller import Caller, SignedIn
from holdfast.access.plans import NeedsArchiveHistory
from holdfast.access.roles import Role
from holdfast.api.dependencies import Reading
from holdfast.archives.archive_index import ARCHIVE_INDEX, ArchiveIndex
from holdfast.archives.live import LIVE_ANSWERS, LiveAnswers
from holdfast.kit.fields import PlainText
from holdfast.kit.frozen import frozen
from holdfast.repositories import store
from holdfast.repositories.cadence import CADENCE, Cadence
from holdfast.repositories.models import Repository
from holdfast.repositories.own_places import Sealed, ServicePlaces, ThePlaces

PathQuery = Annotated[Annotated[str, PlainText(0, 16384)] | None, Query(description="Readable path.")]
ExactPath = Annotated[Annotated[str, PlainText(0, 90000)] | None, Query(description="Base64 of the path's bytes.")]


TheCadence = Annotated[Cadence, Depends(CADENCE)]
TheIndex = Annotated[ArchiveIndex, Depends(ARCHIVE_INDEX)]
TheLiveAnswers = Annotated[LiveAnswers, Depends(LIVE_ANSWERS)]


@frozen
class Look:
    """A caller's look into the file history."""

    caller: Caller
    session: Session
    index: ArchiveIndex
    places: ServicePlaces

    def into(self, repository_id: int) -> tuple[Repository, Sealed]:
        """The repository, and which of its paths the caller may not see. Raise NotFound."""
        repository = store.require(self.session, self.caller, repository_id, Role.VIEWER)
        return repository, self.places.sealed(self.session, self.caller, repository)


def look(caller: SignedIn, _plan: NeedsArchiveHistory, session: Reading, index: TheIndex, places: ThePlaces) -> Look:
    return Look(caller, session, index, places)


Looking = Annotated[Look, Depends(look)]
