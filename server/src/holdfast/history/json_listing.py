"""The CLI route of engine 2: `borg list --json-lines`, with exact names and links, and a fingerprint of each file's
content.

Hard links are plain files there: each name of a file has its whole size, and none points to another.
"""

import stat
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import IO

from backup_engine.listing import JSON_START, JsonRecord, json_record
from backup_engine.results import GarbledOutput
from holdfast.history.entry import Entry, mode_of
from holdfast.history.errors import ListingFailed
from holdfast.history.listing import Listing

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_CONTENT_DIGITS = 16


def listing_of(output: IO[bytes], wait: Callable[[], int] = lambda: 0) -> Listing:
    """Given a spooled listing at its beginning, return a parser for the format in which the engine wrote it."""
    start = output.read(1)
    output.seek(0)
    return JsonListing(output, wait) if start == JSON_START else Listing(output, wait)


class JsonListing(Listing):
    """The JSON format: each record is a line."""

    end = b"\n"

    def parse(self, record: bytes) -> Entry:
        try:
            return _entry(json_record(record))
        except (GarbledOutput, ValueError) as error:
            raise ListingFailed(f"a record cannot be read: {error}") from error


def _entry(told: JsonRecord) -> Entry:
    mode = mode_of(told.type, told.mode)
    if not told.path or b"\0" in told.path or b"\0" in told.link:
        raise ValueError("a path is empty or holds a NUL")
    size = len(told.link) if stat.S_ISLNK(mode) else told.size
    content = _content(told.fingerprint) if size and stat.S_ISREG(mode) else 0
    mtime = (datetime.fromisoformat(told.mtime) - _EPOCH) // _MICROSECOND
    return Entry(told.path, mode, told.uid, told.gid, told.user, told.group, size, mtime, told.link, content)


def _content(fingerprint: str) -> int:
    """Return the content's identity: the engine's fingerprint ends with a hash of the chunk ids."""
    digits = bytes.fromhex(fingerprint[-_CONTENT_DIGITS:])
    return int.from_bytes(digits, "little", signed=True) or 1
