"""The file-history indexes of all repositories: derived data, apart from the store of jobs."""

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
"""Indexes that one process keeps open, those used last. Each takes descriptors, and memory for its latest answers."""
NOT_NOW = (errors.IndexBusy, errors.IndexStorageFull, errors.IndexUnavailable)


class Indexes(ABC):
    """Opens each repository's index once. What cannot be trusted is thrown away and built again."""

    @abstractmethod
    def reading(self, repository_uuid: str) -> HistoryIndex | None:
        """The index, or None where there is none that can be read."""

    def writing(self, repository_uuid: str) -> HistoryIndex:
        """The index, created again where there is none that can be trusted.

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
        """Remove the index of a repository that is gone, or one that is to be rebuilt."""

    @abstractmethod
    def size(self, repository_uuid: str) -> int:
        """Bytes on disk, without opening it; 0 where there is none."""

    @abstractmethod
    def building(self, repository_uuid: str) -> AbstractContextManager[bool]:
        """Hold the right to build an index, among all processes of the service. False when another holds it."""

    @abstractmethod
    def remove_all_of(self, repository_uuid: str) -> None:
        """A repository is forgotten: nothing of it stays."""

    @abstractmethod
    def close(self) -> None: ...

    @abstractmethod
    def _is_there(self, repository_uuid: str) -> bool:
        """Is there something in the place of the index, be it readable or not?"""

    @abstractmethod
    def _make(self, repository_uuid: str) -> None:
        """Make an empty index where there is none."""

    @abstractmethod
    def _is_current(self, repository_uuid: str, index: HistoryIndex) -> bool:
        """Is this still the index of the repository, or has another process built another one by now?"""

    def ask(self, repository_uuid: str, question: Callable[[HistoryIndex | None], T]) -> T:
        """Ask the index, if there is one. One that turns out to be damaged is thrown away, and was never there."""
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
    """In PostgreSQL where the jobs are there, so that processes on several machines read what one has indexed."""
    if settings.database_url:
        from holdfast.archives.database_indexes import DatabaseIndexes  # with a driver that others do without

        return DatabaseIndexes(settings.database_url)
    from holdfast.archives.file_indexes import FileIndexes

    return FileIndexes(settings.data_dir / "history")
