"""The machine to which files are restored, as the host of the restore knows it."""

from abc import ABC, abstractmethod
from collections.abc import Iterable

from backup_engine.frozen import frozen
from backup_engine.guarded import Guard
from backup_jobs.restore.private_tree import PrivateTree
from backup_jobs.work import Work
from backup_protocol import RestoreBlock


class Refused(Exception):
    """This machine does not allow restores to a place. The message is the complete answer."""

    key = "restore.destination_forbidden"


class RestorePlace(ABC):
    @property
    @abstractmethod
    def key(self) -> str:
        """Names the private folder: 32 hexadecimal digits, the same throughout the job."""

    @property
    @abstractmethod
    def guard(self) -> Guard:
        """Places that must be left alone."""

    def require(self, destination: bytes) -> None:
        """Raise Refused or DestinationUnusable unless files may be restored to this folder. Nothing is written yet."""
        del destination

    def require_targets(self, destination: bytes, targets: Iterable[bytes]) -> None:
        """The same for the listed paths, each where it lands relative to the destination."""
        del destination, targets

    def require_tree(self, private: PrivateTree, destination: bytes, roots: tuple[bytes, ...]) -> None:
        """The last check of the extracted tree, before anything is moved. Raise Refused."""
        del private, destination, roots

    def sweep(self, private: PrivateTree) -> None:
        """Remove the remains of other restores that were killed together with their machine."""
        del private


@frozen
class RestoreWork(Work[RestoreBlock]):
    known_place: RestorePlace | None = None

    @property
    def place(self) -> RestorePlace:
        assert self.known_place is not None, "a restore knows its machine"
        return self.known_place
