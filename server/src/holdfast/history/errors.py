"""What can go wrong with an index, each named for the fact."""


class HistoryError(Exception):
    """Anything the file-history index refuses or cannot do."""


class IndexMissing(HistoryError):
    """No index is stored there: every archive is pending."""


class IndexDamaged(HistoryError):
    """The stored index cannot be trusted: throw it away and build it again, it is derived data."""


class IndexVersionMismatch(HistoryError):
    """The index was written by another version of this code: build it again."""


class IndexBusy(HistoryError):
    """Another ingest or sweep of the same index is running."""


class IndexStorageFull(HistoryError):
    """The disk of the index is full; what was there before is unchanged."""


class IndexUnavailable(HistoryError):
    """The store of the index cannot be reached or read just now."""


class ArchiveNotIndexed(HistoryError):
    """The archive has no entry in this index."""


class InvalidCursor(HistoryError):
    """The paging cursor is not one this index gave out."""


class ListingFailed(HistoryError):
    """The engine's listing ended early, failed, or is not what was asked for; nothing was indexed."""


class ChunkRouteFailed(HistoryError):
    """The engine's metadata chunks could not be read; the CLI listing has to be used."""


class ProgramChanged(ChunkRouteFailed):
    """The engine's program on another machine is not the one that has passed the self-test."""


class GarbledItems(ChunkRouteFailed):
    """The metadata chunks do not hold a stream of items."""


class ItemTooLarge(ChunkRouteFailed):
    """An item is larger than this process takes into memory; the engine's listing prints it in a short line."""


class ArchiveUnreadable(HistoryError):
    """The archive holds something that no file can be; nothing was indexed."""


class ArchiveTooLarge(HistoryError):
    """Reading the archive would take more memory than any real archive needs; nothing was indexed."""


class ArchiveGone(ChunkRouteFailed):
    """The repository has no archive with that id."""


class RepositoryReplaced(ChunkRouteFailed):
    """The helper has ended because another repository is in the place of the one that it had opened."""


class LinkLost(ChunkRouteFailed):
    """The helper has ended because the server of the repository does not answer any more."""


class GaveWay(ChunkRouteFailed):
    """The helper has ended because other work waits for the repository; it can be opened again when that has ended."""


class ContentMoved(ChunkRouteFailed):
    """An engine is writing to the repository and has moved the chunk; it may be found in a moment."""


class SelfTestFailed(Exception):
    """The chunk route must not be used with this program; the message says why."""
