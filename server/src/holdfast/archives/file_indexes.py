"""Indexes in files, one for each repository, apart from the store of jobs: used by a service on SQLite."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from backup_engine.file_lock import locked_if_free
from holdfast.archives.indexes import MOST_OPEN, NOT_TO_BE_TRUSTED, Indexes

if TYPE_CHECKING:
    from holdfast.history.index import HistoryIndex


class _Open:
    """An open index and its file, which another process may have replaced.

    The file is pinned so that its inode number is not reused. `O_PATH`, because closing any other descriptor of the
    file would release the locks that the database holds on it in this process.
    """

    def __init__(self, file: Path) -> None:
        from holdfast.history.index import HistoryIndex  # loads slowly, and is not needed at start-up
        from holdfast.history.sqlite import SqliteStore

        self._pin = os.open(file, os.O_PATH | os.O_CLOEXEC)
        try:
            self.index = HistoryIndex(SqliteStore(file))
        except BaseException:
            os.close(self._pin)
            raise

    def is_still(self, file: Path) -> bool:
        try:
            return os.path.samestat(os.fstat(self._pin), file.stat())
        except FileNotFoundError:
            return False

    def close(self) -> None:
        self.index.close()
        os.close(self._pin)

    def retire(self) -> None:
        """Like `close`, but do not wait for an ingest: it may continue, and other threads may still be reading."""
        self.index.retire()
        os.close(self._pin)

    def forget(self) -> None:
        self.index.forget()
        os.close(self._pin)


class FileIndexes(Indexes):
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._open: OrderedDict[str, _Open] = OrderedDict()
        self._guard = threading.Lock()

    def reading(self, repository_uuid: str) -> HistoryIndex | None:
        file = self._file(repository_uuid)
        with self._guard:
            known = self._open.get(repository_uuid)
            if known is not None:
                self._open.move_to_end(repository_uuid)
                if known.is_still(file):
                    return known.index
                known.close()
                del self._open[repository_uuid]
            try:
                opened = self._open[repository_uuid] = _Open(file)
            except (FileNotFoundError, *NOT_TO_BE_TRUSTED):
                return None
            if len(self._open) > MOST_OPEN:
                self._open.popitem(last=False)[1].retire()
            return opened.index

    def forget(self, repository_uuid: str) -> None:
        with self._guard:
            known = self._open.pop(repository_uuid, None)
        if known is not None:
            known.forget()
        for leftover in self._folder.glob(f"{repository_uuid}.db*"):
            leftover.unlink(missing_ok=True)

    def size(self, repository_uuid: str) -> int:
        """Add up all files of the index; 0 if the main file is missing, whatever else is left."""
        if not self._file(repository_uuid).exists():
            return 0
        return sum(_size(part) for part in self._folder.glob(f"{repository_uuid}.db*"))

    def building(self, repository_uuid: str) -> AbstractContextManager[bool]:
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        return locked_if_free(self._folder / f"{repository_uuid}.building")

    def remove_all_of(self, repository_uuid: str) -> None:
        self.forget(repository_uuid)
        (self._folder / f"{repository_uuid}.building").unlink(missing_ok=True)

    def close(self) -> None:
        with self._guard:
            opened, self._open = list(self._open.values()), OrderedDict()
        for one in opened:
            one.close()

    def _is_there(self, repository_uuid: str) -> bool:
        return self._file(repository_uuid).exists()

    def _make(self, repository_uuid: str) -> None:
        from holdfast.history.sqlite import SqliteStore

        SqliteStore.create(self._file(repository_uuid)).close()

    def _is_current(self, repository_uuid: str, index: HistoryIndex) -> bool:
        with self._guard:
            known = self._open.get(repository_uuid)
            return known is not None and known.index is index and known.is_still(self._file(repository_uuid))

    def _file(self, repository_uuid: str) -> Path:
        return self._folder / f"{repository_uuid}.db"


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except FileNotFoundError:
        return 0
