"""The file-history indexes of all repositories: derived data, separate from the store of jobs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, TypeVar

import structlog

from holdfast.errors import Unavailable
from holdfast.history import errors

if TYPE_CHECKING:
    from holdfast.history.index import HistoryIndex
    from holdfast.settings import Settings

log = structlog.get_logger("holdfast.archives")

T = TypeVar("T")
NOT_TO_BE_TRUSTED = (errors.IndexMissing, errors.IndexDamaged, errors.IndexVersionMismatch)
MOST_OPEN = 64
"""Number of recently used indexes that a process keeps open. Each needs descriptors, and memory for recent answers."""
NOT_NOW = (errors.IndexBusy, errors.IndexStorageFull, errors.IndexUnavailable)


class Indexes(ABC):
    """Opens each repository's index once. An index that cannot be trusted is discarded and rebuilt."""

    @abstractmethod
    def reading(self, repository_uuid: str) -> HistoryIndex | None:
        """Return the index; None if there is none that can be read."""

    def writing(self, repository_uuid: str) -> HistoryIndex:
        """Return the index, recreated if there is none that can be trusted.

        Raise IndexUnavailable, IndexStorageFull.
        """
        if index := self.reading(repository_uuid):
            return index
        if self._is_there(repository_uuid):
            log.warning("the history index cannot be used and is rebuilt", repository=repository_uuid)
            self.forget(repository_uuid)
        self._make(repository_uuid)
        index = self.reading(repository_uuid)
        if index is None:
            raise errors.IndexUnavailable("the index vanished as it was made")
        return index

    @abstractmethod
    def forget(self, repository_uuid: str) -> None:
        """Remove an index because its repository is gone or it is to be rebuilt."""

    @abstractmethod
    def size(self, repository_uuid: str) -> int:
        """Return the bytes on disk without opening the index; 0 if there is none."""

    @abstractmethod
    def building(self, repository_uuid: str) -> AbstractContextManager[bool]:
        """Hold the exclusive right, among all processes of the service, to build an index. Yield False if taken."""

    @abstractmethod
    def remove_all_of(self, repository_uuid: str) -> None:
        """Remove everything about a repository that is forgotten."""

    @abstractmethod
    def close(self) -> None: ...

    @abstractmethod
    def _is_there(self, repository_uuid: str) -> bool:
        """Return whether something is stored in the place of the index, readable or not."""

    @abstractmethod
    def _make(self, repository_uuid: str) -> None:
        """Create an empty index where there is none."""

    @abstractmethod
    def _is_current(self, repository_uuid: str, index: HistoryIndex) -> bool:
        """Return whether this is still the repository's index, not one that another process has replaced."""

    def ask(self, repository_uuid: str, question: Callable[[HistoryIndex | None], T]) -> T:
        """Ask the index, if there is one. An index that proves to be damaged is discarded and treated as missing."""
        index: HistoryIndex | None = None
        try:
            index = self.reading(repository_uuid)
            return question(index)
        except NOT_TO_BE_TRUSTED as damage:
            log.warning("a history index cannot be trusted", repository=repository_uuid, reason=str(damage))
            self._condemn(repository_uuid, index)
            return question(None)
        except NOT_NOW as error:
            sentence = "The file history is temporarily unavailable; try again."
            raise Unavailable("archives.index_unavailable", sentence, retry_after=5) from error

    def _condemn(self, repository_uuid: str, index: HistoryIndex | None) -> None:
        if index is not None and self._is_current(repository_uuid, index):
            self.forget(repository_uuid)


def indexes_for(settings: Settings) -> Indexes:
    """Return indexes in PostgreSQL if the jobs are stored there, so that all processes read what one has indexed."""
    if settings.database_url:
        from holdfast.archives.database_indexes import DatabaseIndexes  # needs a driver that other services do without

        return DatabaseIndexes(settings.database_url)
    from holdfast.archives.file_indexes import FileIndexes

    return FileIndexes(settings.data_dir / "history")
