"""The interface to the cloud feature. A cloud repository of engine 1 is stored in a local folder and mirrored to the
remote; engine 2 stores it on the remote itself.
"""

from typing import Protocol

from sqlalchemy.orm import Session

from holdfast.access.caller import Caller
from holdfast.api.parts import Part
from holdfast.repositories.models import Repository
from holdfast.repositories.place import Place
from holdfast.repositories.schemas import NewRepository, RepositoryPlace


class CloudPlaces(Protocol):
    def with_local_folder(self, wanted: NewRepository) -> NewRepository:
        """Return the request with a local folder as its path. Raise HoldfastError if it cannot be mirrored."""

    def place_on_remote(self, wanted: RepositoryPlace) -> Place | None:
        """Return where on a remote the engine itself will store it; None: not on a remote. Raise HoldfastError if it
        cannot.
        """

    def created(self, session: Session, caller: Caller, repository: Repository, wanted: RepositoryPlace) -> None:
        """Called in the transaction that stores the repository."""


CLOUD_PLACES = Part[CloudPlaces]("cloud_places")
