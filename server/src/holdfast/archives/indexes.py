"""The file-history indexes of all repositories: one file each, apart from the store of jobs."""

import threading
from pathlib import Path

import structlog

from holdfast.archives.history.errors import IndexDamaged, IndexMissing, IndexVersionMismatch
from holdfast.archives.history.index import HistoryIndex
from holdfast.archives.history.sqlite import SqliteStore

log = structlog.get_logger("holdfast.archives")


class Indexes:
    """Opens each repository's index once. Derived data: what cannot be trusted is thrown away and built again."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._open: dict[str, HistoryIndex] = {}
        self._guard = threading.Lock()

    def reading(self, repository_uuid: str) -> HistoryIndex | None:
        """The index, or None where there is none that can be read."""
        with self._guard:
            known = self._open.get(repository_uuid)
            if known is not None:
                if self._file(repository_uuid).exists():
                    return known
                known.close()
                del self._open[repository_uuid]
            try:
                index = HistoryIndex(SqliteStore(self._file(repository_uuid)))
            except (IndexMissing, IndexDamaged, IndexVersionMismatch):
                return None
            self._open[repository_uuid] = index
            return index

    def writing(self, repository_uuid: str) -> HistoryIndex:
        """The index, made anew where there is none that can be trusted."""
        if index := self.reading(repository_uuid):
            return index
        file = self._file(repository_uuid)
        if file.exists():
            log.warning("the history index cannot be used and is built anew", repository=repository_uuid)
            self.forget(repository_uuid)
        SqliteStore.create(file).close()
        index = self.reading(repository_uuid)
        assert index is not None
        return index

    def forget(self, repository_uuid: str) -> None:
        """Remove the index of a repository that is gone, or one that is to be built anew."""
        with self._guard:
            index = self._open.pop(repository_uuid, None)
        if index is not None:
            index.forget()
        for leftover in self._folder.glob(f"{repository_uuid}.db*"):
            leftover.unlink(missing_ok=True)

    def close(self) -> None:
        with self._guard:
            indexes, self._open = list(self._open.values()), {}
        for index in indexes:
            index.close()

    def _file(self, repository_uuid: str) -> Path:
        return self._folder / f"{repository_uuid}.db"
