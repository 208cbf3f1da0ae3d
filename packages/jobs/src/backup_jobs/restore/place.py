"""The destination machine of a restore, as its host knows it."""

from abc import ABC, abstractmethod
from collections.abc import Iterable

from backup_engine.frozen import frozen
from backup_engine.protected_places import ProtectedPlaces
from backup_jobs.restore.private_tree import PrivateTree
from backup_jobs.work import Work
from backup_protocol import RestoreBlock


class Refused(Exception):
    """This machine does not allow restores to a place. The message is the complete error sentence."""

    key = "restore.destination_forbidden"


class RestorePlace(ABC):
    @property
    @abstractmethod
    def key(self) -> str:
        """Identifies the private folder: 32 hexadecimal digits, constant throughout the job."""

    @property
    @abstractmethod
    def guard(self) -> ProtectedPlaces:
        """Places that must not be touched."""

    def require(self, destination: bytes) -> None:
        """Raise Refused or DestinationUnusable unless files may be restored to this folder. Called before anything is
        written.
        """
        del destination

    def require_targets(self, destination: bytes, targets: Iterable[bytes]) -> None:
        """Raise Refused unless files may be restored to these paths, relative to the destination."""
        del destination, targets

    def require_tree(self, private: PrivateTree, destination: bytes, roots: tuple[bytes, ...]) -> None:
        """Check the extracted tree a last time before anything is moved. Raise Refused."""
        del private, destination, roots

    def remove_leftovers(self, private: PrivateTree) -> None:
        """Remove what other restores left behind when their machine went down."""
        del private


@frozen
class RestoreWork(Work[RestoreBlock]):
    known_place: RestorePlace | None = None

    @property
    def place(self) -> RestorePlace:
        assert self.known_place is not None, "a restore knows its machine"
        return self.known_place
