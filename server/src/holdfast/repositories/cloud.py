"""The seam to whoever mirrors repositories: one that is created in the cloud lies in a folder here and is mirrored there."""

from typing import Protocol

from sqlalchemy.orm import Session

from holdfast.access.caller import Caller
from holdfast.repositories.models import Repository
from holdfast.repositories.schemas import NewRepository


class CloudPlaces(Protocol):
    def placed(self, wanted: NewRepository) -> NewRepository:
        """What was asked for, with the folder of this machine as its path. Raise HoldfastError if it cannot be mirrored."""

    def created(self, session: Session, caller: Caller, repository: Repository, wanted: NewRepository) -> None:
        """Called in the transaction that stores the repository."""
