"""Errors of an index, each named for the fact."""


class HistoryError(Exception):
    """Base of all errors of the file-history index."""


class IndexMissing(HistoryError):
    """There is no index: every archive is pending."""


class IndexDamaged(HistoryError):
    """The stored index cannot be trusted: discard and rebuild it, as it is derived data."""


class IndexVersionMismatch(HistoryError):
    """The index was written by another version of this code: rebuild it."""


class IndexBusy(HistoryError):
    """Another ingest or sweep of the same index is running."""


class IndexStorageFull(HistoryError):
    """The disk of the index is full; its previous content is unchanged."""


class IndexUnavailable(HistoryError):
    """The store of the index is temporarily unreachable or unreadable."""


class ArchiveNotIndexed(HistoryError):
    """The archive is not in this index."""


class InvalidCursor(HistoryError):
    """The paging cursor was not created by this index."""


class ListingFailed(HistoryError):
    """The engine's listing ended early, failed, or has an unexpected format; nothing was indexed."""


class ChunkRouteFailed(HistoryError):
    """The engine's metadata chunks could not be read; use the CLI listing instead."""


class ProgramChanged(ChunkRouteFailed):
    """The engine's program on another machine is not the one that passed the self-test."""


class GarbledItems(ChunkRouteFailed):
    """The metadata chunks do not contain a valid stream of items."""


class ItemTooLarge(ChunkRouteFailed):
    """An item is too large to be read into memory; the engine's listing prints it in a short line."""


class ArchiveUnreadable(HistoryError):
    """The archive contains an entry that cannot be a real file; nothing was indexed."""


class ArchiveTooLarge(HistoryError):
    """Reading the archive would take more memory than any real archive needs; nothing was indexed."""


class ArchiveGone(ChunkRouteFailed):
    """The repository has no archive with that id."""


class RepositoryReplaced(ChunkRouteFailed):
    """The helper has ended because another repository has taken the place of the opened one."""


class LinkLost(ChunkRouteFailed):
    """The helper has ended because the repository's server no longer responds."""


class GaveWay(ChunkRouteFailed):
    """The helper has ended because other work waits for the repository; it can be opened again afterwards."""


class ContentMoved(ChunkRouteFailed):
    """An engine is writing to the repository and has moved the chunk; it may be found again shortly."""


class SelfTestFailed(Exception):
    """The chunk route must not be used with this program; the message gives the reason."""
