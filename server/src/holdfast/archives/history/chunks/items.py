"""An item of the engine's metadata stream (engine 1) as an entry."""

import stat
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from typing import Any

import msgpack  # type: ignore[import-untyped]

from holdfast.archives.history.chunk_table import packed
from holdfast.archives.history.entry import Entry, microseconds, owner_name
from holdfast.archives.history.errors import GarbledItems

_CONTENT_BYTES = 8
_WHOLE_BYTES_MOST = 64 * 1024  # of an item that is unpacked at once: its objects take up to a hundred times its bytes
_FIELD_BYTES_MOST = 64 * 1024  # of a larger item each field is looked at alone
_CHUNK_BYTES_MOST = 64  # an entry of the list of chunks: an id and two numbers
_WANTED = frozenset([b"path", b"mode", b"uid", b"gid", b"user", b"group", b"mtime", b"source", b"size", b"part"])


class ItemParser:
    """Given the index's secret and the latest time the engine shows, turn raw items into entries."""

    def __init__(self, secret: bytes, latest_nanoseconds: int) -> None:
        self._secret = secret
        self._latest = latest_nanoseconds

    def parse(self, record: bytes) -> Entry | None:
        """Return the entry; None for an item that the engine does not list. Raise GarbledItems if it is no item."""
        try:
            item = _unpacked(record)
        except (ValueError, TypeError, msgpack.UnpackException, RecursionError) as error:
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
        has_content = size and stat.S_ISREG(mode) and not link
        content = content_of(self._secret, (chunk[0] for chunk in chunks)) if has_content else 0
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
            chunks=packed(chunks, size) if has_content else b"",
        )


def content_of(secret: bytes, chunk_ids: Iterable[bytes]) -> int:
    """Two files with the same chunks in the same order have the same content."""
    hashed = blake2b(digest_size=_CONTENT_BYTES, key=secret)
    for chunk_id in chunk_ids:
        hashed.update(chunk_id)
    return int.from_bytes(hashed.digest(), "little", signed=True) or 1


def _unpacked(record: bytes) -> Any:
    """Given an item's bytes, return it; of a large one only the fields that an entry needs, its chunks one at a time."""
    if len(record) <= _WHOLE_BYTES_MOST:
        return msgpack.unpackb(record, raw=True, strict_map_key=False)
    fields = _Fields(record)
    item: dict[bytes, Any] = {}
    for _ in range(fields.map_length()):
        name = fields.value(_FIELD_BYTES_MOST)
        if name == b"chunks":
            item[name] = _Chunks(record, fields.skipped()[0])
        elif isinstance(name, bytes) and name in _WANTED:
            item[name] = fields.value(_FIELD_BYTES_MOST)
        else:
            fields.skipped()
    return item


class _Fields:
    """Walks over the parts of a packed value without making objects of those that nobody wants."""

    def __init__(self, record: bytes, start: int = 0) -> None:
        self._record = record
        self._start = start
        self._unpacker = msgpack.Unpacker(raw=True, strict_map_key=False, max_buffer_size=len(record))
        self._unpacker.feed(memoryview(record)[start:])

    def map_length(self) -> int:
        length: int = self._unpacker.read_map_header()
        return length

    def list_length(self) -> int:
        length: int = self._unpacker.read_array_header()
        return length

    def skipped(self) -> tuple[int, int]:
        """Pass over the next value and return where it stands."""
        begin = self._unpacker.tell()
        self._unpacker.skip()
        return self._start + begin, self._start + self._unpacker.tell()

    def value(self, most: int) -> Any:
        """Return the next value. Raise ValueError if it takes more bytes than this."""
        begin, end = self.skipped()
        if end - begin > most:
            raise ValueError("a field of an item is too large")
        return msgpack.unpackb(self._record[begin:end], raw=True, strict_map_key=False)


class _Chunks:
    """The list of chunks of a large item, read again each time it is walked through."""

    def __init__(self, record: bytes, start: int) -> None:
        self._record = record
        self._start = start

    def __iter__(self) -> Iterator[Any]:
        fields = _Fields(self._record, self._start)
        try:
            for _ in range(fields.list_length()):
                yield fields.value(_CHUNK_BYTES_MOST)
        except msgpack.UnpackException as error:
            raise ValueError(f"a list of chunks cannot be read: {error}") from error


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
