"""This machine as a place for restores, and the work of jobs that only an agent runs."""

import os
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager

from backup_agent.client import OpenStream
from backup_agent.protected_places import guard_of
from backup_agent.restore_to import RestoreTo
from backup_engine.frozen import frozen
from backup_engine.protected_places import ProtectedPlaces
from backup_jobs.host import Host
from backup_jobs.restore.place import RestorePlace, RestoreWork
from backup_jobs.restore.private_tree import PrivateTree
from backup_protocol import RestoreBlock


class AgentPlace(RestorePlace):
    def __init__(
        self, host: Host, block: RestoreBlock, own_folders: tuple[str, ...] = (), restore_to: RestoreTo | None = None
    ) -> None:
        self._host = host
        self._rule = restore_to or RestoreTo()
        self._guard = guard_of((*own_folders, *self._rule.own), block)

    @property
    def key(self) -> str:
        return str(self._host.once("key", lambda: {"key": os.urandom(16).hex()})["key"])

    @property
    def guard(self) -> ProtectedPlaces:
        return self._guard

    def require(self, destination: bytes) -> None:
        self._rule.require(destination)

    def require_targets(self, destination: bytes, targets: Iterable[bytes]) -> None:
        self._rule.require_targets(destination, targets)

    def require_tree(self, private: PrivateTree, destination: bytes, roots: tuple[bytes, ...]) -> None:
        self._rule.require_tree(private, destination, roots)


@frozen
class ReceiveWork(RestoreWork):
    open_stream: Callable[[], AbstractContextManager[OpenStream]] | None = None

    def receive(self) -> AbstractContextManager[OpenStream]:
        """Open the stream that the service sends for this job. Raise NoAnswer or Refusal."""
        assert self.open_stream is not None
        return self.open_stream()
