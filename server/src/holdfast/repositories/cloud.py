"""The seam to the cloud feature. A repository of engine 1 that is created there is stored in a folder here and mirrored
there; engine 2 keeps it there itself.
"""

from typing import Protocol

from sqlalchemy.orm import Session

from holdfast.access.caller import Caller
from holdfast.api.parts import Part
from holdfast.repositories.models import Repository
from holdfast.repositories.place import Place
from holdfast.repositories.schemas import NewRepository, RepositoryPlace


class CloudPlaces(Protocol):
    def placed(self, wanted: NewRepository) -> NewRepository:
        """The request, with the folder of this machine as its path. Raise HoldfastError if it cannot be mirrored."""

    def native(self, wanted: RepositoryPlace) -> Place | None:
        """Where the engine itself will keep the repository; None: not on a remote. Raise HoldfastError if it cannot."""

    def created(self, session: Session, caller: Caller, repository: Repository, wanted: RepositoryPlace) -> None:
        """Called in the transaction that stores the repository."""


CLOUD_PLACES = Part[CloudPlaces]("cloud_places")
