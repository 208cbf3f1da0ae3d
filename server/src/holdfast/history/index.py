"""The file-history index of one repository: every file of every indexed archive."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import islice

from backup_engine.frozen import frozen
from holdfast.history import bits
from holdfast.history.answers import (
    BrowsePage,
    BrowseSort,
    ChangeKind,
    ChangePage,
    GroupPage,
    PathHistory,
    SearchPage,
)
from holdfast.history.browse import BrowseOptions, Browser
from holdfast.history.changes import MOST_STORED_PATHS, Comparer, is_mixed
from holdfast.history.chunk_table import chunk_damage, chunks_of
from holdfast.history.chunks.file_chunk import Chunk
from holdfast.history.chunks.ingest import ChunkSource, ingest_chunks
from holdfast.history.chunks.items import content_names
from holdfast.history.columns import KeptColumns
from holdfast.history.entry import Entry
from holdfast.history.errors import ArchiveNotIndexed
from holdfast.history.excludes import Excludes
from holdfast.history.folder_sizes import FolderSizes, complete_sizes
from holdfast.history.folder_timeline import FolderTimelinePage, folder_timeline
from holdfast.history.hardlinks import linked_file, with_link_contents
from holdfast.history.ingest import Ingest, IngestResult, Progress, all_chunks
from holdfast.history.losses import LossPage, losses
from holdfast.history.presence import histories, path_id, version_at
from holdfast.history.records import RecordSource
from holdfast.history.search import search
from holdfast.history.store import ArchiveRow, Snapshot, Store, VersionRow
from holdfast.history.stored_bytes import added_bytes, stored_bytes
from holdfast.history.sweep import SweepResult, sweep
from holdfast.history.tree import Branch, tree

_ENTRIES_AT_ONCE = 1000
_PROBLEMS_MOST = 20
_NOTHING_EXCLUDED = Excludes()


@frozen
class IndexedArchive:
    engine_id: str
    entries: int
    route: str
    lossy: bool


@frozen
class IndexStats:
    archives: int
    entries: int  # (archive, file) pairs in the index
    versions: int
    paths: int
    bytes: int


@frozen
class StoredFile:
    """The file at a path of an archive; hard links are followed."""

    entry: Entry
    chunks: list[Chunk] | None  # of its content, in order; None if unknown


class HistoryIndex:
    """Safe for use from many threads. One ingest or sweep runs at a time (otherwise IndexBusy); readers never wait for
    it.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        columns = KeptColumns()
        self._comparer = Comparer(columns)
        self._browser = Browser(FolderSizes(columns), self._comparer)

    @property
    def generation(self) -> str:
        """Identifies the index: if it changes, previously indexed archives are not in this one."""
        return self._store.generation

    def close(self) -> None:
        self._store.close()

    def retire(self) -> None:
        """Close files that are not in use; the others are closed when their work ends."""
        self._store.retire()

    def forget(self) -> None:
        """Delete the whole index."""
        self._store.destroy()

    # --- writing

    def ingest_listing(
        self,
        archive: str,
        source: RecordSource,
        *,
        base: str | None = None,
        excludes: Excludes = _NOTHING_EXCLUDED,
        progress: Progress | None = None,
    ) -> IngestResult:
        """Index an archive from records read to their end. `base` is a hint that affects the cost, not the result.

        Raise the source's exceptions (nothing is indexed then), IndexBusy, IndexStorageFull.
        """
        with self._store.exclusive():
            complete_sizes(self._store)
            ingest = Ingest(self._store, archive, source.format, source.parse, excludes, progress)
            ingest.compare_with(base)
            for records in source.batches():
                ingest.accept(records)
            result = ingest.finish(source.route, ingest.versions())
            self._note_changes(base, archive)
        return result

    def ingest_chunks(
        self,
        archive: str,
        source: ChunkSource,
        *,
        series: str,
        base: str | None = None,
        excludes: Excludes = _NOTHING_EXCLUDED,
        progress: Progress | None = None,
    ) -> IngestResult:
        """Index an archive from the engine's metadata chunks; read only those that the series' last archive lacks."""
        with self._store.exclusive():
            complete_sizes(self._store)
            result = ingest_chunks(self._store, archive, source, series, base, excludes, progress)
            self._note_changes(result.base, archive)
        return result

    def _note_changes(self, before: str | None, after: str) -> None:
        """Store the changes between an archive and its predecessor: they are requested most often, and must be cheap to
        read.
        """
        if before is None or before == after:
            return
        with self._store.read() as snapshot:
            rows = snapshot.archive(before), snapshot.archive(after)
            if rows[0] is None or rows[1] is None or is_mixed(snapshot.meta()):
                return
            comparison = self._comparer.computed(snapshot, rows[0], rows[1])
        if len(comparison.paths) <= MOST_STORED_PATHS:
            with self._store.write() as transaction:
                transaction.put_comparison(rows[0].id, rows[1].id, comparison.dump())

    def remove(self, archives: Iterable[str]) -> int:
        """Remove archives from the index at once; `sweep` frees their data later. Return how many there were."""
        removed = 0
        for engine_id in archives:
            with self._store.write() as transaction:
                row = transaction.archive(engine_id)
                if row is not None:
                    transaction.delete_archive(row.id, all_chunks(transaction))
                    removed += 1
        return removed

    def sweep(self) -> SweepResult:
        """Free data that no archive uses any more."""
        with self._store.exclusive():
            return sweep(self._store)

    # --- reading

    def archives(self) -> list[IndexedArchive]:
        with self._store.read() as snapshot:
            return [IndexedArchive(row.engine_id, row.entries, row.route, row.lossy) for row in snapshot.archives()]

    def stats(self) -> IndexStats:
        with self._store.read() as snapshot:
            rows = snapshot.archives()
            versions, paths = snapshot.count("version"), snapshot.count("path")
        return IndexStats(len(rows), sum(row.entries for row in rows), versions, paths, self._store.size())

    def changes(
        self,
        before: str,
        after: str,
        *,
        prefix: bytes = b"",
        kinds: Collection[ChangeKind] = (),
        limit: int = 200,
        cursor: str | None = None,
    ) -> ChangePage:
        """Return what differs between any two archives. Raise ArchiveNotIndexed."""
        with self._store.read() as snapshot:
            rows = _row(snapshot, before), _row(snapshot, after)
            return self._comparer.page(snapshot, *rows, prefix, kinds, limit, cursor)

    def change_groups(
        self,
        before: str,
        after: str,
        *,
        folder: bytes = b"",
        kinds: Collection[ChangeKind] = (),
        limit: int = 200,
        cursor: str | None = None,
    ) -> GroupPage:
        """Return what differs between two archives, added up for each entry of a folder. Raise ArchiveNotIndexed."""
        with self._store.read() as snapshot:
            rows = _row(snapshot, before), _row(snapshot, after)
            return self._comparer.groups(snapshot, *rows, folder, kinds, limit, cursor)

    def has_path(self, path: bytes) -> bool:
        """Return whether an indexed archive contains or contained the path. A deleted path counts until it is swept."""
        with self._store.read() as snapshot:
            return path_id(snapshot, path) != 0

    def path_history(self, path: bytes) -> PathHistory:
        """Return every indexed archive that contains the path, with its entry there."""
        with self._store.read() as snapshot:
            return _path_history(snapshot, path)

    def file_history(self, path: bytes) -> PathHistory:
        """Like `path_history`, but hard links are followed: the entry changes with the content, not with which name
        points to which.
        """
        with self._store.read() as snapshot:
            return with_link_contents(snapshot, _path_history(snapshot, path))

    def file(self, archive: str, path: bytes) -> StoredFile | None:
        """Return the file at a path of an archive and the chunks of its content; None if there is none.

        Raise ArchiveNotIndexed.
        """
        with self._store.read() as snapshot:
            found = _file(snapshot, archive, path)
            if found is None:
                return None
            return StoredFile(found.entry, chunks_of(snapshot, found.version, found.entry.size))

    def entry(self, archive: str, path: bytes) -> Entry | None:
        """Like `file`, without the chunks."""
        with self._store.read() as snapshot:
            found = _file(snapshot, archive, path)
            return None if found is None else found.entry

    def tree(
        self, archive: str, paths: Sequence[bytes], *, without: Collection[bytes] = (), most: int
    ) -> list[Branch] | None:
        """Return everything at and below some paths of an archive, with the chunks of its files; None if only the
        engine knows all of it. Raise ArchiveNotIndexed.
        """
        with self._store.read() as snapshot:
            return tree(snapshot, _row(snapshot, archive), paths, without, most)

    def browse(
        self,
        archive: str,
        directory: bytes,
        *,
        limit: int = 500,
        cursor: str | None = None,
        sort: BrowseSort = BrowseSort.NAME,
        text: str = "",
        without: Collection[bytes] = (),
        sizes: bool = False,
        against: str | None = None,
    ) -> BrowsePage:
        """List a directory of an archive, including folders that the archive does not list itself. Raise
        ArchiveNotIndexed.

        `text`: only names that contain it, case-insensitive. `without`: names to leave out. `sizes`: add up the content
        of folders. `against`: add the change of each entry since this archive, if it is indexed.
        """
        asked = BrowseOptions(limit, cursor, sort, text, without, sizes)
        with self._store.read() as snapshot:
            before = snapshot.archive(against) if against is not None else None
            return self._browser.page(snapshot, _row(snapshot, archive), directory, asked, before)

    def folder_timeline(self, directory: bytes, *, limit: int = 200, cursor: str | None = None) -> FolderTimelinePage:
        """Return every name that was ever in a directory, with the archives that contain it."""
        with self._store.read() as snapshot:
            return folder_timeline(snapshot, directory, limit, cursor)

    def losses(
        self, going: Collection[str], staying: Collection[str], *, limit: int = 100, cursor: str | None = None
    ) -> LossPage:
        """Return what would be lost with the `going` archives because no `staying` archive contains it."""
        with self._store.read() as snapshot:
            return losses(snapshot, going, staying, limit, cursor)

    def stored_bytes(self, sets: Sequence[Collection[str]]) -> list[int] | None:
        """Return the bytes that each set of archives takes in the repository; None if chunks of a file are unknown."""
        with self._store.read() as snapshot:
            return stored_bytes(snapshot, sets)

    def added_bytes(self, archives: Sequence[str]) -> list[int] | None:
        """Return the bytes of each archive that no archive before it in the list contains.

        None as for `stored_bytes`.
        """
        with self._store.read() as snapshot:
            return added_bytes(snapshot, archives)

    def search(
        self,
        query: str,
        *,
        limit: int = 50,
        cursor: str | None = None,
        within: Collection[str] | None = None,
        missing_from: Collection[str] = (),
    ) -> SearchPage:
        """Find paths by a case-insensitive part of their name, or of the whole path if the text contains a slash.

        `within`: only paths in at least one of these archives. `missing_from`: only paths in none of these.
        """
        with self._store.read() as snapshot:
            return search(snapshot, query, limit, cursor, within, missing_from)

    def names(self, after: int, limit: int) -> list[tuple[int, bytes]]:
        """Return distinct names of files and folders, ordered by id. Ids are never reused for another name."""
        with self._store.read() as snapshot:
            return snapshot.names_like((), after, limit)

    def name_count(self) -> int:
        with self._store.read() as snapshot:
            return snapshot.count("name")

    def entries(self, archive: str) -> Iterator[Entry]:
        """Yield everything that the archive lists, in no particular order. Raise ArchiveNotIndexed."""
        with self._store.read() as snapshot:
            row = _row(snapshot, archive)
            versions = iter(bits.unpack(bits.decode(snapshot.bits(row.id, all_chunks(snapshot)))).tolist())
            while batch := list(islice(versions, _ENTRIES_AT_ONCE)):
                for found in snapshot.entries(batch):
                    if not found.entry.is_implicit:
                        yield found.entry

    def damage(self) -> list[str]:
        """Read the whole store and return what is broken; empty if nothing is. Takes a while on a large index."""
        found = self._store.damage()
        with self._store.read() as snapshot:
            content = content_names(snapshot.meta())
            return [*found, *islice(chunk_damage(snapshot, content), _PROBLEMS_MOST)]


def _path_history(snapshot: Snapshot, path: bytes) -> PathHistory:
    number = path_id(snapshot, path)
    found = histories(snapshot, [number]) if number else {}
    return found.get(number, PathHistory(path, []))


def _file(snapshot: Snapshot, archive: str, path: bytes) -> VersionRow | None:
    """Return the file at a path of an archive, following hard links; None if there is none. Raise ArchiveNotIndexed."""
    found = version_at(snapshot, archive, path)
    if found is None:
        _row(snapshot, archive)
        return None
    return linked_file(snapshot, _row(snapshot, archive).id, found) if found.entry.is_hard_link else found


def _row(snapshot: Snapshot, engine_id: str) -> ArchiveRow:
    row = snapshot.archive(engine_id)
    if row is None:
        raise ArchiveNotIndexed(engine_id)
    return row
