"""Answers of a helper, wherever it runs: frames with a letter and a length, within these limits."""

import json
import struct

from holdfast.history.errors import (
    ArchiveGone,
    ArchiveTooLarge,
    ChunkRouteFailed,
    ContentMoved,
    HistoryError,
    LinkLost,
    RepositoryReplaced,
)

PROTOCOL = 3

FRAME = struct.Struct(">cQ")
ID_BYTES = 32  # of a chunk
NUMBER_BYTES = 4
ANSWER_BYTES_MOST = 64 * 1024
IDS_BYTES_MOST = 4 * 1024 * 1024  # the chunks of an archive with about 65 million files; beyond it, the listing
CHUNK_BYTES_MOST = 4 * 1024 * 1024  # the engine cuts item metadata into chunks of at most 512 KiB
SELFTEST_BYTES_MOST = 4 * 1024 * 1024
MESSAGE_CHARACTERS_MOST = 1000
_SAME_CHUNK_MOST = 4  # times, on average; our helper refuses more, but the one on another machine may not be ours
_TOO_LARGE = frozenset({"TooLarge", "MemoryError"})


def joined_ids(joined: bytes) -> list[bytes]:
    """Given a helper's joined ids, return them as a list. Raise ChunkRouteFailed, ArchiveTooLarge."""
    if len(joined) % ID_BYTES:
        raise ChunkRouteFailed("the helper answered a chunk id of the wrong length")
    ids = [joined[at : at + ID_BYTES] for at in range(0, len(joined), ID_BYTES)]
    if len(ids) > _SAME_CHUNK_MOST * len(set(ids)):
        raise ArchiveTooLarge("the archive names the same chunks of metadata again and again")
    return ids


def named_error(data: bytes) -> HistoryError:
    """Convert a helper's error to an exception of this package."""
    try:
        error = json.loads(data)
        kind, message = str(error["kind"])[:100], str(error["message"])[:MESSAGE_CHARACTERS_MOST]
    except (ValueError, KeyError, TypeError, RecursionError):
        return ChunkRouteFailed("the helper failed and did not say why")
    if kind == "LookupError":
        return ArchiveGone(message)
    if kind == "Moved":
        return ContentMoved(message)
    if kind == "Replaced":
        return RepositoryReplaced(message)
    if kind == "LinkLost":
        return LinkLost(message)
    if kind in _TOO_LARGE:
        return ArchiveTooLarge(message or "reading the archive's metadata takes more memory than is allowed")
    return ChunkRouteFailed(f"{kind}: {message}" if message else kind)
