"""An item of the engine's metadata stream (engine 1) as an entry."""

import stat
from hashlib import blake2b
from typing import Any

import msgpack  # type: ignore[import-untyped]

from holdfast.archives.history.entry import Entry, microseconds, owner_name
from holdfast.archives.history.errors import GarbledItems

_CONTENT_BYTES = 8


class ItemParser:
    """Given the index's secret and the latest time the engine shows, turn raw items into entries."""

    def __init__(self, secret: bytes, latest_nanoseconds: int) -> None:
        self._secret = secret
        self._latest = latest_nanoseconds

    def parse(self, record: bytes) -> Entry | None:
        """Return the entry; None for an item that the engine does not list. Raise GarbledItems if it is no item."""
        try:
            item = msgpack.unpackb(record, raw=True, strict_map_key=False)
        except (ValueError, msgpack.UnpackException, RecursionError) as error:
            raise GarbledItems(f"an item cannot be read: {error}") from error
        if not isinstance(item, dict):
            raise GarbledItems("an item is not a map")
        if b"part" in item:
            return None  # the piece of a file that an interrupted backup had got to
        try:
            return self._entry(item)
        except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError) as error:
            raise GarbledItems(f"an item is not what was expected: {error!r}") from error

    def _entry(self, item: dict[bytes, Any]) -> Entry:
        path, mode = item[b"path"], item[b"mode"]
        link = item.get(b"source") or b""
        chunks = item.get(b"chunks") or ()
        if not isinstance(path, bytes) or not path or b"\0" in path or not isinstance(link, bytes):
            raise TypeError("a path is not bytes")
        size = _size(item, mode, link, chunks)
        content = self._content(chunks) if size and stat.S_ISREG(mode) and not link else 0
        mtime = microseconds(_big_integer(item[b"mtime"]), self._latest)
        return Entry(
            path,
            mode,
            item[b"uid"],
            item[b"gid"],
            _name(item[b"user"]),
            _name(item[b"group"]),
            size,
            mtime,
            link,
            content,
        )

    def _content(self, chunks: Any) -> int:
        """Two files with the same chunks in the same order have the same content."""
        joined = b"".join([chunk[0] for chunk in chunks])
        digest = blake2b(joined, digest_size=_CONTENT_BYTES, key=self._secret).digest()
        return int.from_bytes(digest, "little", signed=True) or 1


def _size(item: dict[bytes, Any], mode: int, link: bytes, chunks: Any) -> int:
    if stat.S_ISLNK(mode):
        return len(link)
    size = item.get(b"size")
    if size is None:
        size = sum(chunk[1] for chunk in chunks)
    if not isinstance(size, int):
        raise TypeError("a size is not a number")
    return size


def _name(raw: bytes | None) -> str | None:
    return owner_name(raw) if raw else None


def _big_integer(value: int | bytes) -> int:
    """The engine writes times as numbers, and as little-endian bytes where they need more than 63 bits."""
    if isinstance(value, bytes):
        return int.from_bytes(value, "little", signed=True)
    if not isinstance(value, int):
        raise TypeError("a time is not a number")
    return value
