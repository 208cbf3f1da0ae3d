"""The CLI route: `borg list` of an archive (engine 1.2 and 1.4), read as bytes, completely or not at all.

`{bpath!a}` prints the path as an ASCII literal, which is exact for every byte; `{path}`, `{bpath}` and the JSON output
turn bytes that are not UTF-8 into `?`. Link targets have no such form, so a `?` in one is flagged.
"""

import stat
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from functools import lru_cache
from typing import IO

from backup_engine.borg1.list_files import COMPLETE_FORMAT
from backup_engine.listing import exact_bytes
from holdfast.history.entry import LISTING, Entry, listing_flags, mode_of, owner_name
from holdfast.history.errors import ListingFailed

FORMAT = COMPLETE_FORMAT
FIELDS = FORMAT.count("{TAB}") + 1

ENVIRONMENT = {"TZ": "UTC", "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8"}  # engine 1 prints local time without a zone

_BLOCK_BYTES = 4 * 1024 * 1024  # in total, small reads from a pipe cost ten times as much
_RECORD_BYTES_MOST = 1024 * 1024
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - both sides are UTC, without a zone
_MICROSECOND = timedelta(microseconds=1)


def listing_arguments(repository: str, archive: str, *, lock_wait: int = 60) -> tuple[str, ...]:
    """Return the engine's arguments to list an archive for `Listing`; run them with ENVIRONMENT."""
    return ("list", "--lock-wait", str(lock_wait), "--format", FORMAT, f"{repository}::{archive}")


class Listing:
    """The records of a listing. `wait` waits for the engine and returns its exit code."""

    format = LISTING
    route = "listing"
    end = b"\0"

    def __init__(self, output: IO[bytes], wait: Callable[[], int]) -> None:
        self._output = output
        self._wait = wait

    def batches(self) -> Iterator[list[bytes]]:
        """Yield the records. Raise ListingFailed if the output is cut off or the engine failed."""
        rest = b""
        while block := self._output.read(_BLOCK_BYTES):
            *records, rest = (rest + block).split(self.end)
            if len(rest) > _RECORD_BYTES_MOST:
                raise ListingFailed("the listing has a record without an end")
            if records:
                yield records
        if rest:
            raise ListingFailed("the listing ends in the middle of a record")
        code = self._wait()
        if code != 0:
            raise ListingFailed(f"the engine ended with code {code}")

    def parse(self, record: bytes) -> Entry:
        return parse_record(record)


def parse_record(record: bytes) -> Entry:
    """Given a record, return its entry. Raise ListingFailed if it is invalid."""
    fields = record.split(b"\t")
    if len(fields) != FIELDS:
        raise ListingFailed(f"a record has {len(fields)} fields instead of {FIELDS}")
    try:
        mode, uid, gid, user, group = _owner(*fields[1:6])
        path, size, mtime, link = _exact(fields[0]), int(fields[6]), _microseconds(fields[7]), _exact(fields[8])
        if not path:
            raise ValueError("a path is empty")
    except ValueError as error:
        raise ListingFailed(f"a record cannot be read: {error}") from error
    if stat.S_ISLNK(mode):
        size = len(link)  # the engine counts characters
    return Entry(path, mode, uid, gid, user, group, size, mtime, link, 0, listing_flags(mode, size, link))


@lru_cache(maxsize=4096)  # an archive has few distinct owners
def _owner(
    mode: bytes, uid: bytes, gid: bytes, user: bytes, group: bytes
) -> tuple[int, int, int, str | None, str | None]:
    text = mode.decode("ascii")
    return mode_of(text[:1], text[1:]), int(uid), int(gid), _name(user), _name(group)


def _exact(literal: bytes) -> bytes:
    """Given the `!a` form of a text, return its bytes."""
    if literal == b"''":
        return b""
    exact = exact_bytes(literal)
    if b"\0" in exact:
        raise ValueError("a NUL in a text")
    return exact


def _name(field: bytes) -> str | None:
    """Return a quoted name; None for a number, which means that the archive has no name."""
    if field[:1] in (b"'", b'"'):
        return owner_name(_exact(field))
    int(field)
    return None


def _microseconds(text: bytes) -> int:
    return (datetime.fromisoformat(text.decode("ascii")) - _EPOCH) // _MICROSECOND
