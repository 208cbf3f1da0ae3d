"""Folders and files of one archive, read from the index. Links, devices and pipes are not served."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from backup_engine.frozen import frozen
from backup_jobs.paths import readable
from holdfast.archives.archive_index import ArchiveIndex
from holdfast.archives.content_tags import etag_of
from holdfast.archives.coverage import IndexedArchives
from holdfast.dav.places import address, not_there
from holdfast.dav.properties import Resource
from holdfast.history.entry import Entry, implicit_directory
from holdfast.history.errors import ArchiveNotIndexed
from holdfast.repositories.archive_records import Archive
from holdfast.repositories.models import Repository
from holdfast.repositories.own_places import HiddenPaths

if TYPE_CHECKING:
    from holdfast.history.index import HistoryIndex

PAGE = 200
"""Paths in hostile archives can have 16 KiB, and addresses three times that."""
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Page = tuple[list[Entry], str | None]


@frozen
class Files:
    """The part of an archive that a caller may see; `segments` is its address."""

    index: ArchiveIndex
    repository: Repository
    archive: Archive
    segments: tuple[bytes, ...]
    hidden: HiddenPaths

    def resource(self, path: bytes) -> Resource:
        """The resource at a path. Raise NotFound."""
        found = None if self.hidden.hides(path) else self._entry(path)
        if found is None or not _is_shown(found):
            raise not_there()
        return self._shown(found)

    def below(self, folder: bytes) -> Iterator[list[Resource]]:
        """Yield the content of a folder page by page, so that only part of a large folder is in memory."""
        cursor: str | None = None
        while True:
            entries, cursor = self._page(folder, cursor)
            yield [self._shown(one) for one in entries if _is_shown(one) and not self.hidden.hides(one.path)]
            if cursor is None:
                return

    def _entry(self, path: bytes) -> Entry | None:
        def ask(index: HistoryIndex | None, _covered: IndexedArchives) -> Entry | None:
            if index is None:
                return None
            archive = self.archive.engine_id
            try:
                if (found := index.entry(archive, path)) is not None:
                    return found
                # A folder above the sources is not itself in the archive; only its content is.
                return implicit_directory(path) if index.browse(archive, path, limit=1).exists else None
            except ArchiveNotIndexed:
                return None

        return self.index.ask(self.repository, ask)

    def _page(self, folder: bytes, cursor: str | None) -> Page:
        engine_id = self.archive.engine_id

        def ask(index: HistoryIndex | None, _covered: IndexedArchives) -> Page:
            try:
                page = index.browse(engine_id, folder, limit=PAGE, cursor=cursor) if index is not None else None
            except ArchiveNotIndexed:
                page = None
            if index is None or page is None or not page.exists:
                raise not_there()
            return [_behind(index, engine_id, one) for one in page.entries], page.next_cursor

        return self.index.ask(self.repository, ask)

    def _shown(self, entry: Entry) -> Resource:
        path = entry.path
        where = address((*self.segments, *path.split(b"/")))
        name = readable(path.rpartition(b"/")[2])
        modified = None if entry.is_implicit else EPOCH + timedelta(microseconds=entry.mtime)
        if entry.is_directory:
            return Resource(f"{where}/", name, None, modified)
        return Resource(where, name, entry.size, modified, etag_of(entry, self.archive))


def _is_shown(entry: Entry) -> bool:
    """Whether a WebDAV client can see and address this entry.

    Clients resolve `.` and `..` in addresses, so such names would lead to the folder itself or above it.
    """
    has_address = entry.path.rpartition(b"/")[2] not in (b"", b".", b"..")
    return has_address and (entry.is_directory or stat.S_ISREG(entry.mode))


def _behind(index: HistoryIndex, archive: str, entry: Entry) -> Entry:
    """The entry; for a hard link, with the size of its file."""
    return (index.entry(archive, entry.path) or entry) if entry.is_hard_link else entry
