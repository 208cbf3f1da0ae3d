"""Parse the items of the engine's metadata stream as entries."""

import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from hashlib import blake2b, sha256
from typing import Any

import msgpack  # type: ignore[import-untyped]

from holdfast.history.chunks.file_chunk import packed
from holdfast.history.entry import Entry, microseconds, owner_name, whole_microseconds
from holdfast.history.errors import GarbledItems

_CONTENT_BYTES = 8
CONTENT_2 = "content_2"  # key in the meta table once chunks of engine 2 have been read
_WHOLE_BYTES_MOST = 64 * 1024  # largest item that is unpacked whole: its objects take up to a hundred times its bytes
_FIELD_BYTES_MOST = 64 * 1024  # largest field of a larger item; its fields are unpacked one by one
_CHUNK_BYTES_MOST = 64  # an entry in the list of chunks: an id and two numbers
ContentOf = Callable[[Iterable[bytes]], int]
"""Given the ids of a file's chunks, return a number that identifies its content."""
_WANTED = frozenset(
    [b"path", b"mode", b"uid", b"gid", b"user", b"group", b"mtime", b"source", b"target", b"size", b"part"]
)


class ItemParser:
    """Parses raw items as entries, given how the index identifies contents, the latest time that the engine shows, and
    the engine's major version.
    """

    def __init__(self, content_of: ContentOf, latest_nanoseconds: int, major: int = 1) -> None:
        self._content_of = content_of
        self._latest = latest_nanoseconds
        self._link = b"source" if major == 1 else b"target"
        self._is_numbered = major != 1  # the listing of engine 2 shows the number of an owner without a name
        self._microseconds = microseconds if major == 1 else whole_microseconds

    def parse(self, record: bytes) -> Entry | None:
        """Return the entry; None for an item that the engine does not list. Raise GarbledItems if it is not a valid
        item.
        """
        try:
            item = _unpacked(record)
        except (ValueError, TypeError, msgpack.UnpackException, RecursionError) as error:
            raise GarbledItems(f"an item cannot be read: {error}") from error
        if not isinstance(item, dict):
            raise GarbledItems("an item is not a map")
        if b"part" in item:
            return None  # part of a file, from an interrupted backup
        try:
            return self._entry(item)
        except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError) as error:
            raise GarbledItems(f"an item is not what was expected: {error!r}") from error

    def _entry(self, item: dict[bytes, Any]) -> Entry:
        path, mode = item[b"path"], item[b"mode"]
        link = item.get(self._link) or b""
        chunks = item.get(b"chunks") or ()
        if not isinstance(path, bytes) or not path or b"\0" in path or not isinstance(link, bytes):
            raise TypeError("a path is not bytes")
        size = _size(item, mode, link, chunks)
        has_content = size and stat.S_ISREG(mode) and not link
        content = self._content_of(chunk[0] for chunk in chunks) if has_content else 0
        mtime = self._microseconds(_big_integer(item[b"mtime"]), self._latest)
        return Entry(
            path,
            mode,
            *self._owner(item),
            size,
            mtime,
            link,
            content,
            chunks=packed(chunks, size) if has_content else b"",
        )

    def _owner(self, item: dict[bytes, Any]) -> tuple[int, int, str | None, str | None]:
        if not self._is_numbered:
            return item[b"uid"], item[b"gid"], _name(item[b"user"]), _name(item[b"group"])
        uid, gid = item.get(b"uid") or 0, item.get(b"gid") or 0
        user, group = _name(item.get(b"user")), _name(item.get(b"group"))
        return uid, gid, None if user == str(uid) else user, None if group == str(gid) else group


def content_of(secret: bytes, chunk_ids: Iterable[bytes]) -> int:
    """Identify content by its chunks: the same chunks in the same order are the same content."""
    return _number_of(blake2b(digest_size=_CONTENT_BYTES, key=secret), chunk_ids)


def content_of_2(chunk_ids: Iterable[bytes]) -> int:
    """Identify content as the listing of engine 2 does, so that both routes lead to the same versions."""
    return _number_of(sha256(), chunk_ids)


def content_names(meta: Mapping[str, bytes], major: int | None = None) -> ContentOf:
    """Return how an index identifies contents, given its meta table and, if known, the engine's major version."""
    if major == 2 or (major is None and CONTENT_2 in meta):
        return content_of_2
    return partial(content_of, meta["secret"])


def _number_of(hashed: Any, chunk_ids: Iterable[bytes]) -> int:
    for chunk_id in chunk_ids:
        hashed.update(chunk_id)
    return int.from_bytes(hashed.digest()[-_CONTENT_BYTES:], "little", signed=True) or 1


def _unpacked(record: bytes) -> Any:
    """Unpack an item. From a large one, unpack only the fields that an entry needs, and its chunks one at a time."""
    if len(record) <= _WHOLE_BYTES_MOST:
        return msgpack.unpackb(record, raw=True, strict_map_key=False)
    fields = _Fields(record)
    item: dict[bytes, Any] = {}
    for _ in range(fields.map_length()):
        name = fields.value(_FIELD_BYTES_MOST)
        if name == b"chunks":
            item[name] = LongList(record, fields.skipped()[0])
        elif isinstance(name, bytes) and name in _WANTED:
            item[name] = fields.value(_FIELD_BYTES_MOST)
        else:
            fields.skipped()
    return item


class _Fields:
    """Walks through the parts of a packed value without making objects of unwanted ones."""

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
        """Skip the next value and return its position."""
        begin = self._unpacker.tell()
        self._unpacker.skip()
        return self._start + begin, self._start + self._unpacker.tell()

    def value(self, most: int) -> Any:
        """Return the next value. Raise ValueError if it is longer than `most` bytes."""
        begin, end = self.skipped()
        if end - begin > most:
            raise ValueError("a field of an item is too large")
        return msgpack.unpackb(self._record[begin:end], raw=True, strict_map_key=False)


class LongList:
    """The list of chunks of a large item, unpacked again for each iteration."""

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


def _big_integer(value: Any) -> int:
    """Return a time as a number of nanoseconds.

    Engine 1 writes times as numbers, or as little-endian bytes if they need more than 63 bits; engine 2 writes
    timestamps.
    """
    if isinstance(value, msgpack.Timestamp):
        moment: int = value.to_unix_nano()
        return moment
    if isinstance(value, bytes):
        return int.from_bytes(value, "little", signed=True)
    if not isinstance(value, int):
        raise TypeError("a time is not a number")
    return value
